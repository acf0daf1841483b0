/* --digest DIR: records what every step computes, as a few numbers (sketch.h) for each quantity, layer and rank.
 * `gradsum explain` compares two such records (explain/explain.h). Without --digest none of this runs.
 *
 * Each rank writes its own file, DIR/rank-0.digest and so on, line by line during the run. Ranks send each other
 * nothing until the run ends, and after a crash all earlier steps are on disk. The files are text:
 *
 *     gradsum digest 4 rank 0 of 2                     format version: GS_DIGEST_VERSION
 *     option batch 64                                  settings, as on the command line
 *     set 6000                                         number of samples in the training set
 *     layer 3 linear 0.body.1                          number, operator, name
 *     param 2 1568 10 0 3 0.body.1.bias                number, offset in the flat array, count, state?, layer, name
 *     start                                            steps begin here
 *     y 1 3 0 320 12.5 80.25 3.1 -4 0.5 2.25 9f3a      quantity, step, number, part; then n, sum, squares, along[4]
 *                                                      and bits (hexadecimal)
 *     score 1 80.5 12 64 0.05 0.0156 0 1 0 0 32        step, then the members of gs_digest_score
 *     end 1 57                                         step 1 is complete: 57 rows before its score
 *
 * What `number` and `part` mean depends on the kind (gs_digest_kind). A resumed run's record begins at a later step. */
#pragma once

#include "core/error.h"
#include "train/digest/sketch.h"

struct gs_worker;
struct gs_loaded;

/* The quantities, in the order in which a step computes them. Positions in arrays of samples refer to the global batch,
 * positions in arrays of parameters to the model's flat array. */
#define GS_DIGEST_KINDS(X)                                                                                   \
    X(samples, "samples")           /* from the loader; number 0; part: eighth of the batch */               \
    X(answers, "targets")           /* labels or other targets; number and part as above */                  \
    X(own, "own samples")           /* samples again, by position in the rank's own part; number 0 */        \
    X(weight, "weights in forward") /* read by the first forward; number: parameter; part 1: borrowed */     \
    X(x, "input")                   /* of the first layer; number 0; part: eighth of the batch */            \
    X(y, "y")                       /* number: layer, without views; part as above */                        \
    X(mask, "mask")                 /* dropout: where y is not 0, by own positions; part: pass */            \
    X(dy, "dy of the loss")         /* number 0; part: eighth of the batch */                                \
    X(dw, "dw before the sum")      /* what a pass adds; number: parameter; part: pass */                    \
    X(dx, "dx")                     /* number: layer; part: eighth of the batch */                           \
    X(sum, "summed dw")             /* number: parameter; part 1: held by all ranks, not divided */          \
    X(vector0, "first vector")      /* the optimiser's, after the update; number and part as in sum */       \
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
    GS_DIGEST_VERSION = 4, /* in version 3 a step ended with a CRC-32 instead of its number of rows */
    GS_DIGEST_EIGHTHS = 8, /* parts of the global batch, by the positions of samples */
    GS_DIGEST_PARTS = 16,  /* maximum number of parts; the last part holds all later passes */
    GS_DIGEST_WHY = 1024,  /* maximum size of a note, in bytes */
};

/* The scalars of a step; NaN: unknown. */
typedef struct gs_digest_score {
    double loss, correct, samples; /* sums over the global batch */
    double lr;
    double scale;      /* factor applied to the summed gradient: 1 / samples, or less if clipped */
    double norm;       /* with --clip: the norm before clipping */
    double updates;    /* number of updates so far */
    double loss_scale; /* for f16; otherwise 0 */
    double skipped;    /* 1: the update was skipped */
    double held;       /* number of samples that this rank computed */
} gs_digest_score;

typedef struct gs_digest gs_digest;

/* The eighth of a batch that holds this sample. */
static inline int gs_digest_eighth(size_t place, size_t batch) {
    const size_t eighth = batch ? place * GS_DIGEST_EIGHTHS / batch : 0;
    return eighth < GS_DIGEST_EIGHTHS ? (int)eighth : GS_DIGEST_EIGHTHS - 1;
}
