#include "cl/cl.h"

gs_status gs_cl_softmax_part_largest(gs_device *d, gs_mem most, gs_mem x, size_t n, int classes,
                                     const gs_share *share) {
    if (n == 0) return GS_OK;
    most = gs_at(most, n * (size_t)share->rank);
    return GS_CL_RUN(d, "softmax_part", "softmax_part_largest", gs_cl_items(n, 8), GS_ARG(most), GS_ARG(x),
                     GS_ARG(n), GS_ARG(classes));
}

gs_status gs_cl_softmax_part_sums(gs_device *d, gs_mem p, gs_mem sums, gs_mem most, gs_mem x, gs_mem labels,
                                  size_t n, int classes, float smoothing, const gs_share *share) {
    const int first = gs_share_first(share);
    const float everywhere = smoothing / (float)share->whole;
    if (n == 0) return GS_OK;
    return GS_CL_RUN(d, "softmax_part", "softmax_part_sums", gs_cl_items(n, 8), GS_ARG(p), GS_ARG(sums),
                     GS_ARG(most), GS_ARG(x), GS_ARG(labels), GS_ARG(n), GS_ARG(classes), GS_ARG(first),
                     GS_ARG(share->rank), GS_ARG(share->ranks), GS_ARG(smoothing), GS_ARG(everywhere));
}

gs_status gs_cl_softmax_part_end(gs_device *d, gs_mem p, gs_mem stats, gs_mem sums, size_t n, int classes) {
    gs_mem part;
    if (n == 0) return GS_OK;
    GS_TRY(gs_cl_stats_part(d, n, &part));
    GS_TRY(GS_CL_RUN(d, "softmax_part", "softmax_part_end", gs_cl_items(n, 8), GS_ARG(p), GS_ARG(part),
                     GS_ARG(sums), GS_ARG(n), GS_ARG(classes)));
    return gs_cl_stats_add(d, stats, part, n);
}

gs_status gs_cl_softmax_part_backward(gs_device *d, gs_mem dx, gs_mem p, gs_mem labels, size_t n, int classes,
                                      float smoothing, const gs_share *share) {
    const int first = gs_share_first(share);
    const float everywhere = smoothing / (float)share->whole;
    return GS_CL_RUN(d, "softmax_cross_entropy", "softmax_cross_entropy_backward", gs_cl_items(n, 8),
                     GS_ARG(dx), GS_ARG(p), GS_ARG(labels), GS_ARG(n), GS_ARG(classes), GS_ARG(first),
                     GS_ARG(smoothing), GS_ARG(everywhere));
}
