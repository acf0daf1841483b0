#include "cpu/exp.h"
#include "cpu/largest.h"

#include <math.h>
#include <string.h>

/* p = softmax(x); stats += (sum of -log p[label], the number of samples whose largest x is at the label, n).
 * The largest x is subtracted first: exp never overflows, and the loss, log(sum) - (x[label] - max), is exact even
 * where p[label] rounds to 0. With smoothing e, (1 - e) (x[label] - max) + e mean(x - max) replaces x[label] - max: the
 * loss is linear in log p. */
typedef struct sample_loss {
    double loss;
    bool correct;
} sample_loss;

typedef struct loss_work {
    float *p;
    const float *x;
    const int32_t *label;
    sample_loss *losses;
    size_t n;
    int classes, parts;
    float smoothing;
} loss_work;

/* The value that the loss subtracts from log(sum), for the sample x. */
static float of_labels(const loss_work *t, const float *x, size_t label, size_t largest) {
    const float at_label = x[label] - x[largest];
    if (t->smoothing == 0) return at_label; /* avoids 0 times a sum that may be infinite */
    float sum = 0;
    for (size_t k = 0; k < (size_t)t->classes; k++) sum += x[k] - x[largest];
    return (1 - t->smoothing) * at_label + t->smoothing / (float)t->classes * sum;
}

/* p = exp(x - top); returns the sum, added in SIDE lanes: in a single sum each addition would wait for the previous
 * one. A shorter last group is filled with exp(-infinity) = 0. */
static float exponentials_of(float *restrict p, const float *restrict x, size_t classes, float top) {
    enum { SIDE = 16 };
    float part[SIDE] = {0}, sum = 0;
    size_t k = 0;
    for (; k + SIDE <= classes; k += SIDE)
        for (size_t j = 0; j < SIDE; j++) part[j] += p[k + j] = gs_exp(x[k + j] - top);
    if (k < classes) {
        float last[SIDE];
        for (size_t j = 0; j < SIDE; j++) last[j] = -INFINITY;
        memcpy(last, x + k, (classes - k) * sizeof *x);
        for (size_t j = 0; j < SIDE; j++) part[j] += last[j] = gs_exp(last[j] - top);
        memcpy(p + k, last, (classes - k) * sizeof *p);
    }
    for (size_t j = 0; j < SIDE; j++) sum += part[j];
    return sum;
}

static void loss_part(void *context, int part) {
    const loss_work *t = context;
    gs_range r = gs_cpu_range(t->n, part, t->parts);
    size_t classes = (size_t)t->classes;
    for (size_t i = r.begin; i < r.end; i++) {
        const float *x = t->x + i * classes;
        float *p = t->p + i * classes;
        size_t label = (size_t)t->label[i], largest = largest_of(x, classes);
        const float sum = exponentials_of(p, x, classes, x[largest]);
        for (size_t k = 0; k < classes; k++) p[k] /= sum;
        t->losses[i] = (sample_loss){(double)(logf(sum) - of_labels(t, x, label, largest)), label == largest};
    }
}

/* Each sample's loss is stored and added up afterwards, so that the sum is the same for any number of threads. */
gs_status GS_ISA(gs_cpu_softmax_cross_entropy_forward)(gs_device *d, gs_mem p, gs_mem stats, gs_mem x,
                                                       gs_mem labels, size_t n, int classes,
                                                       float smoothing) {
    float *scratch;
    GS_TRY(gs_cpu_scratch(d, n * sizeof(sample_loss) / sizeof *scratch, &scratch));
    loss_work t = {.p = gs_cpu_floats(p),
                   .x = gs_cpu_floats(x),
                   .label = gs_cpu_ints(labels),
                   .losses = (sample_loss *)scratch,
                   .n = n,
                   .classes = classes,
                   .smoothing = smoothing,
                   .parts = gs_cpu_parts(d, n * (size_t)classes, 512)};
    gs_pool_run(gs_cpu_of(d)->pool, t.parts, loss_part, &t);
    if (d->dry) return GS_OK; /* nothing was computed */
    double loss = 0;
    size_t correct = 0;
    for (size_t i = 0; i < n; i++) {
        loss += t.losses[i].loss;
        correct += t.losses[i].correct;
    }
    gs_cpu_add_stats(stats, loss, (double)correct, n);
    return GS_OK;
}

/* forward: loss = -log softmax(x)[label], so dloss/dx[k] = p[k] - (k == label); with smoothing e the label's 1 becomes
 * 1 - e, and e / classes is added for each class. This is the case of a rank that holds all classes. */
gs_status GS_ISA(gs_cpu_softmax_cross_entropy_backward)(gs_device *d, gs_mem dx, gs_mem p, gs_mem labels,
                                                        size_t n, int classes, float smoothing) {
    const gs_share all = {.ranks = 1, .whole = classes, .leaves = 1};
    return GS_ISA(gs_cpu_softmax_part_backward)(d, dx, p, labels, n, classes, smoothing, &all);
}
