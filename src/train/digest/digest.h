/* --digest DIR: a record of what every step computed, as a few numbers (sketch.h) for each quantity, layer and rank.
 * `gradsum explain` compares two of them (explain/explain.h). Off, nothing of this runs.
 *
 * Each rank writes a file of its own, DIR/rank-0.digest and so on, line by line, as the run goes on: nothing is sent
 * between ranks, and what was done before a crash is there. All is text:
 *
 *     gradsum digest 4 rank 0 of 2                     the format's version: GS_DIGEST_VERSION
 *     option batch 64                                  settings, as they can be typed
 *     set 6000                                         samples of the training set
 *     layer 3 linear 0.body.1                          number, operator, name
 *     param 2 1568 10 0 3 0.body.1.bias                number, place in the flat array, count, state?, layer, name
 *     start                                            the record of steps begins
 *     y 1 3 0 320 12.5 80.25 3.1 -4 0.5 2.25 9f3a      quantity, step, number, part, then n, sum, squares, along[4]
 *                                                      and bits, in base 16
 *     score 1 80.5 12 64 0.05 0.0156 0 1 0 0 32        step, then gs_digest_score in its order
 *     end 1 57                                         step 1 is whole: 57 rows before its score
 *
 * What `number` and `part` are depends on the quantity (gs_digest_kind). The record of a resumed run begins with a
 * later step than 1. */
#pragma once

#include "core/error.h"
#include "train/digest/sketch.h"

struct gs_worker;
struct gs_loaded;

/* In the order in which a step computes them. Places in arrays of samples are those in the global batch; in arrays of
 * parameters, those in the model's flat array. */
#define GS_DIGEST_KINDS(X)                                                                                   \
    X(samples, "samples")           /* as the loader brings them; number 0; part: eighth of the batch */     \
    X(answers, "targets")           /* the same of labels, or of other targets */                            \
    X(own, "own samples")           /* samples again, by their places in the rank's own part; number 0 */    \
    X(weight, "weights in forward") /* what the first forward reads; number: parameter; part 1: borrowed */  \
    X(x, "input")                   /* of the first layer; number 0; part: eighth of the batch */            \
    X(y, "y")                       /* number: layer; none does another's work; part as above */             \
    X(mask, "mask")                 /* dropout: where y is not 0, by own places; part: pass */               \
    X(dy, "dy of the loss")         /* number 0; part: eighth of the batch */                                \
    X(dw, "dw before the sum")      /* what a pass adds; number: parameter; part: pass */                    \
    X(dx, "dx")                     /* number: layer; part: eighth of the batch */                           \
    X(sum, "summed dw")        /* number: parameter; part 1: held by all ranks where they divide them */     \
    X(vector0, "first vector") /* the optimiser's, after the update; likewise */                             \
    X(vector1, "second vector")                                                                              \
    X(updated, "updated weights")                                                                            \
    X(state, "state") /* after the step; number: parameter */

typedef enum gs_digest_kind {
#define GS_ENUM(name, title) GS_DIGEST_##name,
    GS_DIGEST_KINDS(GS_ENUM)
#undef GS_ENUM
        GS_DIGEST_KINDS_COUNT
} gs_digest_kind;

extern const char *const gs_digest_names[GS_DIGEST_KINDS_COUNT]; /* in the file */

enum {
    GS_DIGEST_VERSION = 4, /* 3 ended a step with a CRC-32, in place of the number of its rows */
    GS_DIGEST_EIGHTHS = 8, /* of the global batch, by the places of samples */
    GS_DIGEST_PARTS = 16,  /* the most parts of a number; passes after that count to the last */
    GS_DIGEST_WHY = 1024,  /* of a note, at most */
};

/* The numbers of a step that are one each; NaN: it has none. */
typedef struct gs_digest_score {
    double loss, correct, samples; /* sums over the batch, as the counts say */
    double lr;
    double scale;      /* what summed gradients are multiplied by: 1 / samples, less if they were clipped */
    double norm;       /* with --clip: before clipping */
    double updates;    /* that were made until now */
    double loss_scale; /* of f16, else 0 */
    double skipped;    /* 1: the update was left out */
    double held;       /* samples that this rank computed */
} gs_digest_score;

typedef struct gs_digest gs_digest;

/* The eighth of a batch that a sample is in. */
static inline int gs_digest_eighth(size_t place, size_t batch) {
    const size_t eighth = batch ? place * GS_DIGEST_EIGHTHS / batch : 0;
    return eighth < GS_DIGEST_EIGHTHS ? (int)eighth : GS_DIGEST_EIGHTHS - 1;
}
