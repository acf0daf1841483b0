#include "cpu/plain/plain.h"

/* y[i][o] = sum_k x[i][k] w[o][k] + b[o] */
gs_status gs_plain_linear_forward(gs_device *d, gs_mem y_, gs_mem x_, gs_mem w_, gs_mem b_, size_t n, int in,
                                  int out, const gs_epilogue *then) {
    (void)gs_epilogue_of(d, then, NULL); /* empty: nothing is fused */
    float(*y)[out] = gs_plain_at(y_), (*x)[in] = gs_plain_at(x_), (*w)[in] = gs_plain_at(w_),
    *b = gs_plain_at(b_);
    for (size_t i = 0; i < n; i++)
        for (int o = 0; o < out; o++) {
            const float sum = gs_plain_product(x[i], 1, w[o], 1, (size_t)in);
            y[i][o] = b ? sum + b[o] : sum;
        }
    return GS_OK;
}

/* dx[i][k] = sum_o dy[i][o] w[o][k];  dw[o][k] (+)= sum_i dy[i][o] x[i][k];  db[o] (+)= sum_i dy[i][o], in order */
gs_status gs_plain_linear_backward(gs_device *d, gs_mem dx_, gs_mem dw_, gs_mem db_, gs_mem dy_, gs_mem x_,
                                   gs_mem w_, size_t n, int in, int out, bool add, const gs_epilogue *then) {
    (void)gs_epilogue_of(d, then, NULL);
    const size_t i_ = (size_t)in, o_ = (size_t)out;
    float(*dx)[in] = gs_plain_at(dx_), (*dw)[in] = gs_plain_at(dw_), *db = gs_plain_at(db_);
    const float *dy = gs_plain_at(dy_), *x = gs_plain_at(x_), *w = gs_plain_at(w_);
    for (size_t i = 0; i < n && dx; i++)
        for (size_t k = 0; k < i_; k++) dx[i][k] = gs_plain_product(dy + i * o_, 1, w + k, i_, o_);
    for (size_t o = 0; o < o_; o++) {
        for (size_t k = 0; k < i_; k++) {
            const float sum = gs_plain_product(dy + o, o_, x + k, i_, n);
            dw[o][k] = add ? dw[o][k] + sum : sum;
        }
        float sum = 0;
        for (size_t i = 0; i < n && db; i++) sum += dy[i * o_ + o];
        if (db) db[o] = add ? db[o] + sum : sum;
    }
    return GS_OK;
}

/* sum_k a[k] b[k step] over `count` of the leaves into which it is cut (backend.h), from `leaf` on */
static float sum_of_leaves(const float *a, const float *b, size_t step, int terms, int leaves, int blocks,
                           const gs_share *share, int leaf, int count) {
    const int64_t block = terms / blocks;
    const size_t first = (size_t)(share ? gs_share_leaf(share, leaf) : block * leaf / leaves),
                 end = (size_t)(share ? gs_share_leaf(share, leaf + 1) : block * (leaf + 1) / leaves);
    const int half = count / 2;
    if (half > 0)
        return sum_of_leaves(a, b, step, terms, leaves, blocks, share, leaf, half) +
               sum_of_leaves(a, b, step, terms, leaves, blocks, share, leaf + half, half);
    float sum = gs_plain_product(a + first, 1, b + first * step, step, end - first);
    for (size_t k = first + (size_t)block; k < (size_t)terms && end > first; k += (size_t)block)
        sum += gs_plain_product(a + k, 1, b + k * step, step, end - first);
    return sum;
}

gs_status gs_plain_linear_tree_forward(gs_device *d, gs_mem y_, gs_mem x_, gs_mem w_, size_t n, int in,
                                       int out, int leaves) {
    float(*y)[out] = gs_plain_at(y_), (*x)[in] = gs_plain_at(x_), (*w)[in] = gs_plain_at(w_);
    (void)d;
    for (size_t i = 0; i < n; i++)
        for (int o = 0; o < out; o++) y[i][o] = sum_of_leaves(x[i], w[o], 1, in, leaves, 1, NULL, 0, leaves);
    return GS_OK;
}

gs_status gs_plain_linear_tree_backward(gs_device *d, gs_mem dx_, gs_mem dw, gs_mem db, gs_mem dy_, gs_mem x,
                                        gs_mem w_, size_t n, int in, int out, bool add, int leaves,
                                        int blocks, const gs_share *share) {
    float(*dx)[in] = gs_plain_at(dx_), (*dy)[out] = gs_plain_at(dy_), *w = gs_plain_at(w_);
    for (size_t i = 0; i < n && dx; i++)
        for (int k = 0; k < in; k++)
            dx[i][k] = sum_of_leaves(dy[i], w + k, (size_t)in, out, leaves, blocks, share, 0, leaves);
    return gs_plain_linear_backward(d, GS_NONE, dw, db, dy_, x, w_, n, in, out, add, NULL);
}
