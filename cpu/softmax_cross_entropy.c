#include "cpu/largest.h"

#include <math.h>

/* p = softmax(x); stats += (sum of -log p[label], how often the largest x is at the label, n).
 * The largest x is taken off first: exp never overflows, and the loss, log(sum) - (x[label] - max), is exact
 * even where p[label] rounds to 0. */
typedef struct gs_sample_loss {
    double loss;
    bool correct;
} gs_sample_loss;

typedef struct gs_loss_work {
    float *p;
    const float *x;
    const int32_t *label;
    gs_sample_loss *losses;
    size_t n;
    int classes, parts;
} gs_loss_work;

static void loss_part(void *context, int part) {
    const gs_loss_work *t = context;
    gs_range r = gs_cpu_range(t->n, part, t->parts);
    size_t classes = (size_t)t->classes;
    for (size_t i = r.begin; i < r.end; i++) {
        const float *x = t->x + i * classes;
        float *p = t->p + i * classes;
        size_t label = (size_t)t->label[i], largest = largest_of(x, classes);
        float sum = p[0] = expf(x[0] - x[largest]);
        for (size_t k = 1; k < classes; k++) sum += p[k] = expf(x[k] - x[largest]);
        for (size_t k = 0; k < classes; k++) p[k] /= sum;
        t->losses[i] = (gs_sample_loss){(double)(logf(sum) - (x[label] - x[largest])), label == largest};
    }
}

/* Each sample's loss is kept and added up afterwards: the same sum for any number of threads. */
gs_status GS_ISA(softmax_cross_entropy_forward)(gs_device *d, gs_mem p, gs_mem stats, gs_mem x, gs_mem labels,
                                                size_t n, int classes) {
    float *scratch, *stat = gs_cpu_floats(stats);
    GS_TRY(gs_cpu_scratch(d, n * sizeof(gs_sample_loss) / sizeof *scratch, &scratch));
    gs_loss_work t = {.p = gs_cpu_floats(p),
                      .x = gs_cpu_floats(x),
                      .label = gs_cpu_ints(labels),
                      .losses = (gs_sample_loss *)scratch,
                      .n = n,
                      .classes = classes,
                      .parts = gs_cpu_parts(d, n * (size_t)classes, 512)};
    gs_pool_run(gs_cpu_of(d)->pool, t.parts, loss_part, &t);
    double loss = 0;
    size_t correct = 0;
    for (size_t i = 0; i < n; i++) {
        loss += t.losses[i].loss;
        correct += t.losses[i].correct;
    }
    stat[GS_STAT_LOSS] += (float)loss;
    stat[GS_STAT_CORRECT] += (float)correct;
    stat[GS_STAT_SAMPLES] += (float)n;
    return GS_OK;
}

/* forward: loss = -log softmax(x)[label], so dloss/dx[k] = p[k] - (k == label) */
gs_status GS_ISA(softmax_cross_entropy_backward)(gs_device *d, gs_mem dx, gs_mem p, gs_mem labels, size_t n,
                                                 int classes) {
    (void)d;
    const float *from = gs_cpu_floats(p);
    const int32_t *label = gs_cpu_ints(labels);
    float *to = gs_cpu_floats(dx);
    for (size_t i = 0; i < n; i++, from += classes, to += classes)
        for (int k = 0; k < classes; k++) to[k] = from[k] - (label[i] == k ? 1.0f : 0.0f);
    return GS_OK;
}
