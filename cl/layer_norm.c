#include "cl/round16.h"

gs_status gs_cl_layer_norm_forward(gs_device *d, gs_mem y, gs_mem mean, gs_mem rstd, gs_mem x, gs_mem w,
                                   gs_mem b, size_t n, int c, float eps) {
    return GS_CL_RUN(d, GS_CL_AS(d, y, "layer_norm"), "layer_norm_forward", gs_cl_groups(d, n), y, mean, rstd,
                     x, w, b, n, c, eps);
}

/* Sums dw and db in two steps: over chunks of rows, whose size depends only on n; then over the chunks, in order. */
gs_status gs_cl_layer_norm_backward(gs_device *d, gs_mem dx, gs_mem dw, gs_mem db, gs_mem dy, gs_mem x,
                                    gs_mem w, gs_mem mean, gs_mem rstd, size_t n, int c, bool add) {
    enum { LEAST_ROWS = 32, MOST_CHUNKS = 128 };
    const size_t width = (size_t)c, cut = gs_cl_parts(n, MOST_CHUNKS),
                 rows = cut > LEAST_ROWS ? cut : LEAST_ROWS, chunks = gs_cl_parts(n, rows);
    gs_mem part;
    if (n == 0) return add ? GS_OK : gs_clear(d, dw, width, db, width);
    GS_TRY(gs_cl_scratch(d, GS_CL_SCRATCH_PARTIAL, chunks * 2 * width, &part));
    GS_TRY(gs_cl_rounded(d, 1, &(gs_cl_operand){&x, n * width, false}));
    const char *file = GS_CL_FLOW(d, dy, "layer_norm");
    const gs_cl_grid grid = gs_cl_with_rows(gs_cl_items(width, 64), chunks);
    GS_TRY(GS_CL_RUN(d, file, "layer_norm_chunks", grid, GS_ARG_BUFFER(part), dy, x, mean, rstd, n, rows, c));
    GS_TRY(GS_CL_RUN(d, "layer_norm", "layer_norm_sums", gs_cl_items(width, 64), dw, db, GS_ARG_BUFFER(part),
                     chunks, c, (int)add));
    if (!dx.base) return GS_OK;
    return GS_CL_RUN(d, file, "layer_norm_backward", gs_cl_groups(d, n), dx, dy, x, w, mean, rstd, n, c);
}
