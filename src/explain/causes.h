/* Mistakes that training programs are known to have made, each with the question that recognises it (cause_*.c). There
 * is one function for each quantity. It asks about the more specific mistakes first, and the first yes names the
 * difference. */
#pragma once

#include "explain/explain.h"
#include "explain/sums.h"

/* The difference that the questions are about. */
typedef struct gs_case {
    const gs_digests *a, *b; /* the run that is asked about, and the right one */
    gs_difference *d;
    uint64_t step;
    int kind, number;                   /* as in gs_difference */
    int rank, ranks;                    /* the first rank that sees the difference; how many do */
    const gs_digest_score *of_a, *of_b; /* of that rank of A; of B */
    double passes;                      /* of a rank of A through its part, as A's options say */
    double workers;                     /* of A: those that have parts of a batch of their own */
    gs_sketch mine, right;              /* the array that differs: in A, on that rank if each has it; in B */
    double ratio;                       /* A's array or number is so many times B's; NaN: it is no multiple */
} gs_case;

/* Names the difference if it is a known mistake in this quantity; false if it is not. */
typedef bool gs_question(const gs_case *);

gs_question gs_cause_of_samples, gs_cause_of_targets, gs_cause_of_input,
    gs_cause_of_weights;                                                     /* cause_samples.c */
gs_question gs_cause_of_y, gs_cause_of_loss, gs_cause_of_dw, gs_cause_of_dx; /* cause_layers.c */
gs_question gs_cause_of_sum;                                                 /* cause_sum.c */
gs_question gs_cause_of_rate, gs_cause_of_norm, gs_cause_of_scale,
    gs_cause_of_loss_scale; /* cause_update.c */
gs_question gs_cause_of_updates, gs_cause_of_vector0, gs_cause_of_vector1, gs_cause_of_updated,
    gs_cause_of_state;

/* Sets cause, quantity, where and sentence of a difference that was found. */
void gs_causes_name(const gs_digests *a, const gs_digests *b, gs_difference *);

/* Gives the difference this name and this sentence. Returns true, so that an answer can end with it. */
bool gs_name(const gs_case *, const char *cause, const char *format, ...) GS_PRINTF(3, 4);

/* Of parameter p: y, and what it may be made of. False: it has no such arrays. */
typedef bool gs_arrays(const gs_case *, int p, gs_sketch *y, gs_sketch *x);

/* Least squares (sums.h) over all parameters: y = factor[0] x[0] + ... + factor[count - 1] x[count - 1]. False: more
 * than the share `most` of y is left, or no factors follow. */
bool gs_fit_params(const gs_case *c, int count, gs_arrays *arrays, double most, double *factor);

/* Two ranks of A that have drawn the same: the samples of their own part, or the mask of their first pass. */
bool gs_two_ranks_drew(const gs_case *, int kind, int *first, int *second);

/* Names the difference "samples left out" if the two arrays have different counts. */
bool gs_name_left_out(const gs_case *);
