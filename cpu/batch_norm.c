/* Batch normalisation; cpu/plain/batch_norm.c shows the formulas.
 *
 * The work of a sum is split by channel, and each channel's sum is added in blocks of images (gs_batch_norm_block), so
 * that the order of additions is the same for any number of threads. A block of up to WIDTH channels is processed in
 * memory order: a core that jumps from image to image for one channel waits for memory. For vector samples (plane 1)
 * channels are adjacent, so SIDE of them are summed at once. Everything else is split by sample, with one scale per
 * channel. */
#include "cpu/round16.h"
#include "cpu/sums.h"

#include <math.h>

enum { SIDE = 16, WIDTH = 64 };

typedef struct norm_work {
    const gs_batch_norm_sizes *s;
    size_t n;
    const float *x, *dy, *mean, *var;
    float *to, *first, *second; /* the results */
    const float *factor;        /* per channel: the scale, then values that depend on the operator */
    int parts;
} norm_work;

static norm_work work_on(const gs_batch_norm_sizes *s, size_t n, gs_mem x, gs_mem mean, gs_mem to) {
    return (norm_work){
        .s = s, .n = n, .x = gs_cpu_floats(x), .mean = gs_cpu_floats(mean), .to = gs_cpu_floats(to)};
}

typedef struct two {
    float a, b;
} two;

/* Add a block's sum of `by` and sum of by (x - middle) for a channel, where `by` is dy or, without dy, x - middle. */
#define ADD(l, k, left)                                                                                      \
    gs_add_deviations(&a, &b, l, x + i * sample + (k), dy ? dy + i * sample + (k) : NULL, middle, left)
static void sum_planes(const norm_work *t, size_t image, size_t images, size_t c, float middle, two *sum) {
    const size_t plane = (size_t)t->s->plane, sample = (size_t)t->s->c * plane;
    const float *x = t->x + image * sample + c * plane,
                *dy = t->dy ? t->dy + image * sample + c * plane : NULL;
    gs_lanes a = {0}, b = {0};
    for (size_t i = 0; i < images; i++) GS_EACH_LINE(plane, ADD);
    sum->a += gs_sum_of_lanes(&a);
    sum->b += gs_sum_of_lanes(&b);
}
#undef ADD

/* The same for `width` channels of vector samples. */
static inline void sum_columns(const norm_work *t, size_t image, size_t images, int c, int width,
                               const float *middle, two *sum) {
    const size_t row = (size_t)t->s->c;
    float a[SIDE] = {0}, b[SIDE] = {0};
    for (size_t i = image; i < image + images; i++) {
        const float *x = t->x + i * row + c, *dy = t->dy ? t->dy + i * row + c : NULL;
        for (int k = 0; k < width; k++) {
            float off = x[k] - middle[k], by = dy ? dy[k] : off;
            a[k] += by;
            b[k] += by * off;
        }
    }
    for (int k = 0; k < width; k++) sum[k] = (two){sum[k].a + a[k], sum[k].b + b[k]};
}

/* The two sums over the first n images, for `width` channels. */
static void sum_blocks(const norm_work *t, size_t n, int c, int width, const float *middle, two *sum) {
    const size_t block = gs_batch_norm_block(t->s);
    for (int k = 0; k < width; k++) sum[k] = (two){0, 0};
    for (size_t image = 0; image < n; image += block) {
        const size_t images = n - image < block ? n - image : block;
        if (t->s->plane > 1)
            for (int k = 0; k < width; k++)
                sum_planes(t, image, images, (size_t)c + (size_t)k, middle[k], &sum[k]);
        else if (width == SIDE)
            sum_columns(t, image, images, c, SIDE, middle, sum); /* a compile-time constant */
        else
            sum_columns(t, image, images, c, width, middle, sum);
    }
}

static int tasks_of(const gs_batch_norm_sizes *s) {
    return s->plane > 1 ? s->c : (s->c + SIDE - 1) / SIDE;
}

/* Call work(t, c, width) for a part's channels, with as many at a time as are summed together. */
static void each_channel(const norm_work *t, int part, void (*work)(const norm_work *, int c, int width)) {
    const gs_range r = gs_cpu_tasks((size_t)tasks_of(t->s), part, t->parts);
    const int each = t->s->plane > 1 ? 1 : SIDE, side = t->s->plane > 1 ? WIDTH : SIDE,
              last = (int)r.end * each, end = last < t->s->c ? last : t->s->c;
    for (int c = (int)r.begin * each; c < end; c += side) work(t, c, end - c < side ? end - c : side);
}

/* Small amounts of work run in the caller alone. */
static void run_sums(gs_device *d, norm_work *t, void (*work)(void *, int)) {
    const gs_batch_norm_sizes *s = t->s;
    const size_t numbers = t->n * (size_t)s->c * (size_t)s->plane;
    t->parts = gs_cpu_at_most((size_t)tasks_of(s), gs_cpu_parts(d, numbers, 1 << 13));
    gs_pool_run(gs_cpu_of(d)->pool, t->parts, work, t);
}

/* Squares around an estimate of the mean, that of the first block, are small; and a sum of deviations from it, which
 * would be 0 if it were exact, corrects both results. This is the corrected two-pass algorithm of Chan, Golub, LeVeque,
 * "Algorithms for computing the sample variance" (The American Statistician 37, 1983), but it reads only the first
 * block twice: with B blocks, the error of var grows by a factor of at most B, and only if that block is far off. */
static void statistics_of(const norm_work *t, int c, int width) {
    const size_t block = gs_batch_norm_block(t->s), few = t->n < block ? t->n : block;
    const float plane = (float)t->s->plane, m = (float)t->n * plane;
    float middle[WIDTH] = {0};
    two sum[WIDTH];
    sum_blocks(t, few, c, width, middle, sum);
    for (int k = 0; k < width; k++) middle[k] = sum[k].a / ((float)few * plane);
    sum_blocks(t, t->n, c, width, middle, sum);
    for (int k = 0; k < width; k++) {
        const float share = sum[k].a / m, var = (sum[k].b - sum[k].a * share) / m;
        t->first[c + k] = middle[k] + share;
        t->second[c + k] = var < 0 ? 0 : var; /* a NaN stays a NaN */
    }
}

static void statistics_part(void *context, int part) {
    each_channel(context, part, statistics_of);
}

/* mean = sum x / m;  var = sum (x - mean)^2 / m */
gs_status GS_ISA(gs_cpu_batch_norm_statistics)(gs_device *d, gs_mem mean, gs_mem var, gs_mem x, size_t n,
                                               const gs_batch_norm_sizes *s) {
    norm_work t = {
        .s = s, .n = n, .x = gs_cpu_floats(x), .first = gs_cpu_floats(mean), .second = gs_cpu_floats(var)};
    if (n == 0) return gs_clear(d, mean, (size_t)s->c, var, (size_t)s->c);
    run_sums(d, &t, statistics_part);
    return GS_OK;
}

/* dmean and dvar (+)= samples times the new running statistics */
gs_status GS_ISA(gs_cpu_batch_norm_running)(gs_device *d, gs_mem dmean_, gs_mem dvar_, gs_mem running_mean_,
                                            gs_mem running_var_, gs_mem mean_, gs_mem var_, float m,
                                            float samples, const gs_batch_norm_sizes *s, bool add) {
    (void)d;
    const float *running_mean = gs_cpu_floats(running_mean_), *running_var = gs_cpu_floats(running_var_);
    const float *mean = gs_cpu_floats(mean_), *var = gs_cpu_floats(var_), keep = 1 - s->momentum;
    float *dmean = gs_cpu_floats(dmean_), *dvar = gs_cpu_floats(dvar_);
    for (int c = 0; c < s->c; c++) {
        float unbiased = m > 1 ? var[c] * (m / (m - 1)) : running_var[c];
        float next_mean = samples * (keep * running_mean[c] + s->momentum * mean[c]);
        float next_var = samples * (keep * running_var[c] + s->momentum * unbiased);
        dmean[c] = add ? dmean[c] + next_mean : next_mean;
        dvar[c] = add ? dvar[c] + next_var : next_var;
    }
    return GS_OK;
}

static void sums_of(const norm_work *t, int c, int width) {
    two sum[WIDTH];
    sum_blocks(t, t->n, c, width, t->mean + c, sum);
    for (int k = 0; k < width; k++) {
        t->to[c + k] = sum[k].a;
        t->to[t->s->c + c + k] = sum[k].b / sqrtf(t->var[c + k] + t->s->eps);
    }
}

static void sums_part(void *context, int part) {
    each_channel(context, part, sums_of);
}

/* forward: y = w u + b, so db = sum dy and dw = sum dy u */
gs_status GS_ISA(gs_cpu_batch_norm_sums)(gs_device *d, gs_mem sums, gs_mem dw_, gs_mem db_, gs_mem dy,
                                         gs_mem x, gs_mem mean, gs_mem var, size_t n,
                                         const gs_batch_norm_sizes *s, bool add) {
    GS_TRY(GS_ISA(gs_cpu_rounded)(d, 1, &(gs_operand){&x, n * (size_t)s->c * (size_t)s->plane}));
    norm_work t = work_on(s, n, x, mean, sums);
    t.dy = gs_cpu_floats(dy), t.var = gs_cpu_floats(var);
    float *dw = gs_cpu_floats(dw_), *db = gs_cpu_floats(db_);
    run_sums(d, &t, sums_part);
    for (int c = 0; c < s->c; c++) {
        db[c] = add ? db[c] + t.to[c] : t.to[c];
        dw[c] = add ? dw[c] + t.to[s->c + c] : t.to[s->c + c];
    }
    return GS_OK;
}

/* Each loop runs over a contiguous row: a channel's pixels, or a vector sample's channels. */
static size_t rows_of(const norm_work *t) {
    return t->s->plane > 1 ? t->n * (size_t)t->s->c : t->n;
}

static void forward_part(void *context, int part) {
    const norm_work *t = context;
    const size_t c = (size_t)t->s->c, plane = (size_t)t->s->plane;
    const float *scale = t->factor, *mean = t->mean, *b = t->first;
    const gs_range r = gs_cpu_tasks(rows_of(t), part, t->parts);
    size_t k = c ? r.begin % c : 0; /* the plane's channel; without samples, group_norm has no channels */
    for (size_t i = r.begin; i < r.end; i++, k = k + 1 < c ? k + 1 : 0) {
        const size_t row = plane > 1 ? plane : c;
        const float *x = t->x + i * row;
        float *y = t->to + i * row;
        if (plane == 1)
            for (size_t j = 0; j < c; j++) y[j] = (x[j] - mean[j]) * scale[j] + b[j];
        else
            for (size_t p = 0; p < plane; p++) y[p] = (x[p] - mean[k]) * scale[k] + b[k];
    }
}

static gs_status run_rows(gs_device *d, norm_work *t, void (*work)(void *, int)) {
    const size_t numbers = t->n * (size_t)t->s->c * (size_t)t->s->plane;
    t->parts = gs_cpu_at_most(rows_of(t), gs_cpu_parts(d, numbers, 1 << 14));
    return gs_cpu_run(d, t->parts, work, t);
}

/* y = w u + b */
gs_status GS_ISA(gs_cpu_batch_norm_forward)(gs_device *d, gs_mem y, gs_mem x, gs_mem w_, gs_mem b,
                                            gs_mem mean, gs_mem var_, size_t n,
                                            const gs_batch_norm_sizes *s) {
    const float *w = gs_cpu_floats(w_), *var = gs_cpu_floats(var_);
    float *scale;
    GS_TRY(gs_cpu_scratch(d, (size_t)s->c, &scale));
    for (int c = 0; c < s->c; c++) scale[c] = w[c] / sqrtf(var[c] + s->eps);
    norm_work t = work_on(s, n, x, mean, y);
    t.first = gs_cpu_floats(b), t.factor = scale;
    return run_rows(d, &t, forward_part);
}

/* dx = scale (dy - of_dy - (x - mean) of_x), where of_dy and of_x follow scale in memory */
static void backward_part(void *context, int part) {
    const norm_work *t = context;
    const size_t c = (size_t)t->s->c, plane = (size_t)t->s->plane;
    const float *scale = t->factor, *of_dy = scale + c, *of_x = of_dy + c, *mean = t->mean;
    const gs_range r = gs_cpu_tasks(rows_of(t), part, t->parts);
    size_t k = c ? r.begin % c : 0; /* the plane's channel; without samples, group_norm has no channels */
    for (size_t i = r.begin; i < r.end; i++, k = k + 1 < c ? k + 1 : 0) {
        const size_t row = plane > 1 ? plane : c;
        const float *x = t->x + i * row, *dy = t->dy + i * row;
        float *dx = t->to + i * row;
        if (plane == 1)
            for (size_t j = 0; j < c; j++) dx[j] = scale[j] * (dy[j] - of_dy[j] - (x[j] - mean[j]) * of_x[j]);
        else
            for (size_t p = 0; p < plane; p++)
                dx[p] = scale[k] * (dy[p] - of_dy[k] - (x[p] - mean[k]) * of_x[k]);
    }
}

/* forward: y = w u + b, so dx = w / sqrt(var + eps) (dy - sums[0] / m - u sums[1] / m) */
gs_status GS_ISA(gs_cpu_batch_norm_backward)(gs_device *d, gs_mem dx, gs_mem dy, gs_mem x, gs_mem w_,
                                             gs_mem mean, gs_mem var_, gs_mem sums_, float m, size_t n,
                                             const gs_batch_norm_sizes *s) {
    const float *w = gs_cpu_floats(w_), *var = gs_cpu_floats(var_), *sums = gs_cpu_floats(sums_);
    const int c = s->c;
    float *factor;
    GS_TRY(GS_ISA(gs_cpu_rounded)(d, 1, &(gs_operand){&x, n * (size_t)c * (size_t)s->plane}));
    GS_TRY(gs_cpu_scratch(d, 3 * (size_t)c, &factor));
    for (int k = 0; k < c; k++) {
        float deviation = sqrtf(var[k] + s->eps);
        factor[k] = w[k] / deviation;
        factor[c + k] = sums ? sums[k] / m : 0;
        factor[2 * c + k] = sums ? sums[c + k] / m / deviation : 0;
    }
    norm_work t = work_on(s, n, x, mean, dx);
    t.dy = gs_cpu_floats(dy), t.factor = factor;
    return run_rows(d, &t, backward_part);
}
