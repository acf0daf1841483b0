#include "cl/round16.h"

gs_status gs_cl_layer_norm_forward(gs_device *d, gs_mem y, gs_mem mean, gs_mem rstd, gs_mem x, gs_mem w,
                                   gs_mem b, size_t n, int c, float eps) {
    if (n == 0) return GS_OK;
    return GS_CL_RUN(d, GS_CL_AS(d, y, "layer_norm"), "layer_norm_forward", gs_cl_rows(d, n), y, mean, rstd,
                     x, w, b, n, c, eps);
}

/* Sums dw and db in two steps: over blocks of rows; then over the blocks, in order. */
gs_status gs_cl_layer_norm_backward(gs_device *d, gs_mem dx, gs_mem dw, gs_mem db, gs_mem dy, gs_mem x,
                                    gs_mem w, gs_mem mean, gs_mem rstd, size_t n, int c, bool add) {
    const size_t width = (size_t)c, rows = gs_layer_norm_block(n), blocks = gs_cl_parts(n, rows);
    gs_mem part;
    if (n == 0) return add ? GS_OK : gs_clear(d, dw, width, db, width);
    GS_TRY(gs_cl_scratch(d, GS_CL_SCRATCH_PARTIAL, blocks * 2 * width, &part));
    GS_TRY(gs_cl_rounded(d, 1, &(gs_cl_operand){&x, n * width, false}));
    const char *file = GS_CL_FLOW(d, dy, "layer_norm");
    const gs_cl_grid grid = gs_cl_with_rows(gs_cl_items(width, 64), blocks);
    GS_TRY(GS_CL_RUN(d, file, "layer_norm_blocks", grid, GS_ARG_BUFFER(part), dy, x, mean, rstd, n, rows, c));
    GS_TRY(GS_CL_RUN(d, "layer_norm", "layer_norm_sums", gs_cl_items(width, 64), dw, db, GS_ARG_BUFFER(part),
                     blocks, c, (int)add));
    if (!dx.base) return GS_OK;
    return GS_CL_RUN(d, file, "layer_norm_backward", gs_cl_rows(d, n), dx, dy, x, w, mean, rstd, n, c);
}
