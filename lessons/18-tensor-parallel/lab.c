/* Lab 18: tensor parallelism. See README.md, and tasks.h for what each function must do. */
#include "tasks.h"

#include <math.h>

/* ---- who owns which part of a matrix ---- */

lab_cut lab_rows_of(size_t rows, size_t columns, size_t blocks, int rank, int ranks) {
    /* task 18.1: first the rows of one block. A run is some whole rows. How far is it to the next block's run? */
    (void)rows, (void)columns, (void)blocks, (void)rank, (void)ranks;
    lab_blank("18.1 (lab_rows_of)");
    return (lab_cut){0};
    /* end of task 18.1 */
}

lab_cut lab_columns_of(size_t rows, size_t columns, int rank, int ranks) {
    /* task 18.1: some columns of each row. How many runs is that? */
    (void)rows, (void)columns, (void)rank, (void)ranks;
    lab_blank("18.1 (lab_columns_of)");
    return (lab_cut){0};
    /* end of task 18.1 */
}

/* ---- a pair of linear layers ---- */

gs_status lab_first_forward(gs_comm *c, const lab_layer *l, const float *x, float *y) {
    /* task 18.2: which numbers does a rank need for its outputs that it does not have? */
    (void)c, (void)l, (void)x, (void)y;
    return lab_blank("18.2 (lab_first_forward)");
    /* end of task 18.2 */
}

gs_status lab_second_forward(gs_comm *c, const lab_layer *l, const float *x, float *y) {
    /* task 18.2: each output is a sum over all inputs; the rank has some. How often does the sum contain b? */
    (void)c, (void)l, (void)x, (void)y;
    return lab_blank("18.2 (lab_second_forward)");
    /* end of task 18.2 */
}

gs_status lab_first_backward(gs_comm *c, const lab_layer *l, const float *dy, const float *x, float *dx,
                             float *dw, float *db) {
    /* task 18.3: every output used x. Which of dx, dw and db is a sum over other ranks' outputs? */
    (void)c, (void)l, (void)dy, (void)x, (void)dx, (void)dw, (void)db;
    return lab_blank("18.3 (lab_first_backward)");
    /* end of task 18.3 */
}

gs_status lab_second_backward(gs_comm *c, const lab_layer *l, const float *dy, const float *x, float *dx,
                              float *dw, float *db) {
    /* task 18.3: all ranks have the whole dy. What is missing? */
    (void)c, (void)l, (void)dy, (void)x, (void)dx, (void)dw, (void)db;
    return lab_blank("18.3 (lab_second_backward)");
    /* end of task 18.3 */
}

/* ---- the loss of a divided vocabulary ---- */

gs_status lab_words_loss(gs_comm *c, const lab_words *w, float *p, float *loss, float *room) {
    /* task 18.4: the largest output of each token, over all ranks. Then p before the division, its sum on this rank,
     * and x - largest at the label, which one rank has. Sum what needs summing; divide. */
    (void)c, (void)w, (void)p, (void)loss, (void)room;
    return lab_blank("18.4 (lab_words_loss)");
    /* end of task 18.4 */
}

void lab_words_dx(const lab_words *w, const float *p, float *dx) {
    /* task 18.4: p, less 1 at the label. Which rank holds that word? */
    (void)w, (void)p, (void)dx;
    lab_blank("18.4 (lab_words_dx)");
    /* end of task 18.4 */
}

/* ---- what it costs ---- */

lab_sent lab_traffic(size_t blocks, size_t tokens, size_t width, int ranks, bool tied) {
    /* task 18.5: how many sums does a pair take, in forward and backward? And the last layer, the embedding and the
     * loss? How much of an array of B bytes does a rank send around a ring? */
    (void)blocks, (void)tokens, (void)width, (void)ranks, (void)tied;
    lab_blank("18.5");
    return (lab_sent){0};
    /* end of task 18.5 */
}
