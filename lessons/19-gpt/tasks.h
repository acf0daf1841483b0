/* Lesson 19: what you write in lab.c. A token is a number; a text is an array of them. Logarithms are natural.
 *
 * All ranks call the functions that take a gs_comm, and make the same collective calls in them, in the same order:
 *
 *     c->rank, c->size                                  who am I, and how many are we
 *     gs_comm_all_reduce(c, data, count, type, GS_SUM)  data[i] = the sum of data[i] of all ranks, on all of them;
 *                                                       type is GS_F32 for floats, GS_F64 for doubles
 *
 * It can fail, and returns a gs_status: GS_TRY(call) passes a failure on.
 */
#pragma once

#include "comm/comm.h"
#include "lab.h"

/* ---- labels ---- */

enum { LAB_NO_LABEL = -1 };

/* Task 19.1. The labels of one window: tokens first .. first + n - 1 of a text of `count` tokens (first + n <= count).
 * A text is several documents, one after another, and the last token of each is `end`. label[k] is the token that comes
 * after token first + k of the text. It is LAB_NO_LABEL where nothing comes after it: it is the last of the text, or it
 * is `end`, since the next document has nothing to do with this one. Returns how many of the n labels are there: these
 * are the tokens that "count". */
size_t lab_labels(const int32_t *text, size_t count, size_t first, size_t n, int32_t end, int32_t *label);

/* ---- attention of one head, for one token, tile by tile ---- */

/* What is known of the keys that were seen so far. s_j = q k_j / sqrt(d) is the score of key j. */
typedef struct lab_running {
    float largest; /* of the scores; -INFINITY before the first */
    float sum;     /* of exp(s_j - largest); 0 before the first */
    float *y;      /* d numbers: the sum of exp(s_j - largest) v_j; 0 before the first */
} lab_running;

/* Task 19.2. Token number `token` has the query q (d numbers). It meets a tile of `count` keys: those of tokens first
 * .. first + count - 1, keys (count, d), with their values (count, d). It may see tokens up to itself, and no later
 * one; in a tile there may be some that it does not see, or none that it does. Bring *r up to date. Tiles come in any
 * order. The difference of two scores may be anything, and a score may be above 88, where exp is infinite in float:
 * never call exp with what may be above 0. */
void lab_attend(lab_running *r, size_t d, const float *q, size_t token, const float *keys,
                const float *values, size_t first, size_t count);

/* Task 19.2, after the last tile: y becomes the mean of the values, weighted by softmax(s). Returns log sum_j exp(s_j),
 * which is all that backward needs beside y. It is finite, even where a score is 1,000. */
float lab_attend_end(lab_running *r, size_t d);

/* ---- the gradient of all workers ---- */

/* What a worker has computed at once: the *mean* over `tokens` tokens that count of the loss and of its gradient, as
 * most frameworks have it. Where tokens is 0, loss and dw are 0 / 0: not a number. */
typedef struct lab_part {
    size_t tokens;
    double loss;
    const float *dw;
} lab_part;

/* Task 19.3. This rank has computed `parts` of them, perhaps 0; other ranks more or fewer. dw[0 .. count - 1] and *loss
 * become the gradient and the loss of the mean over all tokens of all parts of all ranks, on all ranks. Some rank has a
 * token that counts. What dw and *loss hold before means nothing. */
gs_status lab_mean_gradient(gs_comm *c, size_t parts, const lab_part *part, size_t count, float *dw,
                            double *loss);

/* ---- clipping ---- */

/* A piece of the gradient that this rank has: `count` floats. Together the ranks have all of it, each piece `copies`
 * times: on one rank alone (1), on all of them (c->size), or on some. Copies have the same numbers. */
typedef struct lab_piece {
    const float *dw;
    size_t count;
    int copies;
} lab_piece;

/* Task 19.4. *norm = the Euclidean norm of the whole gradient, each of its numbers once. *factor is what the gradient
 * must be multiplied by, so that it keeps its direction and has the norm `most`, if it has more; else 1. The same on
 * all ranks. A rank may have no piece. most > 0. The square of a float may be too large for a float. */
gs_status lab_clip(gs_comm *c, size_t pieces, const lab_piece *piece, double most, double *norm,
                   double *factor);

/* ---- scores ---- */

/* What one worker's part of a test text gave. */
typedef struct lab_score {
    double loss;   /* the sum over its tokens of -log p(token) */
    size_t tokens; /* perhaps 0 */
    size_t bytes;  /* that these tokens stand for */
} lab_score;

/* Task 19.5. Perplexity of the whole text: exp of the mean loss of a token. Some worker has a token. */
double lab_perplexity(size_t workers, const lab_score *score);

/* Task 19.5. Bits for each byte of the text, which can be compared between models whose tokens differ. A nat is 1 / ln
 * 2 bits. */
double lab_bits_per_byte(size_t workers, const lab_score *score);
