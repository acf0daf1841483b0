/* Batch normalisation; cpu/plain/batch_norm.c shows the formulas.
 *
 * The work of a sum is split by channel, so that a channel's order of additions is the same for any number of threads.
 * Up to CHUNK elements, of one image or of several small ones, are added in f32, in sixteen lanes, and the chunks' sums
 * in double. Chunks of BLOCK channels are processed together in memory order: a core that jumps from image to image for
 * one channel waits for memory. For vector samples (plane 1) channels are adjacent, so sixteen of them are summed at
 * once. Everything else is split by sample, with one scale per channel. */
#include "cpu/round16.h"

#include <math.h>
#include <string.h>

enum { SIDE = 16, CHUNK = 1024, BLOCK = 64, ROWS = 64 /* vector samples that are added in f32 */ };

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

/* ---- two sums per channel ---- */

typedef struct two {
    double a, b;
} two;

/* Some elements of a channel, close enough in memory for the L1 cache: `count` pixels in each of `images` images. */
typedef struct chunk {
    size_t image, images, pixel, count;
} chunk;

/* The number of images, from `image` on, whose small planes form one chunk; 1 if planes are large. */
static size_t images_of(const norm_work *t, size_t image) {
    const size_t fit = CHUNK / (size_t)t->s->plane, left = t->n - image;
    return fit < 1 ? 1 : fit < left ? fit : left;
}

/* Step through the chunks of a plane in some images, starting with count 0; returns false after the last one. */
static bool next_chunk(const norm_work *t, chunk *it) {
    it->pixel += it->count;
    const size_t left = (size_t)t->s->plane - it->pixel;
    it->count = left < CHUNK ? left : CHUNK;
    return left > 0;
}

/* The sum of a vector's elements, in double. (By pointer: how a vector is passed depends on the instruction set.) */
static double sum_elements(const gs_float16 *v) {
    typedef double double8 __attribute__((vector_size(64)));
    gs_float8 half[2];
    memcpy(half, v, sizeof *v);
    const double8 sum = __builtin_convertvector(half[0], double8) + __builtin_convertvector(half[1], double8);
    return ((sum[0] + sum[1]) + (sum[2] + sum[3])) + ((sum[4] + sum[5]) + (sum[6] + sum[7]));
}

/* (sum (x - middle), sum (x - middle)^2) of a chunk of channel c or, with dy, (sum dy, sum dy (x - middle)). Each
 * addition waits for the previous one, so there are LINES independent sums of each kind. */
static inline two sum_chunk(const norm_work *t, const float *dy, int c, const chunk *what, float middle) {
    enum { LINES = 4 };
    const size_t plane = (size_t)t->s->plane, sample = (size_t)t->s->c * plane, count = what->count;
    const size_t at = what->image * sample + (size_t)c * plane + what->pixel;
    gs_float16 a[LINES] = {{0}}, b[LINES] = {{0}};
    two rest = {0, 0};
    for (size_t i = 0; i < what->images; i++) {
        const float *x = t->x + at + i * sample, *by = dy ? dy + at + i * sample : NULL;
        size_t k = 0;
        for (; k + LINES * SIDE <= count; k += LINES * SIDE)
            for (int j = 0; j < LINES; j++) {
                gs_float16 off = *(const gs_float16 *)(x + k + j * SIDE) - middle;
                gs_float16 one = by ? *(const gs_float16 *)(by + k + j * SIDE) : off;
                a[j] += one;
                b[j] += one * off;
            }
        for (; k + SIDE <= count; k += SIDE) {
            gs_float16 off = *(const gs_float16 *)(x + k) - middle;
            gs_float16 one = by ? *(const gs_float16 *)(by + k) : off;
            a[0] += one;
            b[0] += one * off;
        }
        for (; k < count; k++) {
            float off = x[k] - middle, one = by ? by[k] : off;
            rest.a += (double)one;
            rest.b += (double)(one * off);
        }
    }
    a[0] = (a[0] + a[1]) + (a[2] + a[3]);
    b[0] = (b[0] + b[1]) + (b[2] + b[3]);
    return (two){rest.a + sum_elements(&a[0]), rest.b + sum_elements(&b[0])};
}

/* (sum dy, sum dy (x - middle)) for `width` channels */
static void sum_planes(const norm_work *t, int c, int width, const float *middle, two *sum) {
    for (int k = 0; k < width; k++) sum[k] = (two){0, 0};
    for (size_t image = 0, images; image < t->n; image += images) {
        images = images_of(t, image);
        for (int k = 0; k < width; k++)
            for (chunk it = {.image = image, .images = images}; next_chunk(t, &it);) {
                two more = sum_chunk(t, t->dy, c + k, &it, middle[k]);
                sum[k].a += more.a;
                sum[k].b += more.b;
            }
    }
}

/* sum_planes for `width` channels of vector samples. */
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

/* The sums for up to SIDE channels of vector samples, from c on. */
static void sum_vectors(const norm_work *t, int c, int width, const float *middle, two *sum) {
    if (width == SIDE)
        sum_columns(t, c, SIDE, middle, sum); /* a compile-time constant */
    else
        sum_columns(t, c, width, middle, sum);
}

static int tasks_of(const gs_batch_norm_sizes *s) {
    return s->plane > 1 ? s->c : (s->c + SIDE - 1) / SIDE;
}

/* Call work(t, c, width) for a part's channels, with as many at a time as are summed together. */
static void each_channel(const norm_work *t, int part, void (*work)(const norm_work *, int c, int width)) {
    const gs_range r = gs_cpu_tasks((size_t)tasks_of(t->s), part, t->parts);
    const int each = t->s->plane > 1 ? 1 : SIDE, side = t->s->plane > 1 ? BLOCK : SIDE,
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

/* Two passes, because squares around a first estimate of the mean are small. The sum of the deviations, which would be
 * 0 without rounding, corrects both results. This is the corrected two-pass algorithm of Chan, Golub, LeVeque,
 * "Algorithms for computing the sample variance" (The American Statistician 37, 1983); here for vector samples. */
static void statistics_of_vectors(const norm_work *t, int c, int width) {
    const double m = (double)t->n;
    float middle[SIDE] = {0};
    two sum[SIDE];
    sum_vectors(t, c, width, middle, sum);
    for (int k = 0; k < width; k++) middle[k] = (float)(sum[k].a / m);
    sum_vectors(t, c, width, middle, sum);
    for (int k = 0; k < width; k++) {
        t->first[c + k] = (float)((double)middle[k] + sum[k].a / m);
        t->second[c + k] = (float)fmax((sum[k].b - sum[k].a * sum[k].a / m) / m, 0);
    }
}

/* The same two-pass method for each chunk of a channel. The chunks' results are then combined as in that article: for
 * two sets a and b together, the sum of squares around their common mean is
 *
 *     S = S_a + S_b + (mean_b - mean_a)^2 m_a m_b / (m_a + m_b)
 *
 * Only the first chunk takes two passes; the second pass finds it in the cache. Later chunks take one, around the mean
 * of all earlier chunks. If their own mean is far from that, errors grow with (mean_b - mean_a)^2, but so does S. */
static void statistics_of_planes(const norm_work *t, int c, int width) {
    double mean[BLOCK] = {0}, squares[BLOCK] = {0};
    for (size_t image = 0, images; image < t->n; image += images) {
        images = images_of(t, image);
        for (int k = 0; k < width; k++)
            for (chunk it = {.image = image, .images = images}; next_chunk(t, &it);) {
                const double count = (double)(images * it.count),
                             m = (double)(image * (size_t)t->s->plane + images * it.pixel);
                const float middle =
                    m > 0 ? (float)mean[k] : (float)(sum_chunk(t, NULL, c + k, &it, 0).a / count);
                const two sum = sum_chunk(t, NULL, c + k, &it, middle);
                const double apart = (double)middle + sum.a / count - mean[k];
                squares[k] += sum.b - sum.a * sum.a / count + apart * apart * m * count / (m + count);
                mean[k] += apart * count / (m + count);
            }
    }
    const double m = (double)(t->n * (size_t)t->s->plane);
    for (int k = 0; k < width; k++) {
        t->first[c + k] = (float)mean[k];
        t->second[c + k] = (float)fmax(squares[k] / m, 0);
    }
}

static void statistics_part(void *context, int part) {
    const norm_work *t = context;
    each_channel(t, part, t->s->plane > 1 ? statistics_of_planes : statistics_of_vectors);
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
    const gs_batch_norm_sizes *s = t->s;
    two sum[BLOCK];
    if (s->plane > 1)
        sum_planes(t, c, width, t->mean + c, sum);
    else
        sum_vectors(t, c, width, t->mean + c, sum);
    for (int k = 0; k < width; k++) {
        t->to[c + k] = (float)sum[k].a;
        t->to[s->c + c + k] = (float)(sum[k].b / sqrt((double)t->var[c + k] + (double)s->eps));
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

/* ---- element by element ---- */

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
