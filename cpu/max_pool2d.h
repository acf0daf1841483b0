/* Max pooling, one plane of a channel at a time: what max_pool2d.c is made of, and conv2d.c where it does the pooling
 * after its relu too. y, index, dx and dy as in backend.h. */
#pragma once

#include "cpu/cpu.h"

void GS_ISA(gs_cpu_max_pool2d_plane)(const gs_pool2d_sizes *, float *y, int32_t *index, const float *x);
/* relu_y: the y of the pooling, where x came from a relu; only where it is above 0 has dy passed the relu. NULL:
 * everywhere. */
void GS_ISA(gs_cpu_max_unpool2d_plane)(const gs_pool2d_sizes *, float *dx, const float *dy,
                                       const float *relu_y, const int32_t *index);
