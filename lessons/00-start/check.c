/* The checks of lesson 0. */
#include <math.h>
#include <string.h>
#include "tasks.h"
#include "lab.h"
#include "train/train.h"

enum { MOST = 64 };

/* Rows of lab_pick and lab_number. */
enum { SAMPLES = 1, SIZES, LOGITS, WINNERS, LABELS, X, LAYERS };

/* ---- 0.1: the mean over all samples of two workers ---- */

/* The sums are made from single samples, so that the reference is the plain mean over these. */
static gs_status check_mean(size_t n0, size_t n1, size_t count) {
    float dw0[MOST] = {0}, dw1[MOST] = {0}, mean[MOST], wanted[MOST];
    for (size_t i = 0; i < count; i++) {
        double sum[2] = {0, 0};
        for (size_t s = 0; s < n0 + n1; s++) sum[s >= n0] += (double)lab_pick(SAMPLES, s * MOST + i, 11) - 4;
        dw0[i] = (float)sum[0];
        dw1[i] = (float)sum[1];
        wanted[i] = n0 + n1 > 0 ? (float)((sum[0] + sum[1]) / (double)(n0 + n1)) : 0;
        mean[i] = 1000; /* it must be written, not added to */
    }
    lab_mean_gradient(count, dw0, (double)n0, dw1, (double)n1, mean);
    for (size_t i = 0; i < count; i++)
        if (!(fabsf(mean[i] - wanted[i]) <= 1e-5f))
            return gs_fail(
                GS_E_DIFFER,
                "worker 0: sum %g of %zu sample%s, worker 1: sum %g of %zu sample%s: the mean is %g, got %g "
                "(i = %zu of %zu)",
                (double)dw0[i], n0, gs_s(n0), (double)dw1[i], n1, gs_s(n1), (double)wanted[i],
                (double)mean[i], i, count);
    return GS_OK;
}

static gs_status check_0_1(void) {
    static const size_t sizes[][2] = {{1, 1}, {3, 1}, {2, 2}, {1, 6}, {5, 0}, {0, 2}, {0, 0}, {64, 33}};
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
        for (size_t count = 1; count <= MOST; count += 21)
            GS_TRY(check_mean(sizes[k][0], sizes[k][1], count));
    for (size_t i = 0; i < 15; i += 3)
        GS_TRY(
            check_mean(lab_pick(SIZES, i, 50), lab_pick(SIZES, i + 1, 50), 1 + lab_pick(SIZES, i + 2, MOST)));
    return GS_OK;
}

/* ---- 0.2: accuracy ---- */

static gs_status accuracy_is(double wanted, const float *logits, const int32_t *labels, size_t n, int classes,
                             const char *what) {
    double got = lab_accuracy(logits, labels, n, classes);
    if (fabs(got - wanted) <= 1e-12) return GS_OK;
    return gs_fail(GS_E_DIFFER, "%s (logits (%zu,%d)): the accuracy is %.6g, got %.6g", what, n, classes,
                   wanted, got);
}

/* Larger arrays with known answers: each row has one winner above all others. */
static gs_status check_larger(unsigned k) {
    enum { MOST_ROWS = 301, MOST_CLASSES = 20, PLACES = 10000 /* of a case in a row of numbers */ };
    static float logits[MOST_ROWS * MOST_CLASSES];
    static int32_t labels[MOST_ROWS];
    const size_t n = 1 + lab_pick(SIZES, 100 + k, k < 3 ? 9 : MOST_ROWS), first = (size_t)k * PLACES;
    const size_t classes = 2 + lab_pick(SIZES, 200 + k, MOST_CLASSES - 1);
    size_t correct = 0;
    for (size_t i = 0; i < n; i++) {
        const size_t answer = lab_pick(WINNERS, first + i, classes);
        const bool right = lab_pick(LABELS, first + i, 3) > 0;
        labels[i] = (int32_t)(right ? answer : (answer + 1) % classes);
        correct += right;
        for (size_t c = 0; c < classes; c++)
            logits[i * classes + c] = c == answer ? -2 : -4 + lab_number(LOGITS, first + i * classes + c);
    }
    return accuracy_is((double)correct / (double)n, logits, labels, n, (int)classes, "rows that are drawn");
}

static gs_status check_0_2(void) {
    const float two[] = {3, 1, -2, 5}, negative[] = {-3, -1, -2}, tie[] = {1, 4, 4};
    GS_TRY(accuracy_is(1, two, (int32_t[]){0, 1}, 2, 2, "rows 3 1 and -2 5, labels 0 1"));
    GS_TRY(accuracy_is(0.5, two, (int32_t[]){0, 0}, 2, 2, "rows 3 1 and -2 5, labels 0 0"));
    GS_TRY(accuracy_is(0, two, (int32_t[]){1, 0}, 2, 2, "rows 3 1 and -2 5, labels 1 0"));
    GS_TRY(accuracy_is(1, negative, (int32_t[]){1}, 1, 3, "row -3 -1 -2, label 1"));
    GS_TRY(
        accuracy_is(1, tie, (int32_t[]){1}, 1, 3, "row 1 4 4, label 1: the first of two that are largest"));
    GS_TRY(
        accuracy_is(0, tie, (int32_t[]){2}, 1, 3, "row 1 4 4, label 2: the first of two that are largest"));
    GS_TRY(accuracy_is(1, (const float[]){-7}, (int32_t[]){0}, 1, 1, "one class"));
    GS_TRY(accuracy_is(0, two, (int32_t[]){0}, 0, 2, "no samples"));

    for (unsigned k = 0; k < 5; k++) GS_TRY(check_larger(k));
    return GS_OK;
}

/* ---- 0.3: relu, alone and in a training run ---- */

static gs_status relu_of(gs_device *d, size_t count, bool in_place) {
    float host[MOST], got[MOST], x_after[MOST];
    gs_mem x, y;
    for (size_t i = 0; i < count; i++) host[i] = 2 * lab_number(X, i);
    if (count > 3) host[3] = 0;
    GS_TRY(d->ops->alloc(d, sizeof host, &x));
    GS_TRY(d->ops->alloc(d, sizeof host, &y));
    const size_t at = 5; /* in the middle of an allocation */
    GS_TRY(d->ops->write(d, gs_at(x, at), host, count * sizeof *host));
    GS_TRY(d->ops->fill(d, y, 77, MOST));
    gs_status status = d->ops->relu_forward(d, gs_at(in_place ? x : y, at), gs_at(x, at), count);
    GS_TRY(d->ops->read(d, got, gs_at(in_place ? x : y, at), count * sizeof *got));
    GS_TRY(d->ops->read(d, x_after, gs_at(x, at), count * sizeof *got));
    d->ops->free(d, x);
    d->ops->free(d, y);
    GS_TRY(status);
    for (size_t i = 0; i < count; i++) {
        float wanted = host[i] > 0 ? host[i] : 0;
        LAB_CHECK(got[i] == wanted, "%zu element%s%s, x[%zu] is %g: y must be %g, got %g", count, gs_s(count),
                  in_place ? ", y and x the same array" : "", i, (double)host[i], (double)wanted,
                  (double)got[i]);
    }
    LAB_CHECK(in_place || memcmp(host, x_after, count * sizeof *host) == 0,
              "%zu element%s: x was changed, but backward still needs it", count, gs_s(count));
    return GS_OK;
}

/* Trains a small network with relu. */
static gs_status check_training(void) {
    char model[80];
    gs_settings s = gs_settings_default();
    snprintf(model, sizeof model, "flatten, linear %zu, relu, linear 10", 9 + lab_pick(LAYERS, 0, 16));
    s.model = model;
    s.devices = "cpu,cpu";
    s.batch = 32;
    s.steps = 10;
    s.threads = 1;
    return lab_compare_training(&s, 1e-5);
}

static gs_status check_0_3(void) {
    gs_device *d;
    GS_TRY(gs_device_open("cpu", 1, &d));
    gs_status status = GS_OK;
    const size_t counts[] = {0, 1, 2, 3, 4 + lab_pick(SIZES, 300, 12), 20 + lab_pick(SIZES, 301, 30)};
    for (size_t i = 0; i < sizeof counts / sizeof *counts && status == GS_OK; i++)
        for (int in_place = 0; in_place < 2 && status == GS_OK; in_place++)
            status = relu_of(d, counts[i], in_place);
    gs_device_close(d);
    return status == GS_OK ? check_training() : status;
}

const char *const lab_may_call[] = {"gs_fail", "gs_context", NULL};

const lab_task lab_tasks[] = {
    {"0.1", "the mean gradient of two workers", 3, check_0_1,
     "(sum of the sums) / (sum of the counts): one division, after both sums. The mean of two means is right "
     "only if both have the same number of samples."},
    {"0.2", "accuracy", 3, check_0_2,
     "Start with the first logit as the largest so far, not with 0: all logits may be negative."},
    {"0.3", "relu, in the running framework", 4, check_0_3,
     "src/backend.h has the contract, cpu/tanh.c an example of the same kind."},
    {0},
};
