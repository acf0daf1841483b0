/* The checks of lesson 0. */
#include <math.h>
#include <string.h>
#include "tasks.h"
#include "lab.h"
#include "train/train.h"

enum { MOST = 64 };

/* ---- 0.1: the mean over all samples of two workers ---- */

/* What comes in is made from single samples, so that the reference is the plain mean over them. */
static gs_status check_mean(size_t n0, size_t n1, size_t count) {
    float dw0[MOST] = {0}, dw1[MOST] = {0}, mean[MOST], wanted[MOST];
    for (size_t i = 0; i < count; i++) {
        double sum[2] = {0, 0};
        for (size_t s = 0; s < n0 + n1; s++) sum[s >= n0] += (double)((s * 7 + i * 5) % 11) - 4;
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
                "worker 0: sum %g of %zu sample%s, worker 1: sum %g of %zu sample%s: the mean is %g, got "
                "%g (i = %zu of %zu)",
                (double)dw0[i], n0, gs_s(n0), (double)dw1[i], n1, gs_s(n1), (double)wanted[i],
                (double)mean[i], i, count);
    return GS_OK;
}

static gs_status check_0_1(void) {
    static const size_t sizes[][2] = {{1, 1}, {3, 1}, {2, 2}, {1, 6}, {5, 0}, {0, 2}, {0, 0}, {64, 33}};
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
        for (size_t count = 1; count <= MOST; count += 21)
            GS_TRY(check_mean(sizes[k][0], sizes[k][1], count));
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

    /* a larger one, of which we know the answers */
    enum { N = 301, CLASSES = 10 };
    static float logits[N * CLASSES];
    static int32_t labels[N];
    size_t correct = 0;
    for (int i = 0; i < N; i++) {
        int answer = i * i % CLASSES;
        labels[i] = i % 3 ? answer : (answer + 1) % CLASSES;
        correct += i % 3 != 0;
        for (int k = 0; k < CLASSES; k++)
            logits[i * CLASSES + k] = (float)(k == answer ? -2 : -3 - (i + 7 * k) % 5);
    }
    return accuracy_is((double)correct / N, logits, labels, N, CLASSES, "many samples");
}

/* ---- 0.3: relu, alone and in a training run ---- */

static gs_status relu_of(gs_device *d, size_t at, size_t count, bool in_place) {
    const float guard = 77;
    float host[MOST], x_after[MOST];
    gs_mem x, y;
    for (size_t i = 0; i < MOST; i++) host[i] = ((float)(i * 13 % 9) - 4) / 2;
    GS_TRY(d->ops->alloc(d, sizeof host, &x));
    GS_TRY(d->ops->alloc(d, sizeof host, &y));
    GS_TRY(d->ops->write(d, x, host, sizeof host));
    GS_TRY(in_place ? d->ops->write(d, y, host, sizeof host) : d->ops->fill(d, y, guard, MOST));
    gs_status status = d->ops->relu_forward(d, gs_at(y, at), gs_at(in_place ? y : x, at), count);
    float got[MOST];
    GS_TRY(d->ops->read(d, got, y, sizeof got));
    GS_TRY(d->ops->read(d, x_after, x, sizeof x_after));
    d->ops->free(d, x);
    d->ops->free(d, y);
    if (status != GS_OK) return status;
    for (size_t i = 0; i < MOST; i++) {
        bool inside = i >= at && i < at + count;
        float wanted = inside ? (host[i] > 0 ? host[i] : 0) : in_place ? host[i] : guard;
        if (got[i] != wanted && inside)
            return gs_fail(GS_E_DIFFER, "%zu element%s%s, x[%zu] is %g: y must be %g, got %g", count,
                           gs_s(count), in_place ? ", y and x the same array" : "", i - at, (double)host[i],
                           (double)wanted, (double)got[i]);
        if (got[i] != wanted)
            return gs_fail(GS_E_DIFFER, "%zu element%s: place %td of y is outside and must stay as it was",
                           count, gs_s(count), (ptrdiff_t)i - (ptrdiff_t)at);
    }
    if (memcmp(host, x_after, sizeof host) != 0)
        return gs_fail(GS_E_DIFFER, "%zu element%s: x was changed, which backward still needs", count,
                       gs_s(count));
    return GS_OK;
}

/* The weights after a few steps of a small network with relu; the caller frees them. */
static gs_status train(gs_result *result) {
    gs_settings s = gs_settings_default();
    s.model = "flatten, linear 16, relu, linear 10";
    s.devices = "cpu,cpu";
    s.batch = 32;
    s.steps = 10;
    s.threads = 1;
    return gs_train(&s, NULL, result);
}

static gs_status check_0_3(void) {
    gs_device *d;
    GS_TRY(gs_device_open("cpu", 1, &d));
    gs_status status = GS_OK;
    for (size_t count = 0; count <= 33 && status == GS_OK; count += count < 3 ? 1 : 15)
        for (int k = 0; k < 4 && status == GS_OK; k++) status = relu_of(d, k & 1 ? 5 : 0, count, k & 2);
    gs_device_close(d);
    GS_TRY(status);

    gs_result yours = {0}, ours = {0};
    status = train(&yours);
    gs_backend_replace(NULL);
    if (status == GS_OK) status = train(&ours);
    for (size_t i = 0; i < ours.params && status == GS_OK; i++)
        if (!(fabsf(yours.weights[i] - ours.weights[i]) <= 1e-5f))
            status = gs_fail(GS_E_DIFFER,
                             "after 10 steps of training on 2 workers weight %zu is %g, with our relu %g", i,
                             (double)yours.weights[i], (double)ours.weights[i]);
    gs_result_free(&yours);
    gs_result_free(&ours);
    return status;
}

const lab_task lab_tasks[] = {
    {"0.1", "the mean gradient of two workers", 3, check_0_1,
     "(sum of the sums) / (sum of the counts): one division, after both sums. A mean of two means is "
     "right only where both have the same number of samples."},
    {"0.2", "accuracy", 3, check_0_2,
     "Begin with the first logit as the largest so far, not with 0: all of them may be negative."},
    {"0.3", "relu, in the running framework", 4, check_0_3,
     "src/backend.h has the contract, cpu/tanh.c an example of the same kind."},
    {0},
};
