#include "layer/memory/half_storage.h"

#include <stdlib.h>

#include "layer/make.h"

/* The activations between layers, by index; activations that must have the same format are joined into sets. */
typedef struct values {
    int *leader;  /* for each value: another one of its set, nearer to the first one; for the first: itself */
    bool *floats; /* for the first one: its set is stored in f32 */
    int *x, *y;   /* indexed by the layer's number; below 0: the layer is not called */
    int count;
    bool whole; /* includes the layers of other stages */
} values;

static int first_of(const values *v, int i) {
    while (v->leader[i] != i) i = v->leader[i];
    return i;
}

static int new_value(values *v) {
    v->leader[v->count] = v->count;
    return v->count++;
}

static void in_floats(values *v, int i) {
    v->floats[first_of(v, i)] = true;
}

static void join(values *v, int a, int b) {
    a = first_of(v, a);
    b = first_of(v, b);
    v->leader[b] = a;
    v->floats[a] = v->floats[a] || v->floats[b];
}

/* Statistics may be those of samples inside the array. Could the first of them, in 16 bits, begin inside a float? */
static bool begins_inside_a_float(const gs_layer *l) {
    return l->ops->depends_on_batch && gs_shape_size(l->in) % 2;
}

static int through(values *v, gs_layer *l, int x);

static int through_leaf(values *v, const gs_layer *l, int x) {
    const gs_storage storage = begins_inside_a_float(l) ? GS_IN_FLOATS : l->ops->storage;
    const int y = storage == GS_ALIKE || storage == GS_IN_FLOATS ? x : new_value(v);
    if (storage == GS_IN_FLOATS || storage == GS_X_IN_FLOATS) in_floats(v, x);
    if (storage == GS_Y_IN_FLOATS) in_floats(v, y);
    return y;
}

static int through_children(values *v, gs_layer *l, int x) {
    const bool residual = gs_layer_is_residual(l);
    int y = x;
    if (!residual && !gs_layer_is_sequence(l)) { /* the inputs of its layers are unknown */
        in_floats(v, x);
        for (int i = 0; i < l->children; i++) join(v, x, through(v, l->child[i], x));
        return x;
    }
    for (int i = 0; i < l->children; i++) {
        const int before = y;
        y = through(v, l->child[i], residual ? x : y);
        if (residual && i > 0) join(v, before, y);
    }
    if (residual && l->children == 1) join(v, x, y);
    return y;
}

/* Returns the index of y. */
static int through(values *v, gs_layer *l, int x) {
    if (l->fused || (l->other_stage && !v->whole)) return x;
    v->x[l->number] = x;
    return v->y[l->number] = l->children > 0 ? through_children(v, l, x) : through_leaf(v, l, x);
}

static gs_status tell_layer(gs_layer *l, void *context) {
    const values *v = context;
    if (v->x[l->number] < 0) return GS_OK;
    l->memory.x_half = !v->floats[first_of(v, v->x[l->number])];
    l->memory.y_half = !v->floats[first_of(v, v->y[l->number])];
    return GS_OK;
}

/* A stage's x is its first layer's x, and its y is its last layer's y. */
static void find_ends(values *v, const gs_layer *root) {
    bool first = true;
    for (int i = 0; i < root->children && gs_layer_is_sequence(root); i++) {
        const gs_layer *l = root->child[i];
        if (l->other_stage || v->x[l->number] < 0) continue;
        if (first) v->x[root->number] = v->x[l->number];
        first = false;
        v->y[root->number] = v->y[l->number];
    }
}

static gs_status plan(gs_layer *root, values *v, size_t count) {
    GS_TRY(GS_NEW(v->leader, count, "a list of %zu layers", count));
    GS_TRY(GS_NEW(v->floats, count, "a list of %zu layers", count));
    GS_TRY(GS_NEW(v->x, count, "a list of %zu layers", count));
    GS_TRY(GS_NEW(v->y, count, "a list of %zu layers", count));
    for (size_t i = 0; i < count; i++) v->x[i] = -1;
    const int x = new_value(v);
    in_floats(v, x);
    in_floats(v, through(v, root, x));
    find_ends(v, root);
    return gs_layer_walk(root, tell_layer, v);
}

gs_status gs_half_storage_plan(gs_layer *root) {
    const gs_device *d = root->device;
    const size_t count = gs_layer_count(root) + 1;
    if (!d || !d->ops->narrow || d->precision == GS_PRECISION_F32) return GS_OK;
    if (d->exact) return GS_OK; /* a leaf's samples may begin inside a float */
    values v = {.whole = root->half_ends};
    const gs_status status = plan(root, &v, count);
    free(v.leader);
    free(v.floats);
    free(v.x);
    free(v.y);
    return status;
}
