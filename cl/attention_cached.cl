#include "common.clh"

/* Attention of the newest tokens to all earlier ones. src/backend.h defines it; cpu/attention.c explains how the
 * softmax is carried from block to block. A work-group handles one token of a head and loops over all keys up to that
 * token's, BLOCK at a time. On a CPU a work-group is a single work-item. */

typedef struct attention_sizes {
    int length, width, heads, causal;
} attention_sizes;

/* keys[a][h][k][past + t] = k of token t; values[a][h][past + t][k] = its v; work-item (a, t, h, k) */
__kernel void attention_keep(__global float *keys, ulong keys_at, __global float *values, ulong values_at,
                             __global const float *x, ulong x_at, ulong count, ulong past, ulong tokens,
                             attention_sizes s) {
    const size_t i = get_global_id(0), width = s.width, length = s.length, d = s.width / s.heads;
    if (i >= count) return;
    const size_t row = i / width, at = i - row * width, sample = row / tokens,
                 place = past + row - sample * tokens;
    const size_t h = at / d, k = at - h * d, head = sample * s.heads + h;
    x += x_at + row * 3 * width + at;
    keys[keys_at + (head * d + k) * length + place] = x[width];
    values[values_at + (head * length + place) * d + k] = x[2 * width];
}

#ifdef GS_GPU

enum { BLOCK = GS_SUM_ITEMS };

/* Each work-item handles one key of a block, then every BLOCK-th element of y, so that neighbouring work-items read
 * adjacent elements of keys and values. Every work-item computes the sum of the block's weights. */
__kernel __attribute__((reqd_work_group_size(BLOCK, 1, 1))) void
attention_cached_forward(__global float *y, ulong y_at, __global const float *keys, ulong keys_at,
                         __global const float *values, ulong values_at, __global const float *x, ulong x_at,
                         ulong n, ulong past, ulong tokens, attention_sizes s) {
    __local float weight[BLOCK];
    const size_t task = get_group_id(0), id = get_local_id(0), width = s.width, length = s.length;
    const size_t head = task / tokens, t = task - head * tokens, sample = head / s.heads;
    const size_t row = sample * tokens + t, at = (head - sample * s.heads) * (s.width / s.heads),
                 end = past + t + 1;
    const int d = s.width / s.heads;
    const float scale = 1.0f / sqrt((float)d);
    __global const float *q = x + x_at + row * 3 * width + at;
    keys += keys_at + head * d * length;
    values += values_at + head * length * d;
    y += y_at + row * width + at;
    float largest = -INFINITY, sum = 0;
    for (size_t j = 0; j < end; j += BLOCK) {
        const int count = (int)min((size_t)BLOCK, end - j);
        float score = 0, top = largest, all = 0;
        if ((int)id < count)
            for (int k = 0; k < d; k++) score += q[k] * keys[k * length + j + id];
        barrier(CLK_LOCAL_MEM_FENCE); /* all work-items have read the previous block */
        weight[id] = score * scale;
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int i = 0; i < count; i++) top = fmax(top, weight[i]);
        barrier(CLK_LOCAL_MEM_FENCE);
        weight[id] = exp(score * scale - top);
        barrier(CLK_LOCAL_MEM_FENCE);
        const float factor = exp(largest - top);
        for (int i = 0; i < count; i++) all += weight[i];
        sum = sum * factor + all;
        largest = top;
        for (int k = (int)id; k < d; k += BLOCK) {
            float mean = j > 0 ? factor * y[k] : 0;
            for (int i = 0; i < count; i++) mean += weight[i] * values[(j + i) * d + k];
            y[k] = mean;
        }
    }
    for (int k = (int)id; k < d; k += BLOCK) y[k] /= sum;
}

#else

enum { VECTORS = 64 / GS_VECTOR, BLOCK = GS_VECTOR * VECTORS };
#define VEC(place) (((anywhere *)(place))->v)

/* score[j] = scale sum_k q[k] keys[k][j] for j < count, and -INFINITY up to the end of the block. Where keys has no
 * whole vector left, elements are computed one at a time. */
static void scores(float *score, __global const float *q, __global const float *keys, size_t length,
                   int count, int columns, int d, float scale) {
    for (int j = 0; j < BLOCK; j += GS_VECTOR) {
        if (j < count && j + GS_VECTOR <= columns) {
            vec sum = 0;
            for (int k = 0; k < d; k++) sum += q[k] * load(keys + k * length + j);
            VEC(score + j) = sum * scale;
        } else {
            for (int i = j; i < min(j + GS_VECTOR, count); i++) {
                float sum = 0;
                for (int k = 0; k < d; k++) sum += q[k] * keys[k * length + i];
                score[i] = sum * scale;
            }
        }
    }
    for (int j = count; j < BLOCK; j++) score[j] = -INFINITY;
}

/* y = factor y + sum_j weight[j] values[j], j < count; without `add`, y = the sum alone */
static void add_values(__global float *y, int add, float factor, const float *weight,
                       __global const float *values, int count, int d) {
    int k = 0;
    for (; k + GS_VECTOR <= d; k += GS_VECTOR) {
        vec sum = 0;
        if (add) sum = factor * load(y + k);
        for (int j = 0; j < count; j++) sum += weight[j] * load(values + (size_t)j * d + k);
        store(sum, y + k);
    }
    for (; k < d; k++) {
        float sum = add ? factor * y[k] : 0;
        for (int j = 0; j < count; j++) sum += weight[j] * values[(size_t)j * d + k];
        y[k] = sum;
    }
}

__kernel GS_OF_VECTORS void attention_cached_forward(__global float *y, ulong y_at,
                                                     __global const float *keys, ulong keys_at,
                                                     __global const float *values, ulong values_at,
                                                     __global const float *x, ulong x_at, ulong n, ulong past,
                                                     ulong tokens, attention_sizes s) {
    const size_t task = get_global_id(0), width = s.width, length = s.length;
    if (task >= n * tokens * s.heads) return;
    const size_t head = task / tokens, t = task - head * tokens, sample = head / s.heads;
    const size_t row = sample * tokens + t, at = (head - sample * s.heads) * (s.width / s.heads),
                 end = past + t + 1;
    const int d = s.width / s.heads;
    const float scale = 1.0f / sqrt((float)d);
    __global const float *q = x + x_at + row * 3 * width + at;
    keys += keys_at + head * d * length;
    values += values_at + head * length * d;
    y += y_at + row * width + at;
    float weight[BLOCK], largest = -INFINITY, sum = 0;
    for (size_t j = 0; j < end; j += BLOCK) {
        const int count = (int)min((size_t)BLOCK, end - j);
        scores(weight, q, keys + j, length, count, (int)min((size_t)BLOCK, length - j), d, scale);
        float top = largest;
        for (int i = 0; i < count; i++) top = fmax(top, weight[i]);
        vec all = 0;
        for (int i = 0; i < BLOCK; i += GS_VECTOR) all += VEC(weight + i) = exp(VEC(weight + i) - top);
        const float factor = exp(largest - top);
        sum = sum * factor + sum_of(all);
        largest = top;
        add_values(y, j > 0, factor, weight, values + j * d, count, d);
    }
    for (int k = 0; k < d; k++) y[k] /= sum;
}

#endif
