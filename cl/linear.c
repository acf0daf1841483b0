#include "cl/round16.h"

gs_status gs_cl_linear_forward(gs_device *d, gs_mem y, gs_mem x, gs_mem w, gs_mem b, size_t n, int in,
                               int out, const gs_epilogue *then) {
    size_t k = (size_t)in, m = (size_t)out;
    GS_TRY(gs_cl_rounded(d, 2, (gs_cl_operand[]){{&x, n * k, false}, {&w, m * k, false}}));
    return gs_cl_gemm(d, y, x, w, b,
                      (gs_cl_gemm_sizes){.m = n,
                                         .n = m,
                                         .k = k,
                                         .a_row = k,
                                         .a_col = 1,
                                         .b_row = 1,
                                         .b_col = k,
                                         .relu = gs_epilogue_of(d, then, NULL).relu});
}

/* Computes db and, if y is given, *dy = dy masked by the relu that produced y, in scratch memory. A CPU does both in
 * one pass. On a GPU linear_db has too few work-items to process all of dy, so relu's own kernel masks it. */
static gs_status sum_db(gs_device *d, gs_mem db, gs_mem *dy, gs_mem y, size_t n, size_t out, bool add,
                        const gs_leaves *leaves) {
    enum { COLUMNS = 32 }; /* as in linear.cl */
    const bool gpu = gs_cl_of(d)->tiles.gpu, has_db = db.base != NULL;
    const int relu = y.base && !gpu;
    struct {
        cl_int leaves;
        cl_ulong end[GS_LEAVES];
    } of = {0, {n}};
    if (leaves && !d->exact) gs_bug("%s: leaves without --exact", d->name);
    for (int k = 0; leaves && k < leaves->count; k++)
        of.end[k] = n / leaves->at[of.leaves = leaves->count] * leaves->at[k + 1];
    gs_mem passed = *dy;
    if (y.base) GS_TRY(gs_cl_scratch(d, GS_CL_SCRATCH_PASSED, n * out, &passed));
    if (y.base && gpu) GS_TRY(gs_cl_relu_backward(d, passed, *dy, y, n * out));
    const gs_mem from = relu ? *dy : passed;
    *dy = passed;
    if (!relu && !has_db) return GS_OK;
    /* every buffer argument must be valid; for an absent one any buffer is passed, and the kernel does not touch it */
    gs_cl_grid grid = gpu ? gs_cl_elements(d, out) : gs_cl_items(gs_cl_parts(out, COLUMNS), 1);
    return GS_CL_RUN(d, GS_CL_STORED(d, "linear"), "linear_db", grid, has_db ? db : passed, from, out,
                     relu ? y : from, GS_ARG_BUFFER(passed), relu, (int)has_db, (int)(add && !leaves),
                     GS_ARG_STRUCT(of));
}

/* *dy = dy masked by the relu that produced y, in scratch memory. */
static gs_status pass(gs_device *d, gs_mem *dy, gs_mem y, size_t count) {
    const gs_mem from = *dy;
    GS_TRY(gs_cl_scratch(d, GS_CL_SCRATCH_PASSED, from.half ? gs_cl_parts(count, 2) : count, dy));
    dy->half = from.half;
    return gs_cl_relu_backward(d, *dy, from, y, count);
}

/* forward: y = x w^T + b, so dx = dy w, dw = dy^T x, and db = dy summed over the batch; a relu after it passes dy only
 * where y > 0 */
gs_status gs_cl_linear_backward(gs_device *d, gs_mem dx, gs_mem dw, gs_mem db, gs_mem dy, gs_mem x, gs_mem w,
                                size_t n, int in, int out, bool add, const gs_epilogue *then) {
    const gs_epilogue e = gs_epilogue_of(d, then, NULL);
    const gs_leaves *leaves = then ? then->leaves : NULL;
    gs_mem relu_y = e.relu ? e.y : GS_NONE;
    size_t k = (size_t)in, m = (size_t)out;
    if (n == 0) return add ? GS_OK : gs_clear(d, dw, m * k, db, m);
    if (d->precision != GS_PRECISION_F32) {
        if (relu_y.base) GS_TRY(pass(d, &dy, relu_y, n * m));
        relu_y = GS_NONE;
        GS_TRY(gs_cl_rounded(d, 3,
                             (gs_cl_operand[]){{&x, n * k, false}, {&w, m * k, false}, {&dy, n * m, false}}));
    }
    GS_TRY(sum_db(d, db, &dy, relu_y, n, m, add, leaves));
    gs_cl_product
        of_dx = {dx, dy, w, {.m = n, .n = k, .k = m, .a_row = m, .a_col = 1, .b_row = k, .b_col = 1}},
        of_dw = {
            dw, dy, x, {.m = m, .n = k, .k = n, .a_row = 1, .a_col = m, .b_row = k, .b_col = 1, .add = add}};
    if (leaves && !gs_cl_cut_into_leaves(d, &of_dw.s, leaves)) {
        GS_TRY(gs_cl_linear_leaves(d, &of_dw, leaves));
        return dx.base ? gs_cl_gemm(d, of_dx.c, of_dx.a, of_dx.b, GS_NONE, of_dx.s) : GS_OK;
    }
    if (dx.base) return gs_cl_gemm_pair(d, of_dx, of_dw);
    return gs_cl_gemm(d, of_dw.c, of_dw.a, of_dw.b, GS_NONE, of_dw.s);
}
