#include "tests/support/operators.h"

#include <math.h>
#include "tests/support/on_devices.h"

static const operator_case all_cases[] = {
#define SMALL(op, ...) {#op, true, {__VA_ARGS__}},
#define CASE(op, ...) {#op, false, {__VA_ARGS__}},
#include "tests/support/operator_cases.h"
#undef SMALL
#undef CASE
};

const char *const tensor_names[TENSORS] = {"x",     "w",     "b",  "labels", "dy", "y",
                                           "index", "stats", "dx", "dw",     "db"};

/* ---- cases ---- */

const char *operator_of_case(size_t i) {
    return i < sizeof all_cases / sizeof *all_cases ? all_cases[i].op : NULL;
}

const operator_case *next_case(const char *op, const operator_case *c) {
    static const void *before; /* what the test owned before the case */
    const operator_case *end = all_cases + sizeof all_cases / sizeof *all_cases;
    if (c) gs_test_free_since(before);
    before = gs_test_mark();
    for (c = c ? c + 1 : all_cases; c < end; c++)
        if (strcmp(c->op, op) == 0 && (c->small || !gs_test_small())) return c;
    return NULL;
}

const char *operator_case_name(const operator_case *c) {
    static char name[128];
    int used = snprintf(name, sizeof name, "%s", c->op);
    for (int i = 0; i < operator_of_name(c->op)->args; i++)
        used += snprintf(name + used, sizeof name - (size_t)used, " %d", c->arg[i]);
    return name;
}

/* ---- inputs ---- */

uint32_t test_hash(size_t i, uint32_t salt) {
    uint32_t h = (uint32_t)i * 2654435761u + salt * 0x9E3779B9u;
    h ^= h >> 16;
    h *= 0x85EBCA6Bu;
    h ^= h >> 13;
    h *= 0xC2B2AE35u;
    return h ^ (h >> 16);
}

float test_value(size_t i, uint32_t salt) {
    return ((float)(test_hash(i, salt) >> 16) - 32768.0f) / 32768.0f;
}

static float x_value(const instance *t, size_t i) {
    float v = test_value(i, SALT_X);
    int64_t count = (int64_t)t->count[X];
    switch (t->op->x) {
    case WIDE:
        return 4 * v;
    case AWAY_FROM_0:
        return 4 * v + (v < 0 ? -0.0625f : 0.0625f);
    case DISTINCT: /* no two are closer than 1/64: a permutation, because 7919 is prime */
        return (float)(((int64_t)i * 7919 + 13) % count - count / 2) / 64.0f;
    case TOKENS: /* integers below the case's second number */
        return (float)(test_hash(i, SALT_X) % (uint32_t)t->c->arg[1]);
    default:
        return v;
    }
}

static void set_inputs(instance *t) {
    uint32_t w_salt = strcmp(t->op->name, "mean_squared_error") == 0 ? SALT_TARGET : SALT_W;
    for (size_t i = 0; i < t->count[X]; i++) t->host[X][i] = x_value(t, i);
    for (size_t i = 0; i < t->count[W]; i++) t->host[W][i] = test_value(i, w_salt);
    for (size_t i = 0; i < t->count[B]; i++) t->host[B][i] = test_value(i, SALT_B);
    for (size_t i = 0; i < t->count[DY]; i++) t->host[DY][i] = test_value(i, SALT_DY);
    for (size_t i = 0; i < t->count[LABELS]; i++)
        ((int32_t *)t->host[LABELS])[i] = (int32_t)(test_hash(i, SALT_LABELS) % (uint32_t)t->c->arg[1]);
}

/* ---- instances ---- */

static const float guard = 12345.0f;

/* Writes the tensor's values with guards before and after them, all at once: after a write into the middle of a buffer,
 * Oclgrind 21.10 takes the wrong part of it for initialised. */
static void write_guarded(instance *t, tensor which) {
    size_t total = t->count[which] + 2 * t->offset;
    float *all = gs_test_malloc(total * sizeof(float) + 1);
    for (size_t i = 0; i < total; i++) all[i] = guard;
    memcpy(all + t->offset, t->host[which], t->count[which] * sizeof(float));
    assert_ok(t->device->ops->write(t->device, t->base[which], all, total * sizeof(float)));
}

void instance_open(instance *t, gs_device *device, const operator_case *c, size_t offset) {
    *t = (instance){.op = operator_of_name(c->op), .c = c, .device = device, .offset = offset};
    t->op->counts(c->arg, t->count);
    for (int i = 0; i < TENSORS; i++) t->host[i] = gs_test_calloc(t->count[i] + 1, sizeof(float));
    set_inputs(t);
    for (int i = 0; i < TENSORS; i++) {
        size_t total = t->count[i] + 2 * offset;
        t->base[i] = gs_test_alloc(device, total * sizeof(float));
        t->place[i] = gs_at(t->base[i], offset);
        bool garbage = i != STATS; /* outputs must be overwritten: reading or adding to them gives NaN */
        if (i < INPUTS) {
            write_guarded(t, (tensor)i);
        } else {
            assert_ok(device->ops->fill(device, t->base[i], guard, total));
            assert_ok(device->ops->fill(device, t->place[i], garbage ? NAN : 0, t->count[i]));
        }
    }
    if (t->count[B] == 0) t->place[B] = t->place[DB] = GS_NONE;
}

void instance_forward(const instance *t) {
    if (t->op->forward(t) != GS_OK)
        fail_msg("%s on %s: %s", operator_case_name(t->c), t->device->name, gs_message());
}

void instance_backward(const instance *t) {
    if (t->op->backward && t->op->backward(t) != GS_OK)
        fail_msg("%s on %s: backward: %s", operator_case_name(t->c), t->device->name, gs_message());
}

void instance_read(instance *t, tensor which) {
    const gs_backend *ops = t->device->ops;
    size_t total = t->count[which] + 2 * t->offset;
    float *all = gs_test_malloc((total + 1) * sizeof *all);
    assert_ok(ops->read(t->device, all, t->base[which], total * sizeof(float)));
    for (size_t i = 0; i < t->offset; i++)
        if (all[i] != guard || all[total - 1 - i] != guard)
            fail_msg("%s on %s: an element %zu places %s %s was overwritten", operator_case_name(t->c),
                     t->device->name, t->offset - i, all[i] != guard ? "before" : "after",
                     tensor_names[which]);
    memcpy(t->host[which], all + t->offset, t->count[which] * sizeof(float));
    gs_test_free(all); /* finite differences read them many times */
}

gs_mem test_narrowed(gs_device *d, gs_mem x, size_t count, bool relu) {
    gs_mem m = gs_test_alloc(d, (count + 1) / 2 * sizeof(float));
    m.half = true;
    assert_ok(d->ops->narrow(d, m, x, count, relu));
    return m;
}

void instance_poke(instance *t, tensor which, size_t i, float value) {
    t->host[which][i] = value;
    assert_ok(t->device->ops->write(t->device, gs_at(t->place[which], i), &t->host[which][i], sizeof(float)));
}

void instance_run(instance *t) {
    instance_forward(t);
    instance_backward(t);
    for (int i = Y; i < TENSORS; i++)
        if (t->place[i].base) instance_read(t, (tensor)i);
}

double root_mean_square(const float *v, size_t count) {
    double squares = 0;
    for (size_t i = 0; i < count; i++) squares += (double)v[i] * (double)v[i];
    return count ? sqrt(squares / (double)count) : 0;
}
