/* Lab 18: tensor parallelism. See README.md, and tasks.h for what each function must do. */
#include "tasks.h"

#include <math.h>

/* ---- who owns which part of a matrix ---- */

lab_cut lab_rows_of(size_t rows, size_t columns, size_t blocks, int rank, int ranks) {
    /* task 18.1: first the rows of one block. A run is some whole rows. How far is it to the next block's run? */
    size_t all = rows / blocks, r = (size_t)rank, n = (size_t)ranks;
    size_t begin = r * all / n, end = (r + 1) * all / n;
    return (lab_cut){begin * columns, (end - begin) * columns, all * columns, blocks};
    /* end of task 18.1 */
}

lab_cut lab_columns_of(size_t rows, size_t columns, int rank, int ranks) {
    /* task 18.1: some columns of each row. How many runs is that? */
    size_t r = (size_t)rank, n = (size_t)ranks, begin = r * columns / n, end = (r + 1) * columns / n;
    return (lab_cut){begin, end - begin, columns, rows};
    /* end of task 18.1 */
}

/* ---- a pair of linear layers ---- */

gs_status lab_first_forward(gs_comm *c, const lab_layer *l, const float *x, float *y) {
    /* task 18.2: which numbers does a rank need for its outputs that it does not have? */
    (void)c;
    lab_linear(l, l->b, x, y);
    return GS_OK;
    /* end of task 18.2 */
}

gs_status lab_second_forward(gs_comm *c, const lab_layer *l, const float *x, float *y) {
    /* task 18.2: each output is a sum over all inputs; the rank has some. How often does the sum contain b? */
    lab_linear(l, NULL, x, y);
    GS_TRY(gs_comm_all_reduce(c, y, l->n * l->out, GS_F32, GS_SUM));
    for (size_t i = 0; i < l->n * l->out && l->b; i++) y[i] += l->b[i % l->out];
    return GS_OK;
    /* end of task 18.2 */
}

gs_status lab_first_backward(gs_comm *c, const lab_layer *l, const float *dy, const float *x, float *dx,
                             float *dw, float *db) {
    /* task 18.3: every output used x. Which of dx, dw and db is a sum over other ranks' outputs? */
    lab_linear_backward(l, dy, x, dx, dw, db);
    return dx ? gs_comm_all_reduce(c, dx, l->n * l->in, GS_F32, GS_SUM) : GS_OK;
    /* end of task 18.3 */
}

gs_status lab_second_backward(gs_comm *c, const lab_layer *l, const float *dy, const float *x, float *dx,
                              float *dw, float *db) {
    /* task 18.3: all ranks have the whole dy. What is missing? */
    (void)c;
    lab_linear_backward(l, dy, x, dx, dw, db);
    return GS_OK;
    /* end of task 18.3 */
}

/* ---- the loss of a divided vocabulary ---- */

gs_status lab_words_loss(gs_comm *c, const lab_words *w, float *p, float *loss, float *room) {
    /* task 18.4: the largest output of each token, over all ranks. Then p before the division, its sum on this rank,
     * and x - largest at the label, which one rank has. Sum what needs summing; divide. */
    const float *x = w->x;
    for (size_t i = 0; i < w->n; i++) {
        loss[i] = -INFINITY;
        for (size_t k = 0; k < w->words; k++) loss[i] = fmaxf(loss[i], x[i * w->words + k]);
    }
    GS_TRY(gs_comm_all_reduce(c, loss, w->n, GS_F32, GS_MAX));
    for (size_t i = 0; i < w->n; i++) {
        room[i] = room[w->n + i] = 0;
        for (size_t k = 0; k < w->words; k++) {
            size_t at = i * w->words + k;
            room[i] += p[at] = expf(x[at] - loss[i]);
            if ((size_t)w->label[i] == w->first + k) room[w->n + i] = x[at] - loss[i];
        }
    }
    GS_TRY(gs_comm_all_reduce(c, room, 2 * w->n, GS_F32, GS_SUM));
    for (size_t i = 0; i < w->n * w->words; i++) p[i] /= room[i / w->words];
    for (size_t i = 0; i < w->n; i++) loss[i] = logf(room[i]) - room[w->n + i];
    return GS_OK;
    /* end of task 18.4 */
}

void lab_words_dx(const lab_words *w, const float *p, float *dx) {
    /* task 18.4: p, less 1 at the label. Which rank holds that word? */
    for (size_t i = 0; i < w->n; i++)
        for (size_t k = 0; k < w->words; k++)
            dx[i * w->words + k] = p[i * w->words + k] - ((size_t)w->label[i] == w->first + k ? 1 : 0);
    /* end of task 18.4 */
}

/* ---- what it costs ---- */

lab_sent lab_traffic(size_t blocks, size_t tokens, size_t width, int ranks, bool tied) {
    /* task 18.5: how many sums does a pair take, in forward and backward? And the last layer, the embedding and the
     * loss? How much of an array of B bytes does a rank send around a ring? */
    size_t wide = 4 * blocks + 1 + tied;
    double floats = (double)tokens * ((double)(wide * width) + ranks + 3);
    return (lab_sent){wide + 2, 2.0 * (ranks - 1) / ranks * floats * sizeof(float)};
    /* end of task 18.5 */
}
