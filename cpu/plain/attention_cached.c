#include "cpu/plain/plain.h"

#include <math.h>

/* Each token's k and v are stored; then y_i = sum_j p_ij v_j, p_i = softmax_j(q_i k_j / sqrt(d)), over j <= i, where i
 * is the token's position in its sequence: past + t. */
gs_status gs_plain_attention_cached_forward(gs_device *device, gs_mem y_, gs_mem keys_, gs_mem values_,
                                            gs_mem x_, size_t n, size_t past, size_t tokens,
                                            const gs_attention_sizes *s) {
    (void)device;
    const int d = s->width / s->heads;
    const float root = sqrtf((float)d);
    float(*x)[tokens][3][s->heads][d] = gs_plain_at(x_), (*y)[tokens][s->heads][d] = gs_plain_at(y_);
    float(*keys)[s->heads][d][s->length] = gs_plain_at(keys_);
    float(*values)[s->heads][s->length][d] = gs_plain_at(values_);
    for (size_t a = 0; a < n; a++)
        for (int h = 0; h < s->heads; h++)
            for (size_t t = 0; t < tokens; t++) {
                float score[s->length], largest = -INFINITY;
                double sum = 0;
                for (int k = 0; k < d; k++) {
                    keys[a][h][k][past + t] = x[a][t][1][h][k];
                    values[a][h][past + t][k] = x[a][t][2][h][k];
                }
                for (size_t j = 0; j <= past + t; j++) {
                    score[j] = 0;
                    for (int k = 0; k < d; k++) score[j] += x[a][t][0][h][k] * keys[a][h][k][j];
                    score[j] /= root;
                    largest = fmaxf(largest, score[j]);
                }
                for (size_t j = 0; j <= past + t; j++) sum += exp((double)(score[j] - largest));
                for (int k = 0; k < d; k++) {
                    double mean = 0;
                    for (size_t j = 0; j <= past + t; j++)
                        mean += exp((double)(score[j] - largest)) / sum * (double)values[a][h][j][k];
                    y[a][t][h][k] = (float)mean;
                }
            }
    return GS_OK;
}
