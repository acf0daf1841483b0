#include "cl/round16.h"

/* The grid of a kernel that uses vectors: one work-item per channel and sample. */
static gs_cl_grid vectors(const gs_batch_norm_sizes *s, size_t n) {
    return gs_cl_with_rows(gs_cl_items((size_t)s->c, 64), n);
}

gs_status gs_cl_batch_norm_statistics(gs_device *d, gs_mem mean, gs_mem var, gs_mem x, size_t n,
                                      const gs_batch_norm_sizes *s) {
    if (n == 0) return gs_clear(d, mean, (size_t)s->c, var, (size_t)s->c);
    return GS_CL_RUN(d, GS_CL_AS(d, x, "batch_norm"), "batch_norm_statistics", gs_cl_groups(d, (size_t)s->c),
                     mean, var, x, n, GS_ARG_STRUCT(*s));
}

gs_status gs_cl_batch_norm_running(gs_device *d, gs_mem dmean, gs_mem dvar, gs_mem running_mean,
                                   gs_mem running_var, gs_mem mean, gs_mem var, float m, float samples,
                                   const gs_batch_norm_sizes *s, bool add) {
    return GS_CL_RUN(d, "batch_norm", "batch_norm_running", gs_cl_items((size_t)s->c, 64), dmean, dvar,
                     running_mean, running_var, mean, var, m, samples, GS_ARG_STRUCT(*s), (int)add);
}

gs_status gs_cl_batch_norm_forward(gs_device *d, gs_mem y, gs_mem x, gs_mem w, gs_mem b, gs_mem mean,
                                   gs_mem var, size_t n, const gs_batch_norm_sizes *s) {
    const size_t planes = n * (size_t)s->c;
    if (s->plane == 1)
        return GS_CL_RUN(d, GS_CL_AS(d, y, "batch_norm"), "batch_norm_forward_vectors", vectors(s, n), y, x,
                         w, b, mean, var, n, GS_ARG_STRUCT(*s));
    return GS_CL_RUN(d, GS_CL_AS(d, y, "batch_norm"), "batch_norm_forward", gs_cl_planes(d, planes, 1), y, x,
                     w, b, mean, var, planes, GS_ARG_STRUCT(*s));
}

gs_status gs_cl_batch_norm_sums(gs_device *d, gs_mem sums, gs_mem dw, gs_mem db, gs_mem dy, gs_mem x,
                                gs_mem mean, gs_mem var, size_t n, const gs_batch_norm_sizes *s, bool add) {
    GS_TRY(gs_cl_rounded(d, 1, &(gs_cl_operand){&x, n * (size_t)s->c * (size_t)s->plane, false}));
    return GS_CL_RUN(d, GS_CL_FLOW(d, dy, "batch_norm"), "batch_norm_sums", gs_cl_groups(d, (size_t)s->c),
                     sums, dw, db, dy, x, mean, var, n, GS_ARG_STRUCT(*s), (int)add);
}

gs_status gs_cl_batch_norm_backward(gs_device *d, gs_mem dx, gs_mem dy, gs_mem x, gs_mem w, gs_mem mean,
                                    gs_mem var, gs_mem sums, float m, size_t n,
                                    const gs_batch_norm_sizes *s) {
    const size_t planes = n * (size_t)s->c;
    const int has_sums = sums.base != NULL;
    const gs_mem there = has_sums ? sums : mean; /* a kernel's buffer arguments must be valid */
    const char *file = GS_CL_FLOW(d, dy, "batch_norm");
    GS_TRY(gs_cl_rounded(d, 1, &(gs_cl_operand){&x, planes * (size_t)s->plane, false}));
    if (s->plane == 1)
        return GS_CL_RUN(d, file, "batch_norm_backward_vectors", vectors(s, n), dx, dy, x, w, mean, var,
                         there, has_sums, m, n, GS_ARG_STRUCT(*s));
    return GS_CL_RUN(d, file, "batch_norm_backward", gs_cl_planes(d, planes, 1), dx, dy, x, w, mean, var,
                     there, has_sums, m, planes, GS_ARG_STRUCT(*s));
}
