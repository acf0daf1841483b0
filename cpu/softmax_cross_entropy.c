#include "cpu/largest.h"
#include "cpu/softmax.h"

/* p = softmax(x); stats += (sum of -log p[label], the number of samples whose largest x is at the label, n).
 * The largest x is subtracted first: exp never overflows, and the loss, log(sum) - (x[label] - max), is exact even
 * where p[label] rounds to 0. With smoothing e, (1 - e) (x[label] - max) + e mean(x - max) replaces x[label] - max: the
 * loss is linear in log p. */
typedef struct loss_work {
    float *p;
    const float *x;
    const int32_t *label;
    float *losses, *rest, *correct; /* per sample; correct: 1 or 0 */
    size_t n;
    int classes, parts;
    float smoothing;
} loss_work;

/* The value that the loss subtracts from log(sum), for the sample x. */
static float of_labels(const loss_work *t, const float *x, size_t label, size_t largest) {
    const float at_label = x[label] - x[largest];
    if (t->smoothing == 0) return at_label; /* avoids 0 times a sum that may be infinite */
    const float sum = gs_sum_around(x, (size_t)t->classes, x[largest]);
    return (1 - t->smoothing) * at_label + t->smoothing / (float)t->classes * sum;
}

static void loss_part(void *context, int part) {
    const loss_work *t = context;
    gs_range r = gs_cpu_range(t->n, part, t->parts);
    size_t classes = (size_t)t->classes;
    for (size_t i = r.begin; i < r.end; i++) {
        const float *x = t->x + i * classes;
        float *p = t->p + i * classes;
        size_t label = (size_t)t->label[i], largest = largest_of(x, classes);
        const float sum = gs_exponentials_of(p, x, classes, x[largest]);
        for (size_t k = 0; k < classes; k++) p[k] /= sum;
        t->losses[i] = sum;
        t->rest[i] = of_labels(t, x, label, largest);
        t->correct[i] = label == largest;
    }
    for (size_t i = r.begin; i < r.end; i++)
        t->losses[i] = gs_log(t->losses[i]) - t->rest[i]; /* several at once */
}

/* Each sample's loss is stored and added up afterwards, so that the sum is the same for any number of threads. */
gs_status GS_ISA(gs_cpu_softmax_cross_entropy_forward)(gs_device *d, gs_mem p, gs_mem stats, gs_mem x,
                                                       gs_mem labels, size_t n, int classes,
                                                       float smoothing) {
    float *scratch;
    GS_TRY(gs_cpu_scratch(d, 3 * n, &scratch));
    loss_work t = {.p = gs_cpu_floats(p),
                   .x = gs_cpu_floats(x),
                   .label = gs_cpu_ints(labels),
                   .losses = scratch,
                   .rest = scratch + n,
                   .correct = scratch + 2 * n,
                   .n = n,
                   .classes = classes,
                   .smoothing = smoothing,
                   .parts = gs_cpu_parts(d, n * (size_t)classes, 512)};
    gs_pool_run(gs_cpu_of(d)->pool, t.parts, loss_part, &t);
    if (d->dry) return GS_OK; /* nothing was computed */
    gs_cpu_add_stats(stats, gs_sum_around(t.losses, n, 0), gs_sum_around(t.correct, n, 0), n);
    return GS_OK;
}

/* forward: loss = -log softmax(x)[label], so dloss/dx[k] = p[k] - (k == label); with smoothing e the label's 1 becomes
 * 1 - e, and e / classes is added for each class. This is the case of a rank that holds all classes. */
gs_status GS_ISA(gs_cpu_softmax_cross_entropy_backward)(gs_device *d, gs_mem dx, gs_mem p, gs_mem labels,
                                                        size_t n, int classes, float smoothing) {
    const gs_share all = {.ranks = 1, .whole = classes, .leaves = 1};
    return GS_ISA(gs_cpu_softmax_part_backward)(d, dx, p, labels, n, classes, smoothing, &all);
}
