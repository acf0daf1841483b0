/* Lab 19: a GPT on N workers. See README.md, and tasks.h for what each function must do. */
#include "tasks.h"

#include <math.h>

size_t lab_labels(const int32_t *text, size_t count, size_t first, size_t n, int32_t end, int32_t *label) {
    /* task 19.1: for each k, which token comes after token first + k? Count the tokens that have one. */
    size_t there = 0;
    for (size_t k = 0; k < n; k++) {
        size_t at = first + k;
        label[k] = at + 1 < count && text[at] != end ? text[at + 1] : LAB_NO_LABEL;
        there += label[k] != LAB_NO_LABEL;
    }
    return there;
    /* end of task 19.1 */
}

void lab_attend(lab_running *r, size_t d, const float *q, size_t token, const float *keys,
                const float *values, size_t first, size_t count) {
    /* task 19.2: key by key: its score; the largest so far. If that grows, the old sums shrink. By what factor? Then
     * add the key's own exp(s - largest) to the sum, and times its value to y. */
    for (size_t j = 0; j < count && first + j <= token; j++) {
        float s = 0;
        for (size_t k = 0; k < d; k++) s += q[k] * keys[j * d + k];
        s /= sqrtf((float)d);
        float largest = fmaxf(r->largest, s), shrink = expf(r->largest - largest), p = expf(s - largest);
        r->sum = r->sum * shrink + p;
        for (size_t k = 0; k < d; k++) r->y[k] = r->y[k] * shrink + p * values[j * d + k];
        r->largest = largest;
    }
    /* end of task 19.2 */
}

float lab_attend_end(lab_running *r, size_t d) {
    /* task 19.2: divide once; and take the log of a sum whose factor exp(largest) is missing. */
    for (size_t k = 0; k < d; k++) r->y[k] /= r->sum;
    return r->largest + logf(r->sum);
    /* end of task 19.2 */
}

gs_status lab_mean_gradient(gs_comm *c, size_t parts, const lab_part *part, size_t count, float *dw,
                            double *loss) {
    /* task 19.3: a mean times its tokens is a sum again. Add sums and tokens of all parts of all ranks; divide once. */
    double all[2] = {0, 0}; /* loss, tokens */
    for (size_t i = 0; i < count; i++) dw[i] = 0;
    for (size_t p = 0; p < parts; p++) {
        if (part[p].tokens == 0) continue;
        all[0] += part[p].loss * (double)part[p].tokens;
        all[1] += (double)part[p].tokens;
        for (size_t i = 0; i < count; i++) dw[i] += part[p].dw[i] * (float)part[p].tokens;
    }
    GS_TRY(gs_comm_all_reduce(c, all, 2, GS_F64, GS_SUM));
    GS_TRY(gs_comm_all_reduce(c, dw, count, GS_F32, GS_SUM));
    *loss = all[0] / all[1];
    for (size_t i = 0; i < count; i++) dw[i] /= (float)all[1];
    return GS_OK;
    /* end of task 19.3 */
}

gs_status lab_clip(gs_comm *c, size_t pieces, const lab_piece *piece, double most, double *norm,
                   double *factor) {
    /* task 19.4: squares can be added over pieces and ranks; norms cannot. Each rank that has a copy of a piece adds
     * it. */
    double squares = 0;
    for (size_t p = 0; p < pieces; p++)
        for (size_t i = 0; i < piece[p].count; i++)
            squares += (double)piece[p].dw[i] * (double)piece[p].dw[i] / piece[p].copies;
    GS_TRY(gs_comm_all_reduce(c, &squares, 1, GS_F64, GS_SUM));
    *norm = sqrt(squares);
    *factor = *norm > most ? most / *norm : 1;
    return GS_OK;
    /* end of task 19.4 */
}

double lab_perplexity(size_t workers, const lab_score *score) {
    /* task 19.5: one mean, over all tokens of all workers. */
    double loss = 0, tokens = 0;
    for (size_t r = 0; r < workers; r++) {
        loss += score[r].loss;
        tokens += (double)score[r].tokens;
    }
    return exp(loss / tokens);
    /* end of task 19.5 */
}

double lab_bits_per_byte(size_t workers, const lab_score *score) {
    /* task 19.5: the whole loss, in bits, over all bytes. */
    double loss = 0, bytes = 0;
    for (size_t r = 0; r < workers; r++) {
        loss += score[r].loss;
        bytes += (double)score[r].bytes;
    }
    return loss / log(2) / bytes;
    /* end of task 19.5 */
}
