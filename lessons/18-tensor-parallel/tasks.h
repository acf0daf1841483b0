/* Lesson 18: what you write in lab.c. T ranks of a group share each pair of layers, and all have the same x.
 *
 * Matrices are stored row by row; w of a linear layer is (out, in). All ranks of the group call the functions that take
 * a gs_comm, and make the same collective calls in them, in the same order:
 *
 *     c->rank, c->size                                  this rank, and the number of ranks
 *     gs_comm_all_reduce(c, data, count, type, how)     data[i] = the sum (how GS_SUM) or the largest (GS_MAX) of
 *                                                       data[i] of all ranks, on all of them; type is GS_F32
 *
 * It can fail, and returns a gs_status: GS_TRY(call) passes a failure on. The checks count these calls and their
 * floats: sending more than necessary loses the points too. */
#pragma once

#include "comm/comm.h"
#include "lab.h"

/* ---- who owns which part of a matrix ---- */

/* A part of an array: `count` runs of `length` floats. The first begins at `first`, each later one `step` floats on. */
typedef struct lab_cut {
    size_t first, length, step, count;
} lab_cut;

/* Task 18.1. The part of rank `rank` of `ranks` of a matrix (rows, columns) that is cut by rows. The rows form `blocks`
 * equal blocks, such as q, k and v. The rank owns its part of each block: of R rows, those from floor(rank R / ranks)
 * to before floor((rank + 1) R / ranks). A run is its part of one block. */
lab_cut lab_rows_of(size_t rows, size_t columns, size_t blocks, int rank, int ranks);

/* Task 18.1. The rank's part of a matrix that is cut by columns, which are one block. A run is its part of one row. */
lab_cut lab_columns_of(size_t rows, size_t columns, int rank, int ranks);

/* ---- a pair of linear layers ---- */

/* A rank's part of a layer: w (out, in), and b (out) or NULL. n: tokens. */
typedef struct lab_layer {
    size_t n, in, out;
    const float *w, *b;
} lab_layer;

/* y (n, out) = x w^T + b; b may be NULL. Given. */
static inline void lab_linear(const lab_layer *l, const float *b, const float *x, float *y) {
    for (size_t i = 0; i < l->n; i++)
        for (size_t o = 0; o < l->out; o++) {
            float sum = b ? b[o] : 0;
            for (size_t k = 0; k < l->in; k++) sum += x[i * l->in + k] * l->w[o * l->in + k];
            y[i * l->out + o] = sum;
        }
}

/* dx = dy w;  dw += dy^T x;  db += the sum of the rows of dy. Each of the three may be NULL: skipped. Given. */
static inline void lab_linear_backward(const lab_layer *l, const float *dy, const float *x, float *dx,
                                       float *dw, float *db) {
    for (size_t i = 0; i < l->n && dx; i++)
        for (size_t k = 0; k < l->in; k++) dx[i * l->in + k] = 0;
    for (size_t i = 0; i < l->n; i++)
        for (size_t o = 0; o < l->out; o++) {
            const float d = dy[i * l->out + o];
            if (db) db[o] += d;
            for (size_t k = 0; k < l->in; k++) {
                if (dx) dx[i * l->in + k] += d * l->w[o * l->in + k];
                if (dw) dw[o * l->in + k] += d * x[i * l->in + k];
            }
        }
}

/* The first layer of a pair: the rank computes `out` of its outputs, with their rows of w and their part of b. x is
 * whole, and the same on all ranks. */

/* Task 18.2. y: this rank's outputs, whole sums. */
gs_status lab_first_forward(gs_comm *c, const lab_layer *l, const float *x, float *y);

/* Task 18.3. dy is the gradient of this rank's outputs. dx becomes the gradient of x, the same on all ranks; NULL: no
 * rank needs it. The gradients of the rank's w and b are added to dw and db (NULL if there is no b). */
gs_status lab_first_backward(gs_comm *c, const lab_layer *l, const float *dy, const float *x, float *dx,
                             float *dw, float *db);

/* The second layer: the rank has `in` of its inputs, this rank's outputs of the first layer, and their columns of w.
 * All ranks have the whole b. */

/* Task 18.2. y becomes the whole y of the layer, the same on all ranks. */
gs_status lab_second_forward(gs_comm *c, const lab_layer *l, const float *x, float *y);

/* Task 18.3. dy is the gradient of the whole y, the same on all ranks. Computes the gradients dx of this rank's inputs,
 * dw of this rank's columns, and db of the whole b. */
gs_status lab_second_backward(gs_comm *c, const lab_layer *l, const float *dy, const float *x, float *dx,
                              float *dw, float *db);

/* ---- the loss of a divided vocabulary ---- */

/* This rank holds words first .. first + words - 1, with the outputs x (n, words). label[i] is any word of the whole
 * vocabulary. */
typedef struct lab_words {
    size_t n, words, first;
    const float *x;
    const int32_t *label;
} lab_words;

/* Task 18.4. p (n, words) becomes this rank's words of the softmax over *all* words; loss[i] = -log p of label[i], on
 * all ranks. exp is never called with an argument above 0. `room` holds 2 n floats. No rank gets the outputs of
 * another: all calls together reduce at most 3 n floats. */
gs_status lab_words_loss(gs_comm *c, const lab_words *w, float *p, float *loss, float *room);

/* Task 18.4. dx (n, words) = the gradient of the sum of the losses by x; p is that of lab_words_loss. */
void lab_words_dx(const lab_words *w, const float *p, float *dx);

/* ---- what it costs ---- */

typedef struct lab_sent {
    size_t sums;  /* all-reduces of the group in one step */
    double bytes; /* sent in them by one rank, each around a ring (lesson 7) */
} lab_sent;

/* Task 18.5. A GPT of `blocks` blocks of two pairs each (attention, MLP), with `tokens` tokens of `width` floats in a
 * step, and a group of `ranks`. The words of its last layer are divided as in 18.4. A `tied` last layer uses the table
 * of the embedding, whose rows the ranks share; README.md says what else is summed then. The loss takes two
 * sums, as in gradsum: one of `ranks` floats per token, and one of 3. The embedding learns, so every layer needs dx. */
lab_sent lab_traffic(size_t blocks, size_t tokens, size_t width, int ranks, bool tied);
