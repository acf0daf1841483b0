/* Sequence operators with cases: rows of the table in operator_table.c. */
#include <math.h>

#include "tests/support/operators.h"
#include "tests/support/test.h"

/* ---- layer_norm  n, c ---- */

static void layer_norm_counts(const int *a, size_t *count) {
    count[X] = count[DX] = count[Y] = count[DY] = (size_t)(a[0] * a[1]);
    count[W] = count[DW] = count[B] = count[DB] = (size_t)a[1];
}

static int layer_norm_summands(const int *a, tensor output) {
    return a[1] + 1 + (output == DW || output == DB ? a[0] : 0); /* the statistics; n more for dw and db */
}

/* What forward keeps for backward: mean, then 1 / deviation. */
static gs_status layer_norm_run(const instance *t, gs_mem kept) {
    const size_t n = (size_t)t->c->arg[0];
    const gs_mem *p = t->place;
    return t->device->ops->layer_norm_forward(t->device, p[Y], kept, gs_at(kept, n), p[X], p[W], p[B], n,
                                              t->c->arg[1], 1e-5f);
}

static gs_status layer_norm_forward(const instance *t) {
    gs_mem kept;
    assert_ok(t->device->ops->alloc(t->device, 2 * (size_t)t->c->arg[0] * sizeof(float), &kept));
    gs_status status = layer_norm_run(t, kept);
    t->device->ops->free(t->device, kept);
    return status;
}

static gs_status layer_norm_backward(const instance *t) {
    const size_t n = (size_t)t->c->arg[0];
    const gs_mem *p = t->place;
    gs_mem kept;
    assert_ok(t->device->ops->alloc(t->device, 2 * n * sizeof(float), &kept));
    gs_status status = layer_norm_run(t, kept);
    if (status == GS_OK)
        status =
            t->device->ops->layer_norm_backward(t->device, p[DX], p[DW], p[DB], p[DY], instance_kept(t, X),
                                                p[W], kept, gs_at(kept, n), n, t->c->arg[1], t->add);
    t->device->ops->free(t->device, kept);
    return status;
}

/* ---- embedding  n, rows, c: token numbers have no gradient ---- */

static void embedding_counts(const int *a, size_t *count) {
    count[X] = (size_t)a[0];
    count[W] = count[DW] = (size_t)(a[1] * a[2]);
    count[Y] = count[DY] = (size_t)(a[0] * a[2]);
}

static int embedding_summands(const int *a, tensor output) {
    return output == DW ? a[0] : 1;
}

static gs_status embedding_forward(const instance *t) {
    const int *a = t->c->arg;
    const gs_mem *p = t->place;
    return t->device->ops->embedding_forward(t->device, p[Y], p[X], p[W], (size_t)a[0], a[1], a[2], 0, NAN);
}

static gs_status embedding_backward(const instance *t) {
    const int *a = t->c->arg;
    const gs_mem *p = t->place;
    return t->device->ops->embedding_backward(t->device, p[DW], p[DY], p[X], (size_t)a[0], a[1], a[2], 0,
                                              t->add);
}

/* ---- positions  n, count: dx is dy ---- */

static void positions_counts(const int *a, size_t *count) {
    count[X] = count[Y] = count[DY] = (size_t)(a[0] * a[1]);
    count[W] = count[DW] = (size_t)a[1];
}

static int positions_summands(const int *a, tensor output) {
    return output == DW ? a[0] : 2;
}

static gs_status positions_forward(const instance *t) {
    const int *a = t->c->arg;
    const gs_mem *p = t->place;
    return t->device->ops->positions_forward(t->device, p[Y], p[X], p[W], (size_t)a[0], (size_t)a[1]);
}

static gs_status positions_backward(const instance *t) {
    const int *a = t->c->arg;
    return t->device->ops->positions_backward(t->device, t->place[DW], t->place[DY], (size_t)a[0],
                                              (size_t)a[1], t->add);
}

/* ---- attention  n, length, width, heads, causal ---- */

static gs_attention_sizes attention_sizes(const int *a) {
    return (gs_attention_sizes){.length = a[1], .width = a[2], .heads = a[3], .causal = a[4]};
}

static void attention_counts(const int *a, size_t *count) {
    count[Y] = count[DY] = (size_t)(a[0] * a[1] * a[2]);
    count[X] = count[DX] = 3 * count[Y];
}

static int attention_summands(const int *a, tensor output) {
    return a[2] / a[3] + a[1] + (output == DX ? a[2] / a[3] : 0); /* a score, a row's sum; for dx also dy v */
}

static gs_status attention_run(const instance *t, bool backward) {
    const gs_attention_sizes s = attention_sizes(t->c->arg);
    const size_t n = (size_t)t->c->arg[0];
    const gs_backend *ops = t->device->ops;
    const gs_mem *p = t->place;
    gs_mem softmax;
    assert_ok(ops->alloc(t->device, n * (size_t)(2 * s.heads * s.length) * sizeof(float), &softmax));
    gs_status status = ops->attention_forward(t->device, p[Y], softmax, p[X], n, &s);
    if (status == GS_OK && backward)
        status = ops->attention_backward(t->device, p[DX], p[DY], p[X], instance_kept(t, Y), softmax, n, &s);
    ops->free(t->device, softmax);
    return status;
}

static gs_status attention_forward(const instance *t) {
    return attention_run(t, false);
}

static gs_status attention_backward(const instance *t) {
    return attention_run(t, true);
}

/* ---- attention_cached  n, tokens, past, length, width, heads: w are the keys, b the values; no backward ---- */

static void attention_cached_counts(const int *a, size_t *count) {
    count[Y] = (size_t)(a[0] * a[1] * a[4]);
    count[X] = 3 * count[Y];
    count[W] = count[B] = (size_t)(a[0] * a[3] * a[4]);
}

static int attention_cached_summands(const int *a, tensor output) {
    (void)output;
    return a[4] / a[5] + a[1] + a[2];
}

static gs_status attention_cached_forward(const instance *t) {
    const int *a = t->c->arg;
    const gs_mem *p = t->place;
    const gs_attention_sizes s = {.length = a[3], .width = a[4], .heads = a[5], .causal = 1};
    return t->device->ops->attention_cached_forward(t->device, p[Y], p[W], p[B], p[X], (size_t)a[0],
                                                    (size_t)a[2], (size_t)a[1], &s);
}

const operator_test sequence_operators[] = {
    {"layer_norm", 2, layer_norm_counts, layer_norm_forward, layer_norm_backward, WIDE, 1 / 8.0f, false,
     false, layer_norm_summands, false},
    {"embedding", 3, embedding_counts, embedding_forward, embedding_backward, TOKENS, 1, false, false,
     embedding_summands, false},
    {"positions", 2, positions_counts, positions_forward, positions_backward, ANYWHERE, 1, false, false,
     positions_summands, false},
    {"attention", 5, attention_counts, attention_forward, attention_backward, ANYWHERE, 1 / 8.0f, false,
     false, attention_summands, false},
    {"attention_cached", 6, attention_cached_counts, attention_cached_forward, NULL, ANYWHERE, 1, false,
     false, attention_cached_summands, false},
    {0},
};
