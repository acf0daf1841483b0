/* The operators of sequences, with cases: rows of the table in operator_table.c. */
#include "tests/operators.h"
#include "tests/test.h"

/* ---- layer_norm  n, c ---- */

static void layer_norm_counts(const int *a, size_t *count) {
    count[X] = count[DX] = count[Y] = count[DY] = (size_t)(a[0] * a[1]);
    count[W] = count[DW] = count[B] = count[DB] = (size_t)a[1];
}

static int layer_norm_summands(const int *a, tensor output) {
    return a[1] + 1 + (output == DW || output == DB ? a[0] : 0); /* of the statistics, and of dw and db */
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
        status = t->device->ops->layer_norm_backward(t->device, p[DX], p[DW], p[DB], p[DY], p[X], p[W], kept,
                                                     gs_at(kept, n), n, t->c->arg[1], t->add);
    t->device->ops->free(t->device, kept);
    return status;
}

const operator_test sequence_operators[] = {
    {"layer_norm", 2, layer_norm_counts, layer_norm_forward, layer_norm_backward, WIDE, 1 / 8.0f, false,
     false, layer_norm_summands, false},
    {0},
};
