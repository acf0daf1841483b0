#include "cpu/largest.h"
#include "cpu/softmax.h"

/* softmax_cross_entropy where a rank holds only some of the classes: backend.h defines the operators. Each leaf sums
 * its classes, and the leaves are added in a binary tree, neighbours first. A rank holds a subtree; if the
 * group also adds neighbours first, the bits do not depend on how the classes are divided. */
typedef struct part_work {
    float *p, *sums, *most;
    const float *x;
    const int32_t *label;
    const gs_share *share;
    size_t n;
    int classes, parts;
    float at_label, everywhere; /* q is `everywhere`, plus at_label for the label */
} part_work;

static gs_range rows_of(const part_work *t, int part) {
    return gs_cpu_range(t->n, part, t->parts);
}

static void largest_part(void *context, int part) {
    const part_work *t = context;
    const gs_range r = rows_of(t, part);
    for (size_t i = r.begin; i < r.end; i++) {
        const float *x = t->x + i * (size_t)t->classes;
        t->most[i] = x[largest_of(x, (size_t)t->classes)];
    }
}

gs_status GS_ISA(gs_cpu_softmax_part_largest)(gs_device *d, gs_mem most, gs_mem x, size_t n, int classes,
                                              const gs_share *of) {
    part_work t = {.most = gs_cpu_floats(most) + n * (size_t)of->rank,
                   .x = gs_cpu_floats(x),
                   .n = n,
                   .classes = classes,
                   .parts = gs_cpu_parts(d, n * (size_t)classes, 512)};
    return gs_cpu_run(d, t.parts, largest_part, &t);
}

/* The first rank that holds the largest element of row i. */
static int rank_of_largest(const part_work *t, size_t i) {
    int best = 0;
    for (int r = 1; r < t->share->ranks; r++) {
        const float most = t->most[(size_t)r * t->n + i], top = t->most[(size_t)best * t->n + i];
        if (!(most <= top) && top == top) best = r;
    }
    return best;
}

/* Compute sums[0] and sums[1] over `leaves` leaves, from `leaf` on. */
static void sum_leaves(const part_work *t, float *p, const float *x, float top, int label, int leaf,
                       int leaves, float sums[2]) {
    if (leaves == 1) {
        const int first = gs_share_leaf(t->share, leaf), end = gs_share_leaf(t->share, leaf + 1);
        const size_t count = (size_t)(end - first);
        sums[0] = gs_exponentials_of(p + first, x + first, count, top);
        sums[1] = t->everywhere > 0 ? t->everywhere * gs_sum_around(x + first, count, top) : 0;
        if (label >= first && label < end) sums[1] += t->at_label * (x[label] - top);
        return;
    }
    float right[2];
    sum_leaves(t, p, x, top, label, leaf, leaves / 2, sums);
    sum_leaves(t, p, x, top, label, leaf + leaves / 2, leaves / 2, right);
    for (int i = 0; i < 2; i++) sums[i] += right[i];
}

static void sums_part(void *context, int part) {
    const part_work *t = context;
    const gs_range r = rows_of(t, part);
    for (size_t i = r.begin; i < r.end; i++) {
        const float *x = t->x + i * (size_t)t->classes;
        const int rank = rank_of_largest(t, i), label = t->label[i] - gs_share_first(t->share);
        const bool here = label >= 0 && label < t->classes;
        const float top = t->most[(size_t)rank * t->n + i];
        float sums[2];
        sum_leaves(t, t->p + i * (size_t)t->classes, x, top, label, 0, t->share->leaves, sums);
        t->sums[i] = sums[0];
        t->sums[t->n + i] = sums[1];
        t->sums[2 * t->n + i] =
            here && rank == t->share->rank && (size_t)label == largest_of(x, (size_t)t->classes);
    }
}

static part_work work_of(gs_mem x, gs_mem labels, size_t n, int classes, float smoothing,
                         const gs_share *of) {
    return (part_work){.x = gs_cpu_floats(x),
                       .label = gs_cpu_ints(labels),
                       .share = of,
                       .n = n,
                       .classes = classes,
                       .at_label = 1 - smoothing,
                       .everywhere = smoothing / (float)of->whole};
}

gs_status GS_ISA(gs_cpu_softmax_part_sums)(gs_device *d, gs_mem p, gs_mem sums, gs_mem most, gs_mem x,
                                           gs_mem labels, size_t n, int classes, float smoothing,
                                           const gs_share *of) {
    part_work t = work_of(x, labels, n, classes, smoothing, of);
    t.p = gs_cpu_floats(p);
    t.sums = gs_cpu_floats(sums);
    t.most = gs_cpu_floats(most);
    t.parts = gs_cpu_parts(d, n * (size_t)classes, 512);
    return gs_cpu_run(d, t.parts, sums_part, &t);
}

static void end_part(void *context, int part) {
    const part_work *t = context;
    const gs_range r = rows_of(t, part);
    for (size_t i = r.begin; i < r.end; i++) {
        float *p = t->p + i * (size_t)t->classes;
        for (int k = 0; k < t->classes; k++) p[k] /= t->sums[i];
    }
}

gs_status GS_ISA(gs_cpu_softmax_part_end)(gs_device *d, gs_mem p, gs_mem stats, gs_mem sums, size_t n,
                                          int classes) {
    part_work t = {.p = gs_cpu_floats(p),
                   .sums = gs_cpu_floats(sums),
                   .n = n,
                   .classes = classes,
                   .parts = gs_cpu_parts(d, n * (size_t)classes, 512)};
    gs_pool_run(gs_cpu_of(d)->pool, t.parts, end_part, &t);
    if (d->dry) return GS_OK; /* nothing was computed */
    float loss[GS_SUM_LANES] = {0}, correct = gs_sum_around(t.sums + 2 * n, n, 0);
    for (size_t i = 0; i < n; i++) loss[i % GS_SUM_LANES] += gs_log(t.sums[i]) - t.sums[n + i];
    gs_cpu_add_stats(stats, gs_sum_around(loss, GS_SUM_LANES, 0), correct, n);
    return GS_OK;
}

static void gradient_part(void *context, int part) {
    const part_work *t = context;
    const gs_range r = rows_of(t, part);
    const int first = gs_share_first(t->share);
    for (size_t i = r.begin; i < r.end; i++) {
        const float *x = t->x + i * (size_t)t->classes;
        float *dx = t->p + i * (size_t)t->classes; /* may be x's memory */
        const int label = t->label[i] - first;
        const bool here = label >= 0 && label < t->classes;
        const float of_label = here ? x[label] - (t->at_label + t->everywhere) : 0;
        for (int k = 0; k < t->classes; k++) dx[k] = x[k] - t->everywhere;
        if (here) dx[label] = of_label;
    }
}

gs_status GS_ISA(gs_cpu_softmax_part_backward)(gs_device *d, gs_mem dx, gs_mem p, gs_mem labels, size_t n,
                                               int classes, float smoothing, const gs_share *of) {
    part_work t = work_of(p, labels, n, classes, smoothing, of);
    t.p = gs_cpu_floats(dx);
    t.parts = gs_cpu_parts(d, n * (size_t)classes, 1 << 14);
    return gs_cpu_run(d, t.parts, gradient_part, &t);
}
