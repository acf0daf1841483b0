/* Lesson 19: what you write in lab.c. A token is a number; a text is an array of them. Logarithms are natural.
 *
 * All ranks call the functions that take a gs_comm, and make the same collective calls in them, in the same order:
 *
 *     c->rank, c->size                                  this rank, and the number of ranks
 *     gs_comm_all_reduce(c, data, count, type, GS_SUM)  data[i] = the sum of data[i] of all ranks, on all of them;
 *                                                       type is GS_F32 for floats, GS_F64 for doubles
 *
 * It can fail, and returns a gs_status: GS_TRY(call) passes a failure on. */
#pragma once

#include "comm/comm.h"
#include "lab.h"

/* ---- labels ---- */

enum { LAB_NO_LABEL = -1 };

/* Task 19.1. The labels of one window: tokens first .. first + n - 1 of a text of `count` tokens (first + n <= count).
 * A text is a sequence of documents, each of which ends with the token `end`. label[k] is the token after token
 * first + k of the text, or LAB_NO_LABEL if that token is the last of the text or is `end`. Returns how many tokens
 * have a label: these "count". */
size_t lab_labels(const int32_t *text, size_t count, size_t first, size_t n, int32_t end, int32_t *label);

/* ---- attention of one head, for one token, tile by tile ---- */

/* The running sums over the keys so far. s_j = q k_j / sqrt(d) is the score of key j. */
typedef struct lab_running {
    float largest; /* of the scores; -INFINITY before the first */
    float sum;     /* of exp(s_j - largest); 0 before the first */
    float *y;      /* d numbers: the sum of exp(s_j - largest) v_j; 0 before the first */
} lab_running;

/* Task 19.2. Token number `token` has the query q (d numbers). It meets a tile of `count` keys of tokens first .. first
 * + count - 1, keys (count, d), with their values (count, d). It sees the tokens up to itself, which may be all, some
 * or none of the tile. Updates *r. Tiles come in any order. Scores and their differences may have any size, and exp is
 * infinite in float above 88: never call exp with an argument above 0. */
void lab_attend(lab_running *r, size_t d, const float *q, size_t token, const float *keys,
                const float *values, size_t first, size_t count);

/* Task 19.2, after the last tile: y becomes the mean of the values, weighted by softmax(s). Returns log sum_j exp(s_j),
 * which is all that backward needs besides y. It is finite, even for a score of 1,000. */
float lab_attend_end(lab_running *r, size_t d);

/* ---- the gradient of all workers ---- */

/* The result of one pass: the *mean* of the loss and of its gradient over `tokens` tokens that count, as most
 * frameworks return it. If tokens is 0, loss and dw are 0 / 0: not a number. */
typedef struct lab_part {
    size_t tokens;
    double loss;
    const float *dw;
} lab_part;

/* Task 19.3. This rank has computed `parts` parts, perhaps 0; other ranks more or fewer. On all ranks dw (`count`
 * numbers) and *loss become the gradient and the loss of the mean over all tokens of all parts of all ranks. Some rank
 * has a token that counts. Ignore what dw and *loss hold before. If a part with tokens has a loss or gradient that is
 * not a number, the mean is not a number either: a diverged run must show it. */
gs_status lab_mean_gradient(gs_comm *c, size_t parts, const lab_part *part, size_t count, float *dw,
                            double *loss);

/* ---- clipping ---- */

/* A piece of the gradient on this rank: `count` floats. Together the ranks hold the whole gradient, each piece `copies`
 * times: on one rank (1), on all (c->size), or on some unknown ranks. Copies hold the same numbers. */
typedef struct lab_piece {
    const float *dw;
    size_t count;
    int copies;
} lab_piece;

/* Task 19.4. *norm = the Euclidean norm of the whole gradient, with each of its numbers once. *factor shortens a
 * gradient to the norm `most`; it is 1 if the norm is at most that. Both are the same on all ranks. A rank may have no
 * piece. most > 0. The square of a float may be too large for a float. */
gs_status lab_clip(gs_comm *c, size_t pieces, const lab_piece *piece, double most, double *norm,
                   double *factor);

/* ---- scores ---- */

/* One worker's result on its part of a test text. */
typedef struct lab_score {
    double loss;   /* the sum over its tokens of -log p(token) */
    size_t tokens; /* perhaps 0 */
    size_t bytes;  /* of these tokens */
} lab_score;

/* Task 19.5. The perplexity of the whole text: exp of the mean loss of a token. Some worker has a token. */
double lab_perplexity(size_t workers, const lab_score *score);

/* Task 19.5. Bits per byte of the text, which compare models whose tokens differ. A nat is 1 / ln 2 bits. */
double lab_bits_per_byte(size_t workers, const lab_score *score);
