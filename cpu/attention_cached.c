/* Attention of the newest tokens to all earlier ones; cpu/plain/attention_cached.c shows the formulas.
 *
 * A token's scores are not a tile but a row, which it takes in blocks, as in attention.c. A block takes two
 * matrix-vector products, one with the keys, then one with the values; each key and value is read once. In the keys,
 * neighbouring tokens are adjacent; in the values, a token's elements are. So both products add whole vectors, and
 * neither has to sum a vector's lanes.
 *
 * A task is a whole head of a sample, so results are bitwise identical for any number of threads. */
#include "core/functions.h"
#include "cpu/product.h"

enum { SIDE = 16, BLOCK = 64, VECTORS = BLOCK / GS_VECTOR };

typedef struct cached_work {
    const gs_attention_sizes *s;
    const float *x;
    float *y, *keys, *values;
    size_t past, tokens, tasks;
    int parts;
} cached_work;

/* score[j] = scale sum_k q[k] keys[k][j], j < count; may also fill up a vector if keys has enough columns */
static void scores(float *restrict score, const float *q, const float *keys, size_t row, int count,
                   int columns, int d, float scale) {
    int j = 0;
    if (count == BLOCK) {
        gs_vector sum[VECTORS] = {{0}};
        for (int k = 0; k < d; k++)
            UNROLL for (int v = 0; v < VECTORS; v++) sum[v] +=
                q[k] * gs_load(keys + (size_t)k * row + v * GS_VECTOR);
        UNROLL for (int v = 0; v < VECTORS; v++) gs_store(score + v * GS_VECTOR, scale * sum[v]);
        return;
    }
    for (; j < count && j + GS_VECTOR <= columns; j += GS_VECTOR) {
        gs_vector sum = {0};
        for (int k = 0; k < d; k++) sum += q[k] * gs_load(keys + (size_t)k * row + j);
        gs_store(score + j, scale * sum);
    }
    for (; j < count; j++) {
        float sum = 0;
        for (int k = 0; k < d; k++) sum += q[k] * keys[(size_t)k * row + j];
        score[j] = scale * sum;
    }
}

/* score = exp(score - *largest), *largest being the largest so far; 0 after `count` scores. Returns their sum: halves
 * of the block are added until one number is left. *shrink is for earlier sums. */
static float weigh(float *restrict score, int count, float *largest, float *shrink) {
    float top = *largest;
    for (int j = 0; j < count; j++) top = score[j] > top ? score[j] : top;
    for (int j = 0; j < count; j++) score[j] = gs_exp(score[j] - top);
    for (int j = count; j < BLOCK; j++) score[j] = 0;
    *shrink = gs_exp(*largest - top);
    *largest = top;
    const gs_float16 *p = (const gs_float16 *)score;
    gs_float16 sum = (p[0] + p[2]) + (p[1] + p[3]);
    for (int apart = SIDE / 2; apart > 0; apart /= 2)
        for (int i = 0; i < apart; i++) sum[i] += sum[i + apart];
    return sum[0];
}

/* y[k] = shrink y[k] + sum_j p[j] values[j][k], k < d; without `add`, the sum alone. Four sums take turns. */
static void add_values(float *y, bool add, float shrink, const float *p, const float *values, int count,
                       int d) {
    int k = 0;
    for (; k + GS_VECTOR <= d; k += GS_VECTOR) {
        gs_vector sum[4] = {{0}};
        const float *v = values + k;
        int j = 0;
        for (; j + 4 <= count; j += 4, v += 4 * d)
            UNROLL for (int i = 0; i < 4; i++) sum[i] += p[j + i] * gs_load(v + i * d);
        UNROLL for (int i = 0; i < 3; i++) {
            if (j + i < count) sum[i] += p[j + i] * gs_load(v + i * d);
        }
        sum[0] = (sum[0] + sum[1]) + (sum[2] + sum[3]);
        if (add) sum[0] = gs_load(y + k) * shrink + sum[0];
        gs_store(y + k, sum[0]);
    }
    for (; k < d; k++) {
        float sum[4] = {0};
        for (int j = 0; j < count; j++) sum[j % 4] += p[j] * values[j * d + k];
        sum[0] = (sum[0] + sum[1]) + (sum[2] + sum[3]);
        y[k] = add ? y[k] * shrink + sum[0] : sum[0];
    }
}

static void one_head(const cached_work *t, size_t task) {
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
        float p[BLOCK], largest = -INFINITY, sum = 0, shrink;
        for (size_t j = 0; j <= i; j += BLOCK) {
            const int count = (int)(i - j < BLOCK ? i + 1 - j : BLOCK);
            const int columns = (int)(length - j < BLOCK ? length - j : BLOCK);
            scores(p, x, keys + j, length, count, columns, (int)d, scale);
            const float all = weigh(p, count, &largest, &shrink);
            sum = sum * shrink + all;
            add_values(y, j > 0, shrink, p, values + j * d, count, (int)d);
        }
        for (size_t k = 0; k < d; k++) y[k] *= 1 / sum;
    }
}

static void cached_part(void *context, int part) {
    const cached_work *t = context;
    const gs_range r = gs_cpu_tasks(t->tasks, part, t->parts);
    for (size_t task = r.begin; task < r.end; task++) one_head(t, task);
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
                     .tasks = n * (size_t)s->heads};
    t.parts =
        gs_cpu_at_most(t.tasks, gs_cpu_parts(d, n * tokens * (past + tokens) * (size_t)s->width, 1 << 15));
    return gs_cpu_run(d, t.parts, cached_part, &t);
}
