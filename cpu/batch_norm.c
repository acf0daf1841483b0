/* Batch normalisation: cpu/plain/batch_norm.c says what is computed.
 *
 * Sums go by channels, so that a channel's order of additions is the same for any number of threads: up to CHUNK
 * numbers are added in f32, sixteen side by side, and the sums of the chunks in double. The channels of vectors (plane
 * 1) lie side by side, so that sixteen of them are summed at once. All else goes by samples, over one scale for each
 * channel. */
#include "cpu/cpu.h"

#include <math.h>

enum { SIDE = 16, CHUNK = 1024, ROWS = 64 /* of vectors, that are added in f32 */ };

typedef struct norm_work {
    const gs_batch_norm_sizes *s;
    size_t n;
    const float *x, *dy, *mean, *var;
    float *to, *first, *second; /* what is computed */
    const float *factor;        /* for each channel: scale, then what the operator says */
    int parts;
} norm_work;

static int share(size_t count, int part, int parts) {
    return (int)(count * (size_t)part / (size_t)parts);
}

/* ---- two sums of each channel ---- */

/* Two sums of what one loop over numbers gives. */
typedef struct two {
    double a, b;
} two;

/* (sum (x - middle), sum (x - middle)^2) of a chunk, or with dy (sum dy, sum dy (x - middle)) */
static inline two sum_chunk(const float *x, const float *dy, float middle, int count) {
    gs_float16 a = {0}, b = {0};
    int k = 0;
    for (; k + SIDE <= count; k += SIDE) {
        gs_float16 off = *(const gs_float16 *)(x + k) - middle;
        gs_float16 by = dy ? *(const gs_float16 *)(dy + k) : off;
        a += by;
        b += by * off;
    }
    two sum = {0, 0};
    for (int j = 0; j < SIDE; j++) {
        sum.a += (double)a[j];
        sum.b += (double)b[j];
    }
    for (; k < count; k++) {
        float off = x[k] - middle, by = dy ? dy[k] : off;
        sum.a += (double)by;
        sum.b += (double)(by * off);
    }
    return sum;
}

static two sum_channel(const norm_work *t, int c, float middle) {
    const size_t plane = (size_t)t->s->plane, sample = (size_t)t->s->c * plane;
    two sum = {0, 0};
    for (size_t i = 0; i < t->n; i++) {
        const size_t at = i * sample + (size_t)c * plane;
        for (size_t p = 0; p < plane; p += CHUNK) {
            int count = (int)(plane - p < CHUNK ? plane - p : CHUNK);
            two chunk = t->dy ? sum_chunk(t->x + at + p, t->dy + at + p, middle, count)
                              : sum_chunk(t->x + at + p, NULL, middle, count);
            sum.a += chunk.a;
            sum.b += chunk.b;
        }
    }
    return sum;
}

/* The same for `width` channels of vectors. */
static void sum_columns(const norm_work *t, int c, int width, const float *middle, two *sum) {
    const size_t row = (size_t)t->s->c;
    for (int k = 0; k < width; k++) sum[k] = (two){0, 0};
    for (size_t begin = 0; begin < t->n; begin += ROWS) {
        const size_t end = t->n - begin < ROWS ? t->n : begin + ROWS;
        float a[SIDE] = {0}, b[SIDE] = {0};
        for (size_t i = begin; i < end; i++) {
            const float *x = t->x + i * row + c, *dy = t->dy ? t->dy + i * row + c : NULL;
            for (int k = 0; k < width; k++) {
                float off = x[k] - middle[k], by = dy ? dy[k] : off;
                a[k] += by;
                b[k] += by * off;
            }
        }
        for (int k = 0; k < width; k++) {
            sum[k].a += (double)a[k];
            sum[k].b += (double)b[k];
        }
    }
}

/* Of up to SIDE channels from c on. */
static void sum_channels(const norm_work *t, int c, int width, const float *middle, two *sum) {
    if (t->s->plane > 1)
        for (int k = 0; k < width; k++) sum[k] = sum_channel(t, c + k, middle[k]);
    else if (width == SIDE)
        sum_columns(t, c, SIDE, middle, sum); /* a number that the compiler knows */
    else
        sum_columns(t, c, width, middle, sum);
}

/* How many channels one task has: all that share a vector, or one. */
static int side_of(const gs_batch_norm_sizes *s) {
    return s->plane > 1 ? 1 : SIDE;
}

static int tasks_of(const gs_batch_norm_sizes *s) {
    return (s->c + side_of(s) - 1) / side_of(s);
}

/* Little work is done by the caller. */
static void run_sums(gs_device *d, norm_work *t, void (*work)(void *, int)) {
    const gs_batch_norm_sizes *s = t->s;
    int tasks = tasks_of(s);
    t->parts = gs_cpu_parts(d, t->n * (size_t)s->c * (size_t)s->plane, 1 << 13);
    if (t->parts > tasks) t->parts = tasks;
    gs_pool_run(gs_cpu_of(d)->pool, t->parts, work, t);
}

/* Two passes: around a first mean the squares are small, and what rounding has left of the deviations' sum, which would
 * be 0, corrects both. Chan, Golub, LeVeque, "Algorithms for computing the sample variance" (The American Statistician
 * 37, 1983): the corrected two-pass algorithm. */
static void statistics_part(void *context, int part) {
    const norm_work *t = context;
    const int side = side_of(t->s), tasks = tasks_of(t->s), end = share((size_t)tasks, part + 1, t->parts);
    const double m = (double)t->n * t->s->plane;
    for (int task = share((size_t)tasks, part, t->parts); task < end; task++) {
        const int c = task * side, width = t->s->c - c < side ? t->s->c - c : side;
        float middle[SIDE] = {0};
        two sum[SIDE];
        sum_channels(t, c, width, middle, sum);
        for (int k = 0; k < width; k++) middle[k] = (float)(sum[k].a / m);
        sum_channels(t, c, width, middle, sum);
        for (int k = 0; k < width; k++) {
            t->first[c + k] = (float)((double)middle[k] + sum[k].a / m);
            t->second[c + k] = (float)fmax((sum[k].b - sum[k].a * sum[k].a / m) / m, 0);
        }
    }
}

/* mean = sum x / m;  var = sum (x - mean)^2 / m */
gs_status GS_ISA(batch_norm_statistics)(gs_device *d, gs_mem mean, gs_mem var, gs_mem x, size_t n,
                                        const gs_batch_norm_sizes *s) {
    norm_work t = {
        .s = s, .n = n, .x = gs_cpu_floats(x), .first = gs_cpu_floats(mean), .second = gs_cpu_floats(var)};
    if (n == 0) return gs_cpu_clear(d, mean, (size_t)s->c, var, (size_t)s->c);
    run_sums(d, &t, statistics_part);
    return GS_OK;
}

/* samples times what the running statistics become */
gs_status GS_ISA(batch_norm_running)(gs_device *d, gs_mem dmean_, gs_mem dvar_, gs_mem running_mean_,
                                     gs_mem running_var_, gs_mem mean_, gs_mem var_, float m, float samples,
                                     const gs_batch_norm_sizes *s, bool add) {
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

static void sums_part(void *context, int part) {
    const norm_work *t = context;
    const gs_batch_norm_sizes *s = t->s;
    const int side = side_of(s), tasks = tasks_of(s), end = share((size_t)tasks, part + 1, t->parts);
    for (int task = share((size_t)tasks, part, t->parts); task < end; task++) {
        const int c = task * side, width = s->c - c < side ? s->c - c : side;
        two sum[SIDE];
        sum_channels(t, c, width, t->mean + c, sum);
        for (int k = 0; k < width; k++) {
            t->to[c + k] = (float)sum[k].a;
            t->to[s->c + c + k] = (float)(sum[k].b / sqrt((double)t->var[c + k] + (double)s->eps));
        }
    }
}

/* forward: y = w u + b, so db = sum dy and dw = sum dy u */
gs_status GS_ISA(batch_norm_sums)(gs_device *d, gs_mem sums, gs_mem dw_, gs_mem db_, gs_mem dy, gs_mem x,
                                  gs_mem mean, gs_mem var, size_t n, const gs_batch_norm_sizes *s, bool add) {
    norm_work t = {.s = s,
                   .n = n,
                   .x = gs_cpu_floats(x),
                   .dy = gs_cpu_floats(dy),
                   .mean = gs_cpu_floats(mean),
                   .var = gs_cpu_floats(var),
                   .to = gs_cpu_floats(sums)};
    float *dw = gs_cpu_floats(dw_), *db = gs_cpu_floats(db_);
    run_sums(d, &t, sums_part);
    for (int c = 0; c < s->c; c++) {
        db[c] = add ? db[c] + t.to[c] : t.to[c];
        dw[c] = add ? dw[c] + t.to[s->c + c] : t.to[s->c + c];
    }
    return GS_OK;
}

/* ---- from numbers to numbers ---- */

/* For some samples. Each loop is over what lies side by side: the pixels of a channel, or the channels of a vector. */
static void forward_part(void *context, int part) {
    const norm_work *t = context;
    const size_t c = (size_t)t->s->c, plane = (size_t)t->s->plane;
    const float *scale = t->factor, *mean = t->mean, *b = t->first;
    const size_t end = (size_t)share(t->n, part + 1, t->parts);
    for (size_t i = (size_t)share(t->n, part, t->parts); i < end; i++) {
        const float *x = t->x + i * c * plane;
        float *y = t->to + i * c * plane;
        if (plane == 1)
            for (size_t k = 0; k < c; k++) y[k] = (x[k] - mean[k]) * scale[k] + b[k];
        else
            for (size_t k = 0; k < c; k++, x += plane, y += plane)
                for (size_t p = 0; p < plane; p++) y[p] = (x[p] - mean[k]) * scale[k] + b[k];
    }
}

static void run_samples(gs_device *d, norm_work *t, void (*work)(void *, int)) {
    t->parts = gs_cpu_parts(d, t->n * (size_t)t->s->c * (size_t)t->s->plane, 1 << 14);
    if ((size_t)t->parts > t->n) t->parts = t->n > 0 ? (int)t->n : 1;
    gs_pool_run(gs_cpu_of(d)->pool, t->parts, work, t);
}

/* y = w u + b */
gs_status GS_ISA(batch_norm_forward)(gs_device *d, gs_mem y, gs_mem x, gs_mem w_, gs_mem b, gs_mem mean,
                                     gs_mem var_, size_t n, const gs_batch_norm_sizes *s) {
    const float *w = gs_cpu_floats(w_), *var = gs_cpu_floats(var_);
    float *scale;
    GS_TRY(gs_cpu_scratch(d, (size_t)s->c, &scale));
    for (int c = 0; c < s->c; c++) scale[c] = w[c] / sqrtf(var[c] + s->eps);
    norm_work t = {.s = s,
                   .n = n,
                   .x = gs_cpu_floats(x),
                   .mean = gs_cpu_floats(mean),
                   .first = gs_cpu_floats(b),
                   .to = gs_cpu_floats(y),
                   .factor = scale};
    run_samples(d, &t, forward_part);
    return GS_OK;
}

/* dx = scale (dy - of_dy - (x - mean) of_x), where of_dy and of_x lie behind scale */
static void backward_part(void *context, int part) {
    const norm_work *t = context;
    const size_t c = (size_t)t->s->c, plane = (size_t)t->s->plane;
    const float *scale = t->factor, *of_dy = scale + c, *of_x = of_dy + c, *mean = t->mean;
    const size_t end = (size_t)share(t->n, part + 1, t->parts);
    for (size_t i = (size_t)share(t->n, part, t->parts); i < end; i++) {
        const float *x = t->x + i * c * plane, *dy = t->dy + i * c * plane;
        float *dx = t->to + i * c * plane;
        if (plane == 1)
            for (size_t k = 0; k < c; k++) dx[k] = scale[k] * (dy[k] - of_dy[k] - (x[k] - mean[k]) * of_x[k]);
        else
            for (size_t k = 0; k < c; k++, x += plane, dy += plane, dx += plane)
                for (size_t p = 0; p < plane; p++)
                    dx[p] = scale[k] * (dy[p] - of_dy[k] - (x[p] - mean[k]) * of_x[k]);
    }
}

/* forward: y = w u + b, so dx = w / sqrt(var + eps) (dy - sums[0] / m - u sums[1] / m) */
gs_status GS_ISA(batch_norm_backward)(gs_device *d, gs_mem dx, gs_mem dy, gs_mem x, gs_mem w_, gs_mem mean,
                                      gs_mem var_, gs_mem sums_, float m, size_t n,
                                      const gs_batch_norm_sizes *s) {
    const float *w = gs_cpu_floats(w_), *var = gs_cpu_floats(var_), *sums = gs_cpu_floats(sums_);
    const int c = s->c;
    float *factor;
    GS_TRY(gs_cpu_scratch(d, 3 * (size_t)c, &factor));
    for (int k = 0; k < c; k++) {
        float deviation = sqrtf(var[k] + s->eps);
        factor[k] = w[k] / deviation;
        factor[c + k] = sums ? sums[k] / m : 0;
        factor[2 * c + k] = sums ? sums[c + k] / m / deviation : 0;
    }
    norm_work t = {.s = s,
                   .n = n,
                   .x = gs_cpu_floats(x),
                   .dy = gs_cpu_floats(dy),
                   .mean = gs_cpu_floats(mean),
                   .to = gs_cpu_floats(dx),
                   .factor = factor};
    run_samples(d, &t, backward_part);
    return GS_OK;
}
