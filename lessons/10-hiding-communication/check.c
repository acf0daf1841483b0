/* Lesson 10: the checks of the tasks in tasks.h. Rounding is compared with a search among all numbers of a format, in
 * double precision; buckets and 16 bits also with training without them. */
#include "tasks.h"
#include "train/train.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- training ---- */

static gs_settings settings(const char *model) {
    gs_settings s = gs_settings_default();
    s.model = model;
    s.devices = "cpu,cpu,cpu";
    s.sync = "ps";
    s.batch = 333;
    s.steps = 20;
    s.threads = 1;
    s.timeout = 5;
    return s;
}

static double largest_difference(const gs_result *a, const gs_result *b) {
    double largest = 0;
    for (size_t i = 0; i < a->params; i++) {
        double d = fabs((double)a->weights[i] - (double)b->weights[i]);
        if (!(d <= largest)) largest = d;
    }
    return largest;
}

/* ---- 10.1 ---- */

enum { MOST_LAYERS = 6 };

typedef struct plan_case {
    size_t count, least;
    int layers;
    size_t layer[MOST_LAYERS];
    int buckets;
    size_t first[MOST_LAYERS + 1]; /* of each bucket that is wanted */
} plan_case;

static void list(char *text, size_t size, const size_t *number, int n) {
    text[0] = 0;
    for (int i = 0; i < n; i++)
        snprintf(text + strlen(text), size - strlen(text), i ? " %zu" : "%zu", number[i]);
}

static gs_status check_plan(const plan_case *k) {
    gs_bucket *bucket = calloc((size_t)k->layers + 1, sizeof *bucket);
    size_t first[MOST_LAYERS + 1] = {0}, end = k->count;
    char layers[100], got[100], wanted[100];
    if (!bucket) gs_bug("no memory");
    int buckets = gs_buckets_plan(k->layer, k->layers, k->count, k->least, bucket);
    bool right = buckets == k->buckets;
    for (int i = 0; i < buckets && i <= k->layers; i++) {
        first[i] = bucket[i].first;
        right = right && first[i] == k->first[i] && first[i] + bucket[i].count == end;
        end = first[i];
    }
    list(layers, sizeof layers, k->layer, k->layers);
    list(got, sizeof got, first, buckets < 0 ? 0 : buckets <= k->layers ? buckets : k->layers + 1);
    list(wanted, sizeof wanted, k->first, k->buckets);
    gs_bucket last = bucket[buckets > 0 && buckets <= k->layers + 1 ? buckets - 1 : 0];
    free(bucket);
    if (right) return GS_OK;
    return gs_fail(
        GS_E_DIFFER,
        "%zu element%s, layers at %s, at least %zu a bucket: got %d bucket%s, from \"%s\" on (the last of "
        "%zu element%s), expected %d, from \"%s\" on, each up to where the one before it begins",
        k->count, gs_s(k->count), layers, k->least, buckets, gs_s(buckets), got, last.count, gs_s(last.count),
        k->buckets, wanted);
}

static gs_status check_buckets_in_training(const char *model, int kb, int buckets) {
    gs_settings s = settings(model);
    s.steps = 6;
    gs_result plain = {0}, r = {0};
    gs_status status = gs_train(&s, NULL, &plain);
    s.bucket = kb;
    if (status == GS_OK) status = gs_train(&s, NULL, &r);
    if (status == GS_OK && r.overlap.buckets != buckets)
        status = gs_fail(GS_E_DIFFER, "train --bucket %d --model \"%s\": %d bucket%s, expected %d", kb, model,
                         r.overlap.buckets, gs_s(r.overlap.buckets), buckets);
    if (status == GS_OK && largest_difference(&plain, &r) > 0)
        status =
            gs_fail(GS_E_DIFFER,
                    "train --bucket %d --model \"%s\": after 20 steps the weights differ by %g from those "
                    "without buckets, expected the same",
                    kb, model, largest_difference(&plain, &r));
    gs_result_free(&plain);
    gs_result_free(&r);
    return status;
}

static gs_status the_plan_of_buckets(void) {
    static const plan_case cases[] = {
        {10, 4, 1, {0}, 1, {0}},
        {10, 100, 2, {0, 6}, 1, {0}},                 /* never enough */
        {10, 4, 2, {0, 6}, 2, {6, 0}},                /* just enough */
        {10, 5, 2, {0, 6}, 1, {0}},                   /* one too few */
        {10, 4, 3, {0, 4, 8}, 2, {4, 0}},             /* two layers together */
        {14, 4, 3, {0, 4, 8}, 3, {8, 4, 0}},          /* a large layer is a bucket alone */
        {20, 3, 4, {0, 2, 9, 16}, 4, {16, 9, 2, 0}},  /* what is left is a bucket, however small */
        {20, 4, 5, {0, 8, 8, 16, 16}, 3, {16, 8, 0}}, /* layers without weights */
        {20, 1, 4, {0, 0, 0, 12}, 2, {12, 0}},        /* also at the beginning */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) GS_TRY(check_plan(&cases[i]));
    GS_TRY(check_buckets_in_training("mlp", 1, 3));
    GS_TRY(check_buckets_in_training("mlp", 100, 2));
    return check_buckets_in_training("conv 4 3x3 stride 2 pad 1, relu, max_pool 2, flatten, linear 16, tanh, "
                                     "linear 10",
                                     1, 2);
}

/* ---- 10.2 ---- */

enum { MOST_SAMPLES = 12 };

/* Samples that note how they are used. Without a model the gradient of sample i is i + 1 in the one element. */
typedef struct samples {
    gs_model *model;
    gs_mem x, labels;
    int used[MOST_SAMPLES];
    int calls, empty;
    size_t most;
} samples;

static gs_status model_gradient(const samples *s, size_t first, size_t count, float *gradient) {
    gs_model *m = s->model;
    gs_device *d = m->device;
    gs_pass pass = {.n = count, .training = true, .first = first};
    gs_mem logits, x = gs_at(s->x, first * 784), labels = gs_at(s->labels, first);
    float *part = malloc(m->params * sizeof *part);
    gs_status status = part ? gs_model_clear_gradients(m) : gs_fail(GS_E_MEMORY, "no memory");
    if (status == GS_OK) status = gs_model_forward(m, &pass, x, &logits);
    if (status == GS_OK) status = gs_model_loss(m, &pass, logits, labels);
    if (status == GS_OK) status = gs_model_backward(m, &pass, logits, labels);
    if (status == GS_OK) status = d->ops->read(d, part, m->gradients, m->params * sizeof *part);
    for (size_t i = 0; i < m->params && status == GS_OK; i++) gradient[i] += part[i];
    free(part);
    return status;
}

static gs_status add_gradient(void *context, size_t first, size_t count, float *gradient) {
    samples *s = context;
    s->calls++;
    s->empty += count == 0;
    if (count > s->most) s->most = count;
    if (first > MOST_SAMPLES || count > MOST_SAMPLES - first)
        return gs_fail(GS_E_SHAPE, "add_gradient: samples %zu .. %zu", first, first + count);
    for (size_t i = first; i < first + count; i++) s->used[i]++;
    if (s->model) return count > 0 ? model_gradient(s, first, count, gradient) : GS_OK;
    for (size_t i = first; i < first + count; i++) gradient[0] += (float)(i + 1);
    return GS_OK;
}

static gs_status check_use(const samples *s, size_t n, int passes) {
    size_t parts = (size_t)passes < n ? (size_t)passes : n, most = (n + parts - 1) / parts;
    for (size_t i = 0; i < MOST_SAMPLES; i++)
        if (s->used[i] != (i < n))
            return gs_fail(GS_E_DIFFER, "%zu sample%s, %d pass%s: sample %zu was used %d time%s", n, gs_s(n),
                           passes, gs_es(passes), i, s->used[i], gs_s(s->used[i]));
    if (s->empty || s->calls != (int)parts || s->most > most)
        return gs_fail(GS_E_DIFFER,
                       "%zu sample%s, %d pass%s: got %d pass%s of at most %zu sample%s, %d of them of none; "
                       "expected %zu of at most %zu",
                       n, gs_s(n), passes, gs_es(passes), s->calls, gs_es(s->calls), s->most, gs_s(s->most),
                       s->empty, parts, most);
    return GS_OK;
}

/* Against all samples in one pass. */
static gs_status check_accumulated(samples *s, size_t n, int passes) {
    size_t params = s->model ? s->model->params : 1;
    float *mean = malloc(params * sizeof *mean), *whole = calloc(params, sizeof *whole);
    if (!mean || !whole) gs_bug("no memory");
    for (size_t i = 0; i < params; i++) mean[i] = 17; /* must not matter */
    gs_status status = add_gradient(s, 0, n, whole);
    memset(s->used, 0, sizeof s->used);
    s->calls = s->empty = 0;
    s->most = 0;
    if (status == GS_OK) status = accumulate(&(sample_set){params, add_gradient, s}, n, passes, mean);
    double size = 0;
    for (size_t i = 0; i < params; i++) size = fmax(size, fabs((double)whole[i] / (double)n));
    for (size_t i = 0; i < params && status == GS_OK; i++) {
        double wanted = (double)whole[i] / (double)n;
        if (!(fabs((double)mean[i] - wanted) <= 1e-6 * size))
            status = gs_fail(GS_E_DIFFER, "%zu sample%s%s, %d pass%s: mean %zu is %.7g, expected %.7g", n,
                             gs_s(n), s->model ? " of a network" : " with gradients 1, 2, 3, ...", passes,
                             gs_es(passes), i, mean[i], wanted);
    }
    free(mean);
    free(whole);
    return status == GS_OK ? check_use(s, n, passes) : status;
}

static gs_status with_a_model(gs_device *d, samples *s) {
    enum { FLOATS = MOST_SAMPLES * 784 };
    static float x[FLOATS];
    static int32_t labels[MOST_SAMPLES];
    for (int i = 0; i < FLOATS; i++) x[i] = sinf((float)i * 0.37f);
    for (int i = 0; i < MOST_SAMPLES; i++) labels[i] = i % 10;
    GS_TRY(gs_model_create(d, "flatten, linear 16, tanh, linear 10", (gs_shape){1, 28, 28, 0}, MOST_SAMPLES,
                           GS_SOFTMAX_CROSS_ENTROPY, 1, &s->model));
    GS_TRY(d->ops->alloc(d, sizeof x, &s->x));
    GS_TRY(d->ops->alloc(d, sizeof labels, &s->labels));
    GS_TRY(d->ops->write(d, s->x, x, sizeof x));
    GS_TRY(d->ops->write(d, s->labels, labels, sizeof labels));
    GS_TRY(check_accumulated(s, 12, 4));
    return check_accumulated(s, 11, 4);
}

static gs_status one_sum_of_many_passes(void) {
    static const struct {
        size_t n;
        int passes;
    } cases[] = {{1, 1}, {4, 1}, {4, 2}, {5, 2}, {7, 3}, {12, 5}, {2, 3}, {1, 4}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        samples s = {0};
        GS_TRY(check_accumulated(&s, cases[i].n, cases[i].passes));
    }
    gs_device *d;
    samples s = {0};
    GS_TRY(gs_device_open("cpu", 1, &d));
    gs_status status = with_a_model(d, &s);
    d->ops->free(d, s.x);
    d->ops->free(d, s.labels);
    gs_model_free(s.model);
    gs_device_close(d);
    return status;
}

/* ---- 10.3, 10.4 ---- */

static uint32_t bits_of(float f) {
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits) {
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* The number that 15 bits mean, without a sign. Those of infinity: the number that would come next. */
static double meaning(gs_wire wire, uint32_t h) {
    int places = wire == GS_WIRE_F16 ? 10 : 7, bias = wire == GS_WIRE_F16 ? 15 : 127;
    int exponent = (int)(h >> places), fraction = (int)(h & ((1u << places) - 1));
    if (exponent == 0) return ldexp(fraction, 1 - bias - places);
    return ldexp((1 << places) + fraction, exponent - bias - places);
}

static uint32_t infinity_of(gs_wire wire) {
    return wire == GS_WIRE_F16 ? 0x7c00 : 0x7f80;
}

/* The nearest number of the format, of two the even one, by a search among all of them. */
static uint32_t nearest(gs_wire wire, float f) {
    double size = fabs((double)f);
    uint32_t sign = signbit(f) ? 0x8000 : 0, low = 0, high = infinity_of(wire);
    if (size >= meaning(wire, high)) return sign | high;
    while (high - low > 1) { /* low <= size < high */
        uint32_t middle = (low + high) / 2;
        if (meaning(wire, middle) <= size)
            low = middle;
        else
            high = middle;
    }
    double below = size - meaning(wire, low), above = meaning(wire, high) - size;
    return sign | (below < above || (below == above && low % 2 == 0) ? low : high);
}

static gs_status check_rounding(gs_wire wire, float f) {
    uint16_t got;
    float kept = f;
    gs_wire_narrow(wire, &got, &kept, 1);
    if (isnan(f)) {
        if ((got & 0x7fff) > infinity_of(wire)) return GS_OK;
        return gs_fail(GS_E_DIFFER, "%s of a NaN (bits %08x): got %04x (%g), expected a NaN",
                       gs_wire_name(wire), bits_of(f), got, kept);
    }
    uint32_t wanted = nearest(wire, f);
    if (got == wanted) return GS_OK;
    float is;
    gs_wire_widen(wire, &is, &(uint16_t){(uint16_t)wanted}, 1);
    return gs_fail(GS_E_DIFFER, "%s of %.9g (%a, bits %08x): got %04x (%.9g), expected %04x (%.9g)",
                   gs_wire_name(wire), f, f, bits_of(f), got, kept, wanted, is);
}

/* Training with these 16 bits: near the weights of f32, the same on all workers after each step. */
static gs_status check_wire_in_training(gs_wire wire, double near) {
    gs_settings s =
        settings("conv 4 3x3 stride 2 pad 1, relu, max_pool 2, flatten, linear 16, tanh, linear 10");
    gs_result plain = {0}, r = {0};
    s.sync = "ring";
    gs_status status = gs_train(&s, NULL, &plain);
    s.wire = wire;
    s.verify = 1;
    if (status == GS_OK) status = gs_train(&s, NULL, &r);
    if (status == GS_OK && !(largest_difference(&plain, &r) <= near))
        status =
            gs_fail(GS_E_DIFFER,
                    "train --sync ring --wire %s: after 20 steps the weights differ by %g from those with "
                    "f32, expected at most %g",
                    gs_wire_name(wire), largest_difference(&plain, &r), near);
    gs_result_free(&plain);
    gs_result_free(&r);
    return status;
}

/* From easy to hard, then everything around every number of the format. */
static gs_status check_format(gs_wire wire) {
    static const float easy[] = {0, 1, -1, 0.5f, -2, 3, 100};
    static const uint32_t hard[] = {0x7f800000, 0xff800000, 0x7fc00000, 0x7f800001, 0x7fffffff, 0xffffffff,
                                    0x80000000, 0x00000001, 0x80000001, 0x7f7fffff, 0x007fffff, 0x33000000,
                                    0x33000001, 0x477fe000, 0x477fefff, 0x477ff000};
    for (size_t i = 0; i < sizeof easy / sizeof *easy; i++) GS_TRY(check_rounding(wire, easy[i]));
    int places = wire == GS_WIRE_F16 ? 10 : 7;
    for (int quarter = 1; quarter < 16; quarter++)
        GS_TRY(check_rounding(wire, (float)(1 + ldexp(quarter, -places - 2))));
    for (size_t i = 0; i < sizeof hard / sizeof *hard; i++) GS_TRY(check_rounding(wire, float_of(hard[i])));
    for (uint32_t h = infinity_of(wire); h-- > 0;) {
        double low = meaning(wire, h), high = meaning(wire, h + 1);
        uint32_t number = bits_of((float)low), middle = bits_of((float)((low + high) / 2));
        for (uint32_t step = 0; step < 3; step++) {
            if (number > 0 || step > 0) GS_TRY(check_rounding(wire, float_of(number + step - 1)));
            GS_TRY(check_rounding(wire, -float_of(middle + step - 1)));
        }
    }
    for (uint32_t i = 0; i < 200000; i++) GS_TRY(check_rounding(wire, float_of(i * 2654435761u)));
    return GS_OK;
}

static gs_status rounding_to_bf16(void) {
    GS_TRY(check_format(GS_WIRE_BF16));
    return check_wire_in_training(GS_WIRE_BF16, 1.2e-3);
}

static gs_status rounding_to_f16(void) {
    GS_TRY(check_format(GS_WIRE_F16));
    return check_wire_in_training(GS_WIRE_F16, 5e-4);
}

const lab_task lab_tasks[] = {
    {"10.1", "the plan of buckets, and training with it", 3, the_plan_of_buckets,
     "a bucket goes from a layer's first element up to where the bucket before it begins"},
    {"10.2", "many passes, one sum, one division", 2, one_sum_of_many_passes,
     "clear once before all passes, divide once after them by the number of all samples"},
    {"10.3", "f32 to bf16, to nearest even", 2, rounding_to_bf16,
     "add 0x7fff, and 1 more if the last bit that is kept is 1; then drop 16 bits. NaN first"},
    {"10.4", "f32 to f16, to nearest even", 3, rounding_to_f16,
     "decide in this order: NaN, too large, below 2^-14 (lrintf() of the number in units of 2^-24), and only "
     "then the rest"},
    {0},
};
