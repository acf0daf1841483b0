#include "core/functions.h"
#include "cpu/plain/plain.h"

enum { BLOCK = 64 };

/* Each token's k and v are stored; then y_i = sum_j p_ij v_j, p_i = softmax_j(q_i k_j / sqrt(d)), over j <= i, where i
 * is the token's position in its sequence: past + t. The order of the sums: keys come in blocks, of which a shorter one
 * is filled up with weights 0. m is the largest score so far; where a block has a larger one, the sums so far shrink. A
 * block's weights are added by halves; its values in four sums, which take turns. */
gs_status gs_plain_attention_cached_forward(gs_device *device, gs_mem y_, gs_mem keys_, gs_mem values_,
                                            gs_mem x_, size_t n, size_t past, size_t tokens,
                                            const gs_attention_sizes *s) {
    (void)device;
    const int d = s->width / s->heads;
    const float scale = 1 / sqrtf((float)d);
    float(*x)[tokens][3][s->heads][d] = gs_plain_at(x_), (*y)[tokens][s->heads][d] = gs_plain_at(y_);
    float(*keys)[s->heads][d][s->length] = gs_plain_at(keys_);
    float(*values)[s->heads][s->length][d] = gs_plain_at(values_);
    for (size_t a = 0; a < n; a++)
        for (int h = 0; h < s->heads; h++)
            for (size_t t = 0; t < tokens; t++) {
                float m = -INFINITY, l = 0, *to = y[a][t][h];
                for (int k = 0; k < d; k++) {
                    keys[a][h][k][past + t] = x[a][t][1][h][k];
                    values[a][h][past + t][k] = x[a][t][2][h][k];
                }
                for (size_t first = 0; first <= past + t; first += BLOCK) {
                    const size_t count = past + t + 1 - first < BLOCK ? past + t + 1 - first : BLOCK;
                    float p[BLOCK] = {0}, top = m;
                    for (size_t j = 0; j < count; j++) {
                        for (int k = 0; k < d; k++) p[j] += x[a][t][0][h][k] * keys[a][h][k][first + j];
                        p[j] *= scale;
                        top = p[j] > top ? p[j] : top;
                    }
                    const float shrink = gs_exp(m - top);
                    m = top;
                    for (size_t j = 0; j < count; j++) p[j] = gs_exp(p[j] - m);
                    for (int k = 0; k < d; k++) {
                        float sum[4] = {0};
                        for (size_t j = 0; j < count; j++) sum[j % 4] += p[j] * values[a][h][first + j][k];
                        sum[0] = (sum[0] + sum[1]) + (sum[2] + sum[3]);
                        to[k] = first > 0 ? to[k] * shrink + sum[0] : sum[0];
                    }
                    for (int apart = BLOCK / 2; apart > 0; apart /= 2)
                        for (int j = 0; j < apart; j++) p[j] += p[j + apart];
                    l = l * shrink + p[0];
                }
                for (int k = 0; k < d; k++) to[k] *= 1 / l;
            }
    return GS_OK;
}
