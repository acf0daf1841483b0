#include "cl/cl.h"

gs_status gs_cl_softmax_cross_entropy_forward(gs_device *d, gs_mem p, gs_mem stats, gs_mem x, gs_mem labels,
                                              size_t n, int classes, float smoothing) {
    if (n == 0) return GS_OK;
    gs_mem part;
    GS_TRY(gs_cl_stats_part(d, n, &part));
    GS_TRY(GS_CL_RUN(d, "softmax_cross_entropy", "softmax_cross_entropy_forward", gs_cl_items(n, 8),
                     GS_ARG(p), GS_ARG(part), GS_ARG(x), GS_ARG(labels), GS_ARG(n), GS_ARG(classes),
                     GS_ARG(smoothing)));
    return gs_cl_stats_add(d, stats, part, n);
}

gs_status gs_cl_softmax_cross_entropy_backward(gs_device *d, gs_mem dx, gs_mem p, gs_mem labels, size_t n,
                                               int classes, float smoothing) {
    const gs_share all = {.ranks = 1, .whole = classes, .leaves = 1};
    return gs_cl_softmax_part_backward(d, dx, p, labels, n, classes, smoothing, &all);
}
