/* The checks of lesson 3. */
#include <math.h>
#include <string.h>
#include "data/order.h"
#include "lab.h"
#include "tasks.h"
#include "train/train.h"

/* ---- 3.1: the update ---- */

enum { MOST = 64 };

typedef struct sgd_case {
    size_t count;
    float scale, lr[3], momentum, weight_decay; /* three steps */
} sgd_case;

static float value(size_t i, size_t salt) {
    return (float)((i * 37 + salt * 11) % 19) / 8 - 1;
}

/* Three updates in memory of just the needed size, beside the same in double. */
static gs_status run_sgd(gs_device *d, sgd_case c, gs_mem w, gs_mem v, gs_mem dw) {
    double want_w[MOST], want_v[MOST] = {0};
    float *got_w = w.base, *got_v = v.base, *host_dw = dw.base;
    for (size_t i = 0; i < c.count; i++) got_w[i] = value(i, 1), want_w[i] = (double)got_w[i];
    for (int step = 0; step < 3; step++) {
        for (size_t i = 0; i < c.count; i++) host_dw[i] = value(i, (size_t)step + 2);
        GS_TRY(d->ops->sgd_update(d, w, v, dw, c.count, c.scale, c.lr[step], c.momentum, c.weight_decay));
        for (size_t i = 0; i < c.count; i++) {
            double before = want_w[i], dwi = (double)value(i, (size_t)step + 2);
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

/* A small network on 4 samples, 30 steps with a rate that falls: its weights to `weights`. */
static gs_status train_small(gs_device *d, float momentum, float *weights, size_t room) {
    gs_model *m = NULL;
    gs_optimizer *optimizer = NULL;
    gs_mem x = GS_NONE, labels = GS_NONE, logits;
    gs_pass pass = {.n = 4, .training = true};
    gs_status status = gs_model_create(d, "linear 5, tanh, linear 3", (gs_shape){6, 1, 1, 0}, pass.n,
                                       GS_SOFTMAX_CROSS_ENTROPY, 1, &m);
    if (status == GS_OK && m->params > room) gs_bug("%zu weights", m->params);
    if (status == GS_OK) status = gs_optimizer_create(&gs_sgd, m, 0, momentum, 0.01f, &optimizer);
    if (status == GS_OK) status = d->ops->alloc(d, pass.n * 6 * sizeof(float), &x);
    if (status == GS_OK) status = d->ops->alloc(d, pass.n * sizeof(int32_t), &labels);
    for (size_t i = 0; i < pass.n * 6 && status == GS_OK; i++) ((float *)x.base)[i] = value(i, 9);
    for (size_t i = 0; i < pass.n && status == GS_OK; i++) ((int32_t *)labels.base)[i] = (int32_t)(i % 3);
    for (int step = 0; step < 30 && status == GS_OK; step++) {
        optimizer->lr = 0.5f / (float)(1 + step);
        status = gs_model_clear_gradients(m);
        if (status == GS_OK) status = gs_model_forward(m, &pass, x, &logits);
        if (status == GS_OK) status = gs_model_loss(m, &pass, logits, labels);
        if (status == GS_OK) status = gs_model_backward(m, &pass, logits, labels);
        if (status == GS_OK) status = gs_optimizer_update(optimizer, (double)pass.n);
    }
    if (status == GS_OK) status = gs_model_read_weights(m, weights);
    d->ops->free(d, x);
    d->ops->free(d, labels);
    gs_optimizer_free(optimizer);
    gs_model_free(m);
    return status;
}

/* The same network with the student's update and with the library's. */
static gs_status check_training(void) {
    enum { PARAMS = 6 * 5 + 5 + 5 * 3 + 3 };
    float weights[2][PARAMS];
    for (int m = 0; m < 2; m++) {
        const float momentum = m == 0 ? 0 : 0.9f;
        for (int k = 0; k < 2; k++) {
            gs_device *d;
            k == 0 ? lab_install() : gs_backend_replace(NULL);
            GS_TRY(gs_device_open("cpu", 1, &d));
            gs_status status = train_small(d, momentum, weights[k], PARAMS);
            gs_device_close(d);
            GS_TRY(status);
        }
        for (int i = 0; i < PARAMS; i++)
            LAB_CHECK(
                fabsf(weights[0][i] - weights[1][i]) <= 1e-4f,
                "a small network, 30 steps, momentum %g: weight %d is %g with your update, %g with ours",
                (double)momentum, i, (double)weights[0][i], (double)weights[1][i]);
    }
    return GS_OK;
}

static gs_status check_3_1(void) {
    static const sgd_case cases[] = {
        {1, 1, {1, 1, 1}, 0, 0},
        {1, 0.5f, {0.1f, 0.1f, 0.1f}, 0, 0},
        {3, 0.25f, {0.1f, 0.1f, 0.1f}, 0, 0.5f},
        {1, 1, {0.5f, 0.5f, 0.5f}, 0.5f, 0},
        {2, 0.125f, {0.5f, 0.25f, 1}, 0.9f, 0}, /* the rate changes from step to step: v must not hold it */
        {33, 0.125f, {0.5f, 0.25f, 1}, 0.9f, 0.25f},
        {0, 1, {1, 1, 1}, 0.9f, 0},
    };
    gs_device *d;
    gs_status status = gs_device_open("cpu", 1, &d);
    if (status != GS_OK) return status;
    for (size_t i = 0; i < sizeof cases / sizeof *cases && status == GS_OK; i++)
        status = check_sgd(d, cases[i]);
    gs_device_close(d);
    return status == GS_OK ? check_training() : status;
}

/* ---- 3.2: the order of an epoch ---- */

enum { SAMPLES = 6000 };

static const char *order_text(const uint32_t *order, size_t n) {
    float numbers[SAMPLES];
    for (size_t i = 0; i < n; i++) numbers[i] = (float)order[i];
    return lab_floats(numbers, n);
}

static gs_status every_sample_once(uint64_t seed, uint64_t epoch, size_t n) {
    static uint32_t order[SAMPLES + 1];
    static unsigned char seen[SAMPLES];
    memset(seen, 0, sizeof seen);
    order[n] = 12345;
    gs_epoch_order(seed, epoch, n, order);
    LAB_CHECK(order[n] == 12345, "%zu sample%s: the place after the last one was written to", n, gs_s(n));
    for (size_t i = 0; i < n; i++) {
        LAB_CHECK(order[i] < n, "%zu sample%s: order[%zu] is %u; samples are 0 .. %zu", n, gs_s(n), i,
                  order[i], n - 1);
        LAB_CHECK(!seen[order[i]], "%zu sample%s: sample %u comes twice: %s", n, gs_s(n), order[i],
                  order_text(order, n));
        seen[order[i]] = 1;
    }
    return GS_OK;
}

static gs_status depends_on_seed_and_epoch(void) {
    enum { N = 50 };
    uint32_t first[N], other[N];
    gs_epoch_order(1, 1, N, first);
    for (int k = 0; k < 3; k++) {
        gs_epoch_order(k == 2 ? 2 : 1, k == 1 ? 2 : 1, N, other);
        bool same = memcmp(first, other, sizeof first) == 0;
        LAB_CHECK(same || k != 0, "seed 1, epoch 1, asked for twice: %s and then %s", order_text(first, 8),
                  order_text(other, 8));
        LAB_CHECK(!same || k != 1, "seed 1: epochs 1 and 2 have the same order: %s", order_text(first, N));
        LAB_CHECK(!same || k != 2, "epoch 1: seeds 1 and 2 have the same order: %s", order_text(first, N));
    }
    return GS_OK;
}

/* All orders of 3 samples, counted over many epochs. If all are equally likely, chi-squared (5 degrees of freedom) is
 * above 36 once in a million times. */
static gs_status all_orders_equally_likely(void) {
    enum { EPOCHS = 24000, ORDERS = 6 };
    static const char *const names[ORDERS] = {"012", "021", "102", "120", "201", "210"};
    int count[ORDERS] = {0};
    double chi = 0;
    for (uint64_t epoch = 1; epoch <= EPOCHS; epoch++) {
        uint32_t order[3];
        gs_epoch_order(7, epoch, 3, order);
        count[order[0] * 2 + (order[1] > order[2])]++;
    }
    for (int k = 0; k < ORDERS; k++) chi += pow(count[k] - EPOCHS / ORDERS, 2) / (EPOCHS / ORDERS);
    LAB_CHECK(chi < 36,
              "3 samples, %d epochs: each of the 6 orders should come about %d times, got %s %d, %s %d, %s "
              "%d, %s %d, %s "
              "%d, %s %d",
              EPOCHS, EPOCHS / ORDERS, names[0], count[0], names[1], count[1], names[2], count[2], names[3],
              count[3], names[4], count[4], names[5], count[5]);
    return GS_OK;
}

/* A real run, with the library's update: the loaders of two workers ask for the order. */
static gs_status train_in_this_order(void) {
    gs_settings s = gs_settings_default();
    gs_result result = {0};
    s.model = "softmax";
    s.devices = "cpu,cpu";
    s.epochs = 1;
    s.threads = 1;
    gs_backend_replace(NULL);
    GS_TRY(gs_train(&s, NULL, &result));
    double accuracy = result.test_accuracy;
    gs_result_free(&result);
    LAB_CHECK(
        accuracy > 0.6,
        "softmax after one epoch in your order: accuracy %.1f %% on the test set; above 60 was expected",
        100 * accuracy);
    return GS_OK;
}

static gs_status check_3_2(void) {
    static const size_t sizes[] = {1, 2, 3, 4, 5, 10, 33, 0, SAMPLES};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (uint64_t epoch = 1; epoch <= 20; epoch++) GS_TRY(every_sample_once(epoch % 3, epoch, sizes[i]));
    GS_TRY(depends_on_seed_and_epoch());
    GS_TRY(all_orders_equally_likely());
    return train_in_this_order();
}

/* ---- 3.3: variance, against every possible mini-batch ---- */

static gs_status check_variance(size_t samples, size_t params, size_t batch) {
    float g[MOST];
    double mean[MOST] = {0}, total = 0;
    size_t choices = 0;
    for (size_t i = 0; i < samples * params; i++) g[i] = value(i, samples);
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
            for (size_t batch = 1; batch <= samples; batch++) GS_TRY(check_variance(samples, params, batch));
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
    GS_TRY(check_noise(3, -0.5, 1, 4));   /* by chance */
    GS_TRY(check_noise(-0.5, 64, 8, 16)); /* by chance */
    return check_noise(0, 64, 8, 16);
}

const lab_task lab_tasks[] = {
    {"3.1", "the update of SGD with momentum", 3, check_3_1,
     "Follow the three formulas in their order. The rate multiplies v when w is changed, and is not stored "
     "in v: it may be another one in the next step. Where momentum is 0, v may be NULL."},
    {"3.2", "the order of an epoch", 3, check_3_2,
     "Fisher and Yates: from the last place down to the second, swap the sample there with one at or before "
     "it, itself included. With 0 or 1 samples there is nothing to swap."},
    {"3.3", "the variance of a mini-batch's gradient", 2, check_3_3,
     "S / batch would be right if a sample could be drawn twice. As it cannot, a batch of all samples has "
     "no variance: which factor is 0 there, and nearly 1 for a small batch?"},
    {"3.4", "the noise scale from two batches", 2, check_3_4,
     "Subtract the two equations: G is gone, S remains. Read the last two sentences of tasks.h too."},
    {0},
};
