/* Convolutions with groups or dilation (gs_conv2d_is_grouped); conv2d.c has all others. No epilogue. */
#pragma once

#include "cl/cl.h"

gs_status gs_cl_conv2d_groups_forward(gs_device *, gs_mem y, gs_mem x, gs_mem w, gs_mem b, size_t n,
                                      const gs_conv2d_sizes *);
gs_status gs_cl_conv2d_groups_backward(gs_device *, gs_mem dx, gs_mem dw, gs_mem db, gs_mem dy, gs_mem x,
                                       gs_mem w, size_t n, const gs_conv2d_sizes *, bool add);
