#include "common.clh"
#include "functions.clh"

/* Attention of the newest tokens to all earlier ones; cpu/plain/attention_cached.c defines the order of the sums, and
 * cpu/attention.c explains how the softmax is carried from block to block. A work-group handles one token of a head and
 * loops over all keys up to that token's, BLOCK at a time. On a CPU a work-group is a single work-item. */

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

enum { BLOCK = 64 };

#ifdef GS_GPU

/* Each of BLOCK work-items handles a key of a block, then every BLOCK-th element of y, so that neighbouring work-items
 * read adjacent elements of keys and values. */
__kernel __attribute__((reqd_work_group_size(BLOCK, 1, 1))) void
attention_cached_forward(__global float *y, ulong y_at, __global const float *keys, ulong keys_at,
                         __global const float *values, ulong values_at, __global const float *x, ulong x_at,
                         ulong n, ulong past, ulong tokens, attention_sizes s) {
    __local float weight[BLOCK], part[BLOCK];
    const size_t task = get_group_id(0), width = s.width, length = s.length;
    const size_t head = task / tokens, t = task - head * tokens, sample = head / s.heads;
    const size_t row = sample * tokens + t, at = (head - sample * s.heads) * (s.width / s.heads),
                 end = past + t + 1;
    const int id = (int)get_local_id(0), d = s.width / s.heads;
    const float scale = 1.0f / sqrt((float)d);
    __global const float *q = x + x_at + row * 3 * width + at;
    keys += keys_at + head * d * length;
    values += values_at + head * length * d;
    y += y_at + row * width + at;
    float largest = -INFINITY, sum = 0;
    for (size_t j = 0; j < end; j += BLOCK) {
        const int count = (int)min((size_t)BLOCK, end - j);
        float score = 0, top = largest;
        if (id < count)
            for (int k = 0; k < d; k++) score += q[k] * keys[k * length + j + id];
        barrier(CLK_LOCAL_MEM_FENCE); /* all work-items have read the previous block */
        weight[id] = score * scale;
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int i = 0; i < count; i++) top = fmax(top, weight[i]);
        barrier(CLK_LOCAL_MEM_FENCE);
        weight[id] = part[id] = id < count ? gs_exp(score * scale - top) : 0;
        const float shrink = gs_exp(largest - top);
        for (int apart = BLOCK / 2; apart > 0; apart /= 2) {
            barrier(CLK_LOCAL_MEM_FENCE);
            if (id < apart) part[id] += part[id + apart];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        sum = sum * shrink + part[0];
        largest = top;
        for (int k = id; k < d; k += BLOCK) {
            float turn[4] = {0, 0, 0, 0};
            for (int r = 0; r < 4; r++)
                for (int i = r; i < count; i += 4) turn[r] += weight[i] * values[(j + i) * d + k];
            const float all = (turn[0] + turn[1]) + (turn[2] + turn[3]);
            y[k] = j > 0 ? y[k] * shrink + all : all;
        }
    }
    for (int k = id; k < d; k += BLOCK) y[k] *= 1 / sum;
}

#else

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

/* The sum of a block, added by halves. */
static float sum_of_block(const float *p) {
    float part[BLOCK];
    for (int i = 0; i < BLOCK; i += GS_VECTOR) VEC(part + i) = VEC(p + i);
    for (int apart = BLOCK / 2; apart >= GS_VECTOR; apart /= 2)
        for (int i = 0; i < apart; i += GS_VECTOR) VEC(part + i) += VEC(part + i + apart);
    for (int apart = GS_VECTOR / 2; apart > 0; apart /= 2)
        for (int i = 0; i < apart; i++) part[i] += part[i + apart];
    return part[0];
}

/* y = shrink y + sum_j weight[j] values[j], j < count; without `add`, y = the sum alone. Four sums take turns. */
static void add_values(__global float *y, int add, float shrink, const float *weight,
                       __global const float *values, int count, int d) {
    int k = 0;
    for (; k + GS_VECTOR <= d; k += GS_VECTOR) {
        vec sum[4] = {0, 0, 0, 0};
        int j = 0;
        for (; j + 4 <= count; j += 4)
#pragma unroll
            for (int i = 0; i < 4; i++) sum[i] += weight[j + i] * load(values + (size_t)(j + i) * d + k);
#pragma unroll
        for (int i = 0; i < 3; i++)
            if (j + i < count) sum[i] += weight[j + i] * load(values + (size_t)(j + i) * d + k);
        sum[0] = (sum[0] + sum[1]) + (sum[2] + sum[3]);
        store(add ? load(y + k) * shrink + sum[0] : sum[0], y + k);
    }
    for (; k < d; k++) {
        float sum[4] = {0, 0, 0, 0};
        for (int i = 0; i < 4; i++) /* not sum[j % 4]: Intel's compiler then gives other sums */
            for (int j = i; j < count; j += 4) sum[i] += weight[j] * values[(size_t)j * d + k];
        sum[0] = (sum[0] + sum[1]) + (sum[2] + sum[3]);
        y[k] = add ? y[k] * shrink + sum[0] : sum[0];
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
        for (int i = 0; i < BLOCK; i += GS_VECTOR) VEC(weight + i) = gs_exp(VEC(weight + i) - top);
        const float shrink = first_of(gs_exp((vec)(largest - top)));
        sum = sum * shrink + sum_of_block(weight);
        largest = top;
        add_values(y, j > 0, shrink, weight, values + j * d, count, d);
    }
    for (int k = 0; k < d; k++) y[k] *= 1 / sum;
}

#endif
