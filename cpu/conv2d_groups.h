/* Convolutions with groups or dilation (gs_conv2d_is_grouped); cpu/conv2d.c has all others. No epilogue. */
#pragma once

#include "cpu/cpu.h"

/* Of the pixels along one axis whose padded place is `phase` modulo stride: where they are among those of that phase,
 * first .. end - 1, and how many places of the kernel see them, those with u dilation = phase modulo stride. */
typedef struct gs_conv_phase {
    int first, end, taps;
} gs_conv_phase;

static inline gs_conv_phase gs_conv_phase_of(int phase, int in, int pad, int stride, int kernel,
                                             int dilation) {
    const int before = pad - phase, last = in - 1 + before;
    gs_conv_phase f = {.first = before > 0 ? (before + stride - 1) / stride : 0,
                       .end = last < 0 ? 0 : last / stride + 1};
    for (int u = 0; u < kernel; u++) f.taps += u * dilation % stride == phase;
    return f;
}

gs_status GS_ISA(gs_cpu_conv2d_groups_forward)(gs_device *, gs_mem y, gs_mem x, gs_mem w, gs_mem b, size_t n,
                                               const gs_conv2d_sizes *);
gs_status GS_ISA(gs_cpu_conv2d_groups_backward)(gs_device *, gs_mem dx, gs_mem dw, gs_mem db, gs_mem dy,
                                                gs_mem x, gs_mem w, size_t n, const gs_conv2d_sizes *,
                                                bool add);
