/* Lab 19: a GPT on N workers. See README.md, and tasks.h for what each function must do. */
#include "tasks.h"

#include <math.h>

size_t lab_labels(const int32_t *text, size_t count, size_t first, size_t n, int32_t end, int32_t *label) {
    /* task 19.1: for each k, which token comes after token first + k? Count the tokens that have one. */
    (void)text, (void)count, (void)first, (void)n, (void)end, (void)label;
    lab_blank("19.1");
    return 0;
    /* end of task 19.1 */
}

void lab_attend(lab_running *r, size_t d, const float *q, size_t token, const float *keys,
                const float *values, size_t first, size_t count) {
    /* task 19.2: key by key: its score; the largest so far. If that grows, the old sums shrink. By what factor? Then
     * add the key's own exp(s - largest) to the sum, and times its value to y. */
    (void)r, (void)d, (void)q, (void)token, (void)keys, (void)values, (void)first, (void)count;
    lab_blank("19.2 (lab_attend)");
    /* end of task 19.2 */
}

float lab_attend_end(lab_running *r, size_t d) {
    /* task 19.2: divide once; and take the log of a sum whose factor exp(largest) is missing. */
    (void)r, (void)d;
    lab_blank("19.2 (lab_attend_end)");
    return 0;
    /* end of task 19.2 */
}

gs_status lab_mean_gradient(gs_comm *c, size_t parts, const lab_part *part, size_t count, float *dw,
                            double *loss) {
    /* task 19.3: a mean times its tokens is a sum again. Add sums and tokens of all parts of all ranks; divide once. */
    (void)c, (void)parts, (void)part, (void)count, (void)dw, (void)loss;
    return lab_blank("19.3");
    /* end of task 19.3 */
}

gs_status lab_clip(gs_comm *c, size_t pieces, const lab_piece *piece, double most, double *norm,
                   double *factor) {
    /* task 19.4: squares can be added over pieces and ranks; norms cannot. Each rank that has a copy of a piece adds
     * it. */
    (void)c, (void)pieces, (void)piece, (void)most, (void)norm, (void)factor;
    return lab_blank("19.4");
    /* end of task 19.4 */
}

double lab_perplexity(size_t workers, const lab_score *score) {
    /* task 19.5: one mean, over all tokens of all workers. */
    (void)workers, (void)score;
    lab_blank("19.5 (lab_perplexity)");
    return 0;
    /* end of task 19.5 */
}

double lab_bits_per_byte(size_t workers, const lab_score *score) {
    /* task 19.5: the whole loss, in bits, over all bytes. */
    (void)workers, (void)score;
    lab_blank("19.5 (lab_bits_per_byte)");
    return 0;
    /* end of task 19.5 */
}
