/* The table of causes: mistakes that training programs are known to have made, each with the question by which it is
 * recognised. The first one whose answer is yes names the difference; the more special ones come first. */
#pragma once

#include "explain/explain.h"

typedef struct gs_case {
    const gs_digests *a, *b; /* the run that is asked about, and the right one */
    gs_difference *d;
} gs_case;

typedef struct gs_cause {
    const char *name;
    /* Is it this one? Then it has said so (gs_say). */
    bool (*is)(const gs_case *);
} gs_cause;

/* The causes of differences of some quantities; a NULL name ends each. Which table is asked for which quantity:
 * causes.c. */
extern const gs_cause gs_causes_of_samples[];  /* cause_samples.c: samples, answers, input */
extern const gs_cause gs_causes_of_weights[];  /* cause_samples.c: what forward reads */
extern const gs_cause gs_causes_of_forward[];  /* cause_forward.c: y */
extern const gs_cause gs_causes_of_loss[];     /* cause_loss.c: dy of the loss */
extern const gs_cause gs_causes_of_backward[]; /* cause_backward.c: dx, dw */
extern const gs_cause gs_causes_of_sum[];      /* cause_sum.c */
extern const gs_cause gs_causes_of_scores[];   /* cause_scores.c: lr, norm, scale, counts */
extern const gs_cause gs_causes_of_update[];   /* cause_update.c: vectors, weights after it, state */

/* Fills in cause, quantity, where and sentence of a difference that was found. */
void gs_causes_name(const gs_digests *a, const gs_digests *b, gs_difference *);

/* Writes the sentence of the difference. Returns true, so that a question can end with it. */
bool gs_say(const gs_case *, const char *format, ...) GS_PRINTF(2, 3);

/* ---- what the questions are made of (causes.c) ---- */

/* How many ranks see the difference; *first: the first of them. */
int gs_ranks_of(const gs_case *, int *first);
/* "rank 1", "ranks 1 and 2", "all ranks"; "some ranks" where it is not known. Until the next call of this thread. */
const char *gs_ranks_text(const gs_case *);
/* Samples of this step's global batch. */
double gs_batch_of(const gs_case *);
/* Passes of a rank through its part, as its options say. */
double gs_passes_of(const gs_digests *);
/* Workers that have parts of a batch of their own. */
double gs_parts_of_batch(const gs_digests *);
