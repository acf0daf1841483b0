/* The losses: mean_squared_error, softmax_cross_entropy, and softmax_part, which handles some of the classes. */
#include "cl/cl.h"

/* Scratch for the per-sample results, 2 n floats: n losses, then n flags, 1 (correct) or 0. */
static gs_status stats_part(gs_device *d, size_t n, gs_mem *part) {
    return gs_cl_scratch(d, GS_CL_SCRATCH_PARTIAL, 2 * n, part);
}

static gs_status stats_add(gs_device *d, gs_mem stats, gs_mem part, size_t n) {
    return GS_CL_RUN(d, "stats", "stats_add", gs_cl_groups(d, 1), stats, part, n);
}

gs_status gs_cl_mean_squared_error_forward(gs_device *d, gs_mem stats, gs_mem x, gs_mem t, size_t n, int k) {
    if (n == 0) return GS_OK;
    gs_mem part;
    GS_TRY(stats_part(d, n, &part));
    GS_TRY(GS_CL_RUN(d, "mean_squared_error", "mean_squared_error_forward", gs_cl_items(n, 8), part, x, t, n,
                     k));
    return stats_add(d, stats, part, n);
}

gs_status gs_cl_mean_squared_error_backward(gs_device *d, gs_mem dx, gs_mem x, gs_mem t, size_t n, int k) {
    size_t count = n * (size_t)k;
    return GS_CL_RUN(d, "mean_squared_error", "mean_squared_error_backward", gs_cl_items(count, 64), dx, x, t,
                     count, 2.0f / (float)k);
}

gs_status gs_cl_softmax_cross_entropy_forward(gs_device *d, gs_mem p, gs_mem stats, gs_mem x, gs_mem labels,
                                              size_t n, int classes, float smoothing) {
    if (n == 0) return GS_OK;
    gs_mem part;
    GS_TRY(stats_part(d, n, &part));
    GS_TRY(GS_CL_RUN(d, "softmax_cross_entropy", "softmax_cross_entropy_forward", gs_cl_rows(d, n), p, part,
                     x, labels, n, classes, smoothing));
    return stats_add(d, stats, part, n);
}

gs_status gs_cl_softmax_cross_entropy_backward(gs_device *d, gs_mem dx, gs_mem p, gs_mem labels, size_t n,
                                               int classes, float smoothing) {
    const gs_share all = {.ranks = 1, .whole = classes, .leaves = 1};
    return gs_cl_softmax_part_backward(d, dx, p, labels, n, classes, smoothing, &all);
}

gs_status gs_cl_softmax_part_largest(gs_device *d, gs_mem most, gs_mem x, size_t n, int classes,
                                     const gs_share *share) {
    if (n == 0) return GS_OK;
    most = gs_at(most, n * (size_t)share->rank);
    return GS_CL_RUN(d, "softmax_part", "softmax_part_largest", gs_cl_items(n, 8), most, x, n, classes);
}

gs_status gs_cl_softmax_part_sums(gs_device *d, gs_mem p, gs_mem sums, gs_mem most, gs_mem x, gs_mem labels,
                                  size_t n, int classes, float smoothing, const gs_share *share) {
    const float everywhere = smoothing / (float)share->whole;
    if (n == 0) return GS_OK;
    return GS_CL_RUN(d, "softmax_part", "softmax_part_sums", gs_cl_rows(d, n), p, sums, most, x, labels, n,
                     classes, GS_ARG_STRUCT(*share), smoothing, everywhere);
}

gs_status gs_cl_softmax_part_end(gs_device *d, gs_mem p, gs_mem stats, gs_mem sums, size_t n, int classes) {
    gs_mem part;
    if (n == 0) return GS_OK;
    GS_TRY(stats_part(d, n, &part));
    GS_TRY(GS_CL_RUN(d, "softmax_part", "softmax_part_end", gs_cl_items(n, 8), p, part, sums, n, classes));
    return stats_add(d, stats, part, n);
}

gs_status gs_cl_softmax_part_backward(gs_device *d, gs_mem dx, gs_mem p, gs_mem labels, size_t n, int classes,
                                      float smoothing, const gs_share *share) {
    const int first = gs_share_first(share);
    const float everywhere = smoothing / (float)share->whole;
    return GS_CL_RUN(d, "softmax_cross_entropy", "softmax_cross_entropy_backward", gs_cl_items(n, 8), dx, p,
                     labels, n, classes, first, smoothing, everywhere);
}
