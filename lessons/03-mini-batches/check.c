/* The checks of lesson 3. */
#include <math.h>
#include <string.h>
#include "lab.h"
#include "tasks.h"

/* ---- 3.1: the update ---- */

enum { MOST = 64 };

/* Rows of drawn numbers (lab_number, lab_pick); 3.2 uses those from 0 on, one for each case. */
enum { SGD_ROW = 100, VARIANCE_ROW, NOISE_ROW, VALUES_ROW = 200 };

typedef struct sgd_case {
    size_t count;
    float scale, lr[3], momentum, weight_decay; /* three steps */
    unsigned row;                               /* of drawn numbers; 0: the same numbers for all seeds */
} sgd_case;

/* A whole number in 0 .. below-1: number `i` of a case. */
static unsigned drawn(int number, int i, unsigned below) {
    return (unsigned)lab_pick((unsigned)number, (size_t)i, below);
}

static float value(unsigned row, size_t i, size_t salt) {
    return row ? lab_number(row, 1000 * salt + i) : (float)((i * 37 + salt * 11) % 19) / 8 - 1;
}

/* Compares three updates, in memory without a spare byte, with a reference in double. */
static gs_status run_sgd(gs_device *d, sgd_case c, gs_mem w, gs_mem v, gs_mem dw) {
    double want_w[MOST], want_v[MOST] = {0};
    float *got_w = w.base, *got_v = v.base, *host_dw = dw.base;
    for (size_t i = 0; i < c.count; i++) got_w[i] = value(c.row, i, 1), want_w[i] = (double)got_w[i];
    for (int step = 0; step < 3; step++) {
        for (size_t i = 0; i < c.count; i++) host_dw[i] = value(c.row, i, (size_t)step + 2);
        GS_TRY(d->ops->sgd_update(d, w, v, dw, c.count, c.scale, c.lr[step], c.momentum, c.weight_decay));
        for (size_t i = 0; i < c.count; i++) {
            double before = want_w[i], dwi = (double)value(c.row, i, (size_t)step + 2);
            double g = (double)c.scale * dwi + (double)c.weight_decay * before;
            want_v[i] = (double)c.momentum * want_v[i] + g;
            want_w[i] -= (double)c.lr[step] * want_v[i];
            if (fabs((double)got_w[i] - want_w[i]) > 1e-5)
                return gs_fail(
                    GS_E_DIFFER,
                    "scale %g, lr %g, momentum %g, weight decay %g, step %d: w was %.6g, dw %.6g, v becomes "
                    "%.6g: the new w is %.6g, got %.6g (i = %zu of %zu)",
                    (double)c.scale, (double)c.lr[step], (double)c.momentum, (double)c.weight_decay, step + 1,
                    before, dwi, want_v[i], want_w[i], (double)got_w[i], i, c.count);
            if (got_v && fabs((double)got_v[i] - want_v[i]) > 1e-5)
                return gs_fail(
                    GS_E_DIFFER, "momentum %g, lr %g, step %d: w is right, but v[%zu] must be %.6g, got %.6g",
                    (double)c.momentum, (double)c.lr[step], step + 1, i, want_v[i], (double)got_v[i]);
        }
    }
    return GS_OK;
}

static gs_status check_sgd(gs_device *d, sgd_case c) {
    gs_mem w = GS_NONE, v = GS_NONE, dw = GS_NONE;
    size_t bytes = (c.count > 0 ? c.count : 1) * sizeof(float);
    gs_status status = d->ops->alloc(d, bytes, &w);
    if (status == GS_OK) status = d->ops->alloc(d, bytes, &dw);
    if (status == GS_OK && c.momentum != 0)
        status = d->ops->alloc(d, bytes, &v); /* without momentum there is none */
    if (status == GS_OK) status = run_sgd(d, c, w, v, dw);
    d->ops->free(d, w);
    d->ops->free(d, v);
    d->ops->free(d, dw);
    return status;
}

/* Trains a small network on 2 workers with a falling rate, without momentum and with it. */
static gs_status check_training(void) {
    gs_settings s = gs_settings_default();
    s.model = "flatten, linear 5, tanh, linear 10";
    s.devices = "cpu,cpu";
    s.batch = 16;
    s.steps = 30;
    s.threads = 1;
    s.schedule.kind = GS_SCHEDULE_COSINE;
    s.weight_decay = 0.01f;
    s.momentum = 0;
    GS_TRY(lab_compare_training(&s, 1e-4));
    s.momentum = 0.9f;
    lab_install();
    return lab_compare_training(&s, 1e-4);
}

static sgd_case draw_sgd(int i) {
    const float momentum[] = {0, 0.5f, 0.9f};
    sgd_case c = {.count = 1 + drawn(SGD_ROW, 8 * i, MOST), .row = VALUES_ROW + (unsigned)i};
    c.scale = 1 / (float)(1 + drawn(SGD_ROW, 8 * i + 1, 8));
    for (int step = 0; step < 3; step++) c.lr[step] = (float)(1 + drawn(SGD_ROW, 8 * i + 2 + step, 16)) / 16;
    c.momentum = momentum[drawn(SGD_ROW, 8 * i + 5, 3)];
    c.weight_decay = (float)drawn(SGD_ROW, 8 * i + 6, 4) / 8;
    return c;
}

static gs_status check_3_1(void) {
    static const sgd_case cases[] = {
        {1, 1, {1, 1, 1}, 0, 0, 0},
        {1, 0.5f, {0.1f, 0.1f, 0.1f}, 0, 0, 0},
        {3, 0.25f, {0.1f, 0.1f, 0.1f}, 0, 0.5f, 0},
        {1, 1, {0.5f, 0.5f, 0.5f}, 0.5f, 0, 0},
        {2, 0.125f, {0.5f, 0.25f, 1}, 0.9f, 0, 0}, /* the rate changes: v must not hold it */
        {33, 0.125f, {0.5f, 0.25f, 1}, 0.9f, 0.25f, 0},
        {0, 1, {1, 1, 1}, 0.9f, 0, 0},
    };
    gs_device *d;
    gs_status status = gs_device_open("cpu", 1, &d);
    if (status != GS_OK) return status;
    for (size_t i = 0; i < sizeof cases / sizeof *cases && status == GS_OK; i++)
        status = check_sgd(d, cases[i]);
    for (int i = 0; i < 20 && status == GS_OK; i++) status = check_sgd(d, draw_sgd(i));
    gs_device_close(d);
    return status == GS_OK ? check_training() : status;
}

/* ---- 3.2: an unbiased estimate, against every possible draw ---- */

enum { PARAMS = 2, MOST_SAMPLES = 4, MOST_BATCH = 3, SIZES = MOST_SAMPLES * PARAMS };

typedef struct draw_case {
    size_t samples, batch;
    float g[SIZES];
    double probability[MOST_SAMPLES];
} draw_case;

static const char *doubles(const double *x, size_t count) {
    float f[SIZES];
    for (size_t i = 0; i < count; i++) f[i] = (float)x[i];
    return lab_floats(f, count);
}

/* The average of the estimate over all draws, each with its probability, and of its squared distance from the whole
 * gradient. */
static void over_all_draws(const draw_case *c, const double *whole, double *average, double *squared) {
    size_t draws = 1;
    average[0] = average[1] = *squared = 0;
    for (size_t k = 0; k < c->batch; k++) draws *= c->samples;
    for (size_t draw = 0; draw < draws; draw++) {
        float rows[MOST_BATCH * PARAMS];
        double probability[MOST_BATCH], chance = 1, estimate[PARAMS] = {0};
        for (size_t k = 0, rest = draw; k < c->batch; k++, rest /= c->samples) {
            size_t i = rest % c->samples;
            memcpy(&rows[k * PARAMS], &c->g[i * PARAMS], PARAMS * sizeof *rows);
            probability[k] = c->probability[i];
            chance *= c->probability[i];
        }
        lab_unbiased(rows, probability, c->batch, PARAMS, c->samples, estimate);
        for (size_t p = 0; p < PARAMS; p++) {
            average[p] += chance * estimate[p];
            *squared += chance * pow(estimate[p] - whole[p], 2);
        }
    }
}

static gs_status check_unbiased(const draw_case *c) {
    double whole[PARAMS] = {0}, average[PARAMS], squared, single = 0;
    for (size_t i = 0; i < c->samples * PARAMS; i++)
        whole[i % PARAMS] += (double)c->g[i] / (double)c->samples;
    for (size_t i = 0; i < c->samples; i++)
        for (size_t p = 0; p < PARAMS; p++) {
            double alone = (double)c->g[i * PARAMS + p] / (c->probability[i] * (double)c->samples);
            single += c->probability[i] * pow(alone - whole[p], 2);
        }
    over_all_draws(c, whole, average, &squared);
    for (size_t p = 0; p < PARAMS; p++)
        LAB_CHECK(
            fabs(average[p] - whole[p]) <= 1e-6,
            "%zu sample%s with the gradients %s (rows of a %zu x 2 array), drawn with the probabilities %s, "
            "batch %zu: the whole gradient is %s; over all draws your estimate is %s on average: biased",
            c->samples, gs_s(c->samples), lab_floats(c->g, c->samples * PARAMS), c->samples,
            doubles(c->probability, c->samples), c->batch, doubles(whole, PARAMS), doubles(average, PARAMS));
    LAB_CHECK(
        fabs(squared - single / (double)c->batch) <= 1e-6 * (1 + single),
        "%zu samples with the gradients %s (rows of a %zu x 2 array), drawn with the probabilities %s, batch "
        "%zu: unbiased, but its mean squared distance from the whole gradient is %.6g; the mean over all "
        "draws has %.6g",
        c->samples, lab_floats(c->g, c->samples * PARAMS), c->samples, doubles(c->probability, c->samples),
        c->batch, squared, single / (double)c->batch);
    return GS_OK;
}

/* The probabilities are drawn too: proportional to 1 .. 8. */
static gs_status check_drawn_case(int number, size_t samples, size_t batch) {
    draw_case c = {.samples = samples, .batch = batch};
    double sum = 0;
    for (size_t i = 0; i < samples; i++) sum += c.probability[i] = 1 + drawn(number, (int)i, 8);
    for (size_t i = 0; i < samples; i++) c.probability[i] /= sum;
    for (size_t i = 0; i < samples * PARAMS; i++) c.g[i] = (float)drawn(number, 20 + (int)i, 17) / 4 - 2;
    return check_unbiased(&c);
}

static gs_status check_3_2(void) {
    static const draw_case cases[] = {
        {1, 1, {3, -1}, {1}},
        {2, 1, {1, 0, 3, 2}, {0.5, 0.5}},
        {2, 1, {1, 0, 3, 2}, {0.75, 0.25}},
        {2, 2, {1, 0, 3, 2}, {0.75, 0.25}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) GS_TRY(check_unbiased(&cases[i]));
    for (int i = 0; i < 50; i++)
        GS_TRY(check_drawn_case(i, 1 + (size_t)i % MOST_SAMPLES, 1 + (size_t)i / MOST_SAMPLES % MOST_BATCH));
    return GS_OK;
}

/* ---- 3.3: variance, against every possible mini-batch ---- */

static gs_status check_variance(unsigned row, size_t samples, size_t params, size_t batch) {
    float g[MOST];
    double mean[MOST] = {0}, total = 0;
    size_t choices = 0;
    for (size_t i = 0; i < samples * params; i++) g[i] = value(row, i, samples);
    for (size_t i = 0; i < samples * params; i++) mean[i % params] += (double)g[i] / (double)samples;
    for (unsigned choice = 0; choice < 1u << samples; choice++) {
        if ((size_t)__builtin_popcount(choice) != batch) continue;
        for (size_t p = 0; p < params; p++) {
            double sum = 0;
            for (size_t i = 0; i < samples; i++)
                if (choice >> i & 1) sum += (double)g[i * params + p];
            total += pow(sum / (double)batch - mean[p], 2);
        }
        choices++;
    }
    double wanted = total / (double)choices, got = lab_gradient_variance(g, samples, params, batch);
    LAB_CHECK(
        fabs(got - wanted) <= 1e-9 + 1e-5 * wanted,
        "g (%zu,%zu) = %s, batch %zu: over all %zu mini-batches the mean squared distance is %.6g, got %.6g",
        samples, params, lab_floats(g, samples * params), batch, choices, wanted, got);
    return GS_OK;
}

static gs_status check_3_3(void) {
    for (size_t samples = 1; samples <= 9; samples++)
        for (size_t params = 1; params <= 4; params += 3)
            for (size_t batch = 1; batch <= samples; batch++)
                GS_TRY(check_variance(0, samples, params, batch));
    for (int i = 0; i < 40; i++) {
        size_t samples = 1 + drawn(VARIANCE_ROW, 4 * i, 9), params = 1 + drawn(VARIANCE_ROW, 4 * i + 1, 7);
        GS_TRY(check_variance(VALUES_ROW + (unsigned)i, samples, params,
                              1 + drawn(VARIANCE_ROW, 4 * i + 2, (unsigned)samples)));
    }
    return GS_OK;
}

/* ---- 3.4: the noise scale ---- */

static gs_status check_noise(double g, double s, double small, double big) {
    double wanted = g > 0 ? s / g : (double)INFINITY;
    double small_squared = g + s / small, big_squared = g + s / big;
    double got = lab_noise_scale(small, small_squared, big, big_squared);
    if (s < 0) wanted = 0;
    LAB_CHECK(
        got == wanted || (isfinite(wanted) && fabs(got - wanted) <= 1e-6 * (wanted + 1)),
        "|g|^2 is %.9g for %g samples and %.9g for %g: so G = %g, S = %g, and the scale is %.6g, got %.6g",
        small_squared, small, big_squared, big, g, s, wanted, got);
    return GS_OK;
}

static gs_status check_3_4(void) {
    GS_TRY(check_noise(1, 1, 1, 2));
    GS_TRY(check_noise(2, 8, 1, 4));
    GS_TRY(check_noise(0.25, 100, 32, 256));
    GS_TRY(check_noise(4, 0, 1, 2));
    GS_TRY(check_noise(3, -0.5, 1, 4)); /* S and G may be negative by chance */
    GS_TRY(check_noise(-0.5, 64, 8, 16));
    GS_TRY(check_noise(0, 64, 8, 16));
    for (int i = 0; i < 50; i++) {
        double g = (double)(1 + drawn(NOISE_ROW, 8 * i, 40)) / 8,
               s = (double)(1 + drawn(NOISE_ROW, 8 * i + 1, 200)) / 8;
        unsigned sign = drawn(NOISE_ROW, 8 * i + 2, 6); /* at most one of them is below 0 */
        double small = 1 + drawn(NOISE_ROW, 8 * i + 3, 64);
        GS_TRY(check_noise(sign == 1 ? -g : g, sign == 2 ? -s : s, small,
                           small + 1 + drawn(NOISE_ROW, 8 * i + 4, 500)));
    }
    return GS_OK;
}

const char *const lab_may_call[] = {NULL};

const lab_task lab_tasks[] = {
    {"3.1", "the update of SGD with momentum", 3, check_3_1,
     "Follow the three formulas in order. The rate multiplies v in the update of w, and is not stored in v: "
     "it "
     "may differ in the next step. Where momentum is 0, v may be NULL."},
    {"3.2", "an unbiased estimate of the gradient", 3, check_3_2,
     "A batch of one is sample i with probability p_i: the average is the sum over i of p_i (weight of i) "
     "g_i. Which weight makes it the sum of g_i / samples? Do not divide by the sum of the weights: in one "
     "draw it differs from its average."},
    {"3.3", "the variance of a mini-batch's gradient", 2, check_3_3,
     "S / batch would be right if a sample could be drawn twice. It cannot, so a batch of all samples has no "
     "variance: which factor is 0 there, and nearly 1 for a small batch?"},
    {"3.4", "the noise scale from two batches", 2, check_3_4,
     "Subtract the two equations: G cancels, S remains. Read the last two sentences of tasks.h too."},
    {0},
};
