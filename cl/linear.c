#include "cl/cl.h"

/* y = x w^T + b, or max(x w^T + b, 0) */
static gs_status forward(gs_device *d, gs_mem y, gs_mem x, gs_mem w, gs_mem b, size_t n, int in, int out,
                         bool relu) {
    size_t k = (size_t)in, m = (size_t)out;
    return gs_cl_gemm(
        d, y, x, w, b,
        (gs_cl_gemm_sizes){
            .m = n, .n = m, .k = k, .a_row = k, .a_col = 1, .b_row = 1, .b_col = k, .relu = relu});
}

gs_status gs_cl_linear_forward(gs_device *d, gs_mem y, gs_mem x, gs_mem w, gs_mem b, size_t n, int in,
                               int out) {
    return forward(d, y, x, w, b, n, in, out, false);
}

gs_status gs_cl_linear_relu_forward(gs_device *d, gs_mem y, gs_mem x, gs_mem w, gs_mem b, size_t n, int in,
                                    int out) {
    return forward(d, y, x, w, b, n, in, out, true);
}

/* forward: y = x w^T + b, so dx = dy w, dw = dy^T x, and db = dy summed over the batch */
gs_status gs_cl_linear_backward(gs_device *d, gs_mem dx, gs_mem dw, gs_mem db, gs_mem dy, gs_mem x, gs_mem w,
                                size_t n, int in, int out) {
    size_t k = (size_t)in, m = (size_t)out;
    if (n == 0) return GS_OK;
    if (dx.base)
        GS_TRY(gs_cl_gemm(
            d, dx, dy, w, GS_NONE,
            (gs_cl_gemm_sizes){.m = n, .n = k, .k = m, .a_row = m, .a_col = 1, .b_row = k, .b_col = 1}));
    if (db.base)
        GS_TRY(GS_CL_RUN(d, "linear", "linear_db", gs_cl_elements(d, m), GS_ARG(db), GS_ARG(dy), GS_ARG(n),
                         GS_ARG(m)));
    return gs_cl_gemm(
        d, dw, dy, x, GS_NONE,
        (gs_cl_gemm_sizes){.m = m, .n = k, .k = n, .a_row = 1, .a_col = m, .b_row = k, .b_col = 1, .add = 1});
}

/* The relu lets dy pass only where y > 0. */
gs_status gs_cl_linear_relu_backward(gs_device *d, gs_mem dx, gs_mem dw, gs_mem db, gs_mem dy, gs_mem y,
                                     gs_mem x, gs_mem w, size_t n, int in, int out) {
    gs_mem passed;
    size_t count = n * (size_t)out;
    GS_TRY(gs_cl_scratch(d, GS_CL_SCRATCH_PASSED, count, &passed));
    GS_TRY(gs_cl_relu_backward(d, passed, dy, y, count));
    return gs_cl_linear_backward(d, dx, dw, db, passed, x, w, n, in, out);
}
