#include "cpu/plain/plain.h"

#include <math.h>

/* For a sample and a head: token i's query (part 0), key (part 1) or value (part 2) in x, or its gradient in dx. */
static float *at(gs_mem x, const gs_attention_sizes *s, size_t sample, int head, int part, int i) {
    const size_t token = sample * (size_t)s->length + (size_t)i, width = (size_t)s->width;
    return (float *)gs_plain_at(x) + (token * 3 + (size_t)part) * width +
           (size_t)(head * (s->width / s->heads));
}

/* Token i's result in y, or its gradient in dy. */
static float *out_at(gs_mem y, const gs_attention_sizes *s, size_t sample, int head, int i) {
    return (float *)gs_plain_at(y) + (sample * (size_t)s->length + (size_t)i) * (size_t)s->width +
           (size_t)(head * (s->width / s->heads));
}

static float dot(const float *a, const float *b, int count) {
    float sum = 0;
    for (int k = 0; k < count; k++) sum += a[k] * b[k];
    return sum;
}

/* q_i k_j / sqrt(d) */
static float score(gs_mem x, const gs_attention_sizes *s, size_t sample, int head, int i, int j) {
    const int d = s->width / s->heads;
    return dot(at(x, s, sample, head, 0, i), at(x, s, sample, head, 1, j), d) / sqrtf((float)d);
}

/* y_i = sum_j p_ij v_j, p_i = softmax of i's scores, with j <= i if causal */
gs_status gs_plain_attention_forward(gs_device *device, gs_mem y_, gs_mem softmax_, gs_mem x, size_t n,
                                     const gs_attention_sizes *s) {
    (void)device;
    const int d = s->width / s->heads;
    float(*softmax)[s->heads][2][s->length] = gs_plain_at(softmax_);
    for (size_t a = 0; a < n; a++)
        for (int h = 0; h < s->heads; h++)
            for (int i = 0; i < s->length; i++) {
                const int end = s->causal ? i + 1 : s->length;
                float largest = -INFINITY, *y = out_at(y_, s, a, h, i);
                for (int j = 0; j < end; j++) largest = fmaxf(largest, score(x, s, a, h, i, j));
                double sum = exp((double)(score(x, s, a, h, i, 0) - largest));
                for (int j = 1; j < end; j++) sum += exp((double)(score(x, s, a, h, i, j) - largest));
                softmax[a][h][0][i] = largest;
                softmax[a][h][1][i] = (float)sum;
                for (int k = 0; k < d; k++) y[k] = 0;
                for (int j = 0; j < end; j++) {
                    const float p = expf(score(x, s, a, h, i, j) - largest) / (float)sum;
                    for (int k = 0; k < d; k++) y[k] += p * at(x, s, a, h, 2, j)[k];
                }
            }
    return GS_OK;
}

/* forward: y_i = sum_j p_ij v_j, so dv_j = sum_i p_ij dy_i and dp_ij = dy_i v_j; p_i is a softmax, so the gradient of
 * the score is p_ij (dp_ij - sum_j p_ij dp_ij) = p_ij (dp_ij - dy_i y_i); the score is q_i k_j / sqrt(d), so dq_i sums
 * this gradient times k_j / sqrt(d), and dk_j sums it times q_i / sqrt(d). */
gs_status gs_plain_attention_backward(gs_device *device, gs_mem dx, gs_mem dy_, gs_mem x, gs_mem y_,
                                      gs_mem softmax_, size_t n, const gs_attention_sizes *s) {
    (void)device;
    const int d = s->width / s->heads;
    float(*softmax)[s->heads][2][s->length] = gs_plain_at(softmax_), *to = gs_plain_at(dx);
    for (size_t i = 0; i < n * (size_t)s->length * 3 * (size_t)s->width; i++) to[i] = 0;
    for (size_t a = 0; a < n; a++)
        for (int h = 0; h < s->heads; h++)
            for (int i = 0; i < s->length; i++) {
                const float *dy = out_at(dy_, s, a, h, i), *q = at(x, s, a, h, 0, i);
                const float passed = dot(dy, out_at(y_, s, a, h, i), d);
                float *dq = at(dx, s, a, h, 0, i);
                for (int j = 0; j < (s->causal ? i + 1 : s->length); j++) {
                    const float *k_j = at(x, s, a, h, 1, j), *v = at(x, s, a, h, 2, j);
                    float *dk = at(dx, s, a, h, 1, j), *dv = at(dx, s, a, h, 2, j);
                    const float p = expf(score(x, s, a, h, i, j) - softmax[a][h][0][i]) / softmax[a][h][1][i];
                    const float ds = p * (dot(dy, v, d) - passed) / sqrtf((float)d);
                    for (int k = 0; k < d; k++) {
                        dv[k] += p * dy[k];
                        dq[k] += ds * k_j[k];
                        dk[k] += ds * q[k];
                    }
                }
            }
    return GS_OK;
}
