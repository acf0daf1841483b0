#include "cl/cl.h"

/* c = a b, with the sum cut into leaves and blocks (backend.h). The order of the sums is that of cpu/linear_tree.c. */
typedef struct tree_work {
    gs_mem a, b;
    gs_cl_gemm_sizes s; /* of the whole product */
    int leaves, blocks;
    const gs_share *share;    /* NULL: this worker has all terms */
    const gs_leaves *samples; /* the terms are samples, in these leaves; NULL: they are not */
} tree_work;

/* A leaf's first term within a block. */
static size_t first_of(const tree_work *t, size_t block, int leaf) {
    if (t->samples) return block / t->samples->at[t->leaves] * t->samples->at[leaf];
    return t->share ? (size_t)gs_share_leaf(t->share, leaf) : block * (size_t)leaf / (size_t)t->leaves;
}

/* to = the sum of leaf `leaf`, which covers a part of each block. */
static gs_status sum_leaf(gs_device *d, const tree_work *t, gs_mem to, int leaf) {
    const size_t block = t->s.k / (size_t)t->blocks, first = first_of(t, block, leaf);
    gs_cl_gemm_sizes s = t->s;
    s.k = first_of(t, block, leaf + 1) - first;
    for (int b = 0; b < t->blocks; b++, s.add = 1) {
        const size_t k = (size_t)b * block + first;
        GS_TRY(gs_cl_gemm(d, to, gs_at(t->a, k * s.a_col), gs_at(t->b, k * s.b_row), GS_NONE, s));
    }
    return GS_OK;
}

/* to = the sum of `count` leaves from `leaf` on: the sum of the left half, plus that of the right half in `scratch`. */
static gs_status sum_leaves(gs_device *d, const tree_work *t, gs_mem to, gs_mem scratch, int leaf,
                            int count) {
    const size_t size = t->s.m * t->s.n;
    const int half = count / 2;
    if (count == 1) return sum_leaf(d, t, to, leaf);
    GS_TRY(sum_leaves(d, t, scratch, gs_at(scratch, size), leaf + half, half));
    GS_TRY(sum_leaves(d, t, to, gs_at(scratch, size), leaf, half));
    return gs_cl_add(d, to, to, scratch, size);
}

static gs_status run(gs_device *d, gs_mem to, const tree_work *t) {
    gs_mem scratch = GS_NONE;
    size_t levels = 0;
    if (d->precision != GS_PRECISION_F32) gs_bug("%s: linear_tree in 16 bits", d->name);
    while (1 << levels < t->leaves) levels++;
    if (levels > 0) GS_TRY(gs_cl_scratch(d, GS_CL_SCRATCH_SUMS, levels * t->s.m * t->s.n, &scratch));
    return sum_leaves(d, t, to, scratch, 0, t->leaves);
}

gs_status gs_cl_linear_tree_forward(gs_device *d, gs_mem y, gs_mem x, gs_mem w, size_t n, int in, int out,
                                    int leaves) {
    const size_t k = (size_t)in;
    const gs_cl_gemm_sizes s = {
        .m = n, .n = (size_t)out, .k = k, .a_row = k, .a_col = 1, .b_row = 1, .b_col = k};
    return run(d, y, &(tree_work){x, w, s, leaves, 1, NULL, NULL});
}

gs_status gs_cl_linear_tree_backward(gs_device *d, gs_mem dx, gs_mem dw, gs_mem db, gs_mem dy, gs_mem x,
                                     gs_mem w, size_t n, int in, int out, bool add, int leaves, int blocks,
                                     const gs_share *share) {
    const size_t k = (size_t)out, i = (size_t)in;
    const gs_cl_gemm_sizes s = {.m = n, .n = i, .k = k, .a_row = k, .a_col = 1, .b_row = i, .b_col = 1};
    if (dw.base) GS_TRY(gs_cl_linear_backward(d, GS_NONE, dw, db, dy, x, w, n, in, out, add, NULL));
    return dx.base ? run(d, dx, &(tree_work){dy, w, s, leaves, blocks, share, NULL}) : GS_OK;
}

/* The most terms in `each` leaves that follow one another. */
static cl_int most_terms(const gs_cl_gemm_sizes *s, int each) {
    cl_int most = s->leaf_end[each - 1];
    for (int k = 2 * each - 1; k < s->leaves; k += each)
        if (s->leaf_end[k] - s->leaf_end[k - each] > most) most = s->leaf_end[k] - s->leaf_end[k - each];
    return most;
}

bool gs_cl_cut_into_leaves(gs_device *d, gs_cl_gemm_sizes *s, const gs_leaves *leaves) {
    gs_cl_gemm_sizes cut = *s;
    cut.add = 0;
    cut.leaves = cut.each = leaves->count;
    for (int k = 0; k < leaves->count; k++)
        cut.leaf_end[k] = (cl_int)(s->k / leaves->at[leaves->count] * leaves->at[k + 1]);
    while (cut.each > 1 && most_terms(&cut, cut.each) > GS_PACK) cut.each /= 2;
    if (gs_cl_of(d)->tiles.gpu || most_terms(&cut, cut.each) > GS_PACK) return false;
    *s = cut;
    return true;
}

gs_status gs_cl_linear_leaves(gs_device *d, const gs_cl_product *of_dw, const gs_leaves *leaves) {
    tree_work t = {of_dw->a, of_dw->b, of_dw->s, leaves->count, 1, NULL, leaves};
    t.s.add = 0;
    return run(d, of_dw->c, &t);
}
