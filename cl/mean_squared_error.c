#include "cl/cl.h"

gs_status gs_cl_mean_squared_error_forward(gs_device *d, gs_mem stats, gs_mem x, gs_mem t, size_t n, int k) {
    if (n == 0) return GS_OK;
    gs_mem part;
    GS_TRY(gs_cl_stats_part(d, n, &part));
    GS_TRY(GS_CL_RUN(d, "mean_squared_error", "mean_squared_error_forward", gs_cl_items(n, 8), GS_ARG(part),
                     GS_ARG(x), GS_ARG(t), GS_ARG(n), GS_ARG(k)));
    return gs_cl_stats_add(d, stats, part, n);
}

gs_status gs_cl_mean_squared_error_backward(gs_device *d, gs_mem dx, gs_mem x, gs_mem t, size_t n, int k) {
    size_t count = n * (size_t)k;
    return GS_CL_RUN(d, "mean_squared_error", "mean_squared_error_backward", gs_cl_items(count, 64),
                     GS_ARG(dx), GS_ARG(x), GS_ARG(t), GS_ARG(count), GS_ARG(2.0f / (float)k));
}
