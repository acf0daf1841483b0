/* Attention of the newest tokens to all earlier ones; cpu/plain/attention_cached.c shows the formulas.
 *
 * A token's scores are not a tile but one row, as long as the past. The token takes two matrix-vector products, one
 * with the keys, then one with the values; keys and values are each read once. In the keys, neighbouring tokens are
 * adjacent; in the values, a token's elements are. So both products add whole vectors, and neither has to sum a
 * vector's lanes.
 *
 * A task is a whole head of a sample, so results are bitwise identical for any number of threads. */
#include "cpu/cpu.h"
#include "cpu/exp.h"

#include <math.h>
#include <string.h>

enum { SIDE = 16, BLOCK = 4 * SIDE };

typedef struct cached_work {
    const gs_attention_sizes *s;
    const float *x;
    float *y, *keys, *values, *scratch;
    size_t past, tokens, tasks;
    size_t each; /* floats of scratch per part: a row of scores */
    int parts;
} cached_work;

/* score[j] = scale sum_k q[k] keys[k][j], j < count; may also fill up a block of SIDE if keys has enough columns */
static void scores(float *restrict score, const float *q, const float *keys, size_t row, size_t count, int d,
                   float scale) {
    size_t j = 0;
    for (; j + BLOCK <= count; j += BLOCK) {
        gs_float16 sum[4] = {{0}};
        for (int k = 0; k < d; k++)
            for (int v = 0; v < 4; v++)
                sum[v] += q[k] * *(const gs_float16 *)(keys + (size_t)k * row + j + (size_t)v * SIDE);
        for (int v = 0; v < 4; v++) *(gs_float16 *)(score + j + (size_t)v * SIDE) = scale * sum[v];
    }
    for (; j < count && j + SIDE <= row; j += SIDE) {
        gs_float16 sum = {0};
        for (int k = 0; k < d; k++) sum += q[k] * *(const gs_float16 *)(keys + (size_t)k * row + j);
        *(gs_float16 *)(score + j) = scale * sum;
    }
    for (; j < count; j++) {
        float sum = 0;
        for (int k = 0; k < d; k++) sum += q[k] * keys[(size_t)k * row + j];
        score[j] = scale * sum;
    }
}

/* score = exp(score - the largest score); returns their sum, added in SIDE lanes; writes zeros after the last score */
static float weigh(float *restrict score, size_t count) {
    float largest = -INFINITY, sum = 0;
    gs_float16 column = {0};
    const size_t whole = (count + SIDE - 1) / SIDE * SIDE;
    for (size_t j = 0; j < count; j++) largest = score[j] > largest ? score[j] : largest;
    for (size_t j = 0; j < count; j++) score[j] = gs_exp(score[j] - largest);
    for (size_t j = count; j < whole; j++) score[j] = 0;
    for (size_t j = 0; j < whole; j += SIDE) column += *(const gs_float16 *)(score + j);
    for (int i = 0; i < SIDE; i++) sum += column[i];
    return sum;
}

/* y[k] = factor sum_j p[j] values[j][k], k < d */
static void mean_of(float *y, const float *p, const float *values, size_t count, int d, float factor) {
    int k = 0;
    for (; k + SIDE <= d; k += SIDE) {
        gs_float16 sum[4] = {{0}};
        const float *v = values + k;
        size_t j = 0;
        for (; j + 4 <= count; j += 4, v += 4 * d)
            for (int i = 0; i < 4; i++) sum[i] += p[j + (size_t)i] * *(const gs_float16 *)(v + i * d);
        for (; j < count; j++, v += d) sum[0] += p[j] * *(const gs_float16 *)v;
        *(gs_float16 *)(y + k) = factor * ((sum[0] + sum[1]) + (sum[2] + sum[3]));
    }
    for (; k < d; k++) {
        float sum = 0;
        for (size_t j = 0; j < count; j++) sum += p[j] * values[j * (size_t)d + (size_t)k];
        y[k] = factor * sum;
    }
}

static void one_head(const cached_work *t, size_t task, float *score) {
    const gs_attention_sizes *s = t->s;
    const size_t heads = (size_t)s->heads, width = (size_t)s->width, d = width / heads,
                 length = (size_t)s->length;
    const size_t sample = task / heads, head = task % heads;
    const float scale = 1 / sqrtf((float)d), *x = t->x + sample * t->tokens * 3 * width + head * d;
    float *y = t->y + sample * t->tokens * width + head * d;
    float *keys = t->keys + task * d * length, *values = t->values + task * length * d;
    for (size_t i = t->past; i < t->past + t->tokens; i++, x += 3 * width, y += width) {
        for (size_t k = 0; k < d; k++) keys[k * length + i] = x[width + k];
        memcpy(values + i * d, x + 2 * width, d * sizeof *values);
        scores(score, x, keys, length, i + 1, (int)d, scale);
        const float sum = weigh(score, i + 1);
        mean_of(y, score, values, i + 1, (int)d, 1 / sum);
    }
}

static void cached_part(void *context, int part) {
    const cached_work *t = context;
    const gs_range r = gs_cpu_tasks(t->tasks, part, t->parts);
    for (size_t task = r.begin; task < r.end; task++) one_head(t, task, t->scratch + (size_t)part * t->each);
}

/* y_t = sum_j p_tj v_j over all positions up to the token's own, past + t */
gs_status GS_ISA(gs_cpu_attention_cached_forward)(gs_device *d, gs_mem y, gs_mem keys, gs_mem values,
                                                  gs_mem x, size_t n, size_t past, size_t tokens,
                                                  const gs_attention_sizes *s) {
    cached_work t = {.s = s,
                     .x = gs_cpu_floats(x),
                     .y = gs_cpu_floats(y),
                     .keys = gs_cpu_floats(keys),
                     .values = gs_cpu_floats(values),
                     .past = past,
                     .tokens = tokens,
                     .tasks = n * (size_t)s->heads,
                     .each = ((size_t)s->length + SIDE - 1) / SIDE * SIDE};
    t.parts =
        gs_cpu_at_most(t.tasks, gs_cpu_parts(d, n * tokens * (past + tokens) * (size_t)s->width, 1 << 15));
    GS_TRY(gs_cpu_scratch(d, (size_t)t.parts * t.each, &t.scratch));
    return gs_cpu_run(d, t.parts, cached_part, &t);
}
