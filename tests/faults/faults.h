/* Planted mistakes, which a test switches on one at a time. Each is in a function that the linker calls instead of a
 * real one (--wrap, faults.mk), only in the program gradsum-faults: no shipped object contains it. */
#pragma once

#include "explain/explain.h"
#include "tests/faults/settings.h"
#include "train/train.h"
#include "train/strategy.h"

/* All mistakes by name; the table (table.c) says what each one is, how it is caught, and where it occurred. */
/* clang-format off */
#define FAULTS(X) \
    /* samples and weights: wrap_data.c */ \
    X(SAME_PART) X(INTERLEAVED) X(SAME_ORDER) X(OWN_SEED) X(RESUME_DATA) X(INPUT_SCALED) X(INPUT_SHIFTED) \
    X(ANSWERS_MOVED) X(SAMPLE_DROPPED) X(INITIAL_SEED) X(STALE_WEIGHT) X(GATHERED_WRONGLY) X(STALE_TIED) \
    X(ROUNDED_WEIGHTS) \
    /* layers and the loss: wrap_layers.c */ \
    X(DROPOUT_RANKS) X(DROPOUT_STEPS) X(DROPOUT_OFF) X(DROPOUT_SCALE) X(DROPOUT_BACKWARD) \
    X(LOCAL_STATISTICS) X(LESS_PRECISE) X(NOT_CAUSAL) X(LOSS_TIMES_PASSES) X(LOSS_BY_PASSES) \
    X(LOSS_BY_WORKERS) X(LOSS_TIMES_WORKERS) X(MEAN_OF_MEANS) X(LOSS_MASKED) X(OTHER_LOSS) X(NOT_CLEARED) \
    X(FROZEN) X(TIED_ONCE) X(BIAS_TWICE) X(LOCAL_BACKWARD) X(WRONG_BACKWARD) \
    /* kinks: wrap_kinks.c */ \
    X(RELU_MASK) X(RELU_AT_ZERO) X(RELU_STALE) X(RELU_SCALED) X(POOL_EQUALS) \
    /* the sum: wrap_sum.c */ \
    X(SUMMED_TWICE) X(MEAN_FOR_SUM) X(SUMMED_EACH_PASS) X(OVERWRITTEN) X(NOT_SUMMED) X(BUCKET_MISSED) \
    X(WITHIN_GROUP) X(RANK_MISSING) X(RANK_TWICE) X(CLIPPED_BEFORE) X(ROUNDED_SUM) X(SUM_CHANGED) \
    X(PASS_LOST) \
    /* rate, norm and update: wrap_update.c */ \
    X(RATE_EACH_PASS) X(RATE_LATE) X(RATE_TIMES_WORKERS) X(RATE_RESUMED) X(NORM_BY_RANK) X(NORM_OF_PART) \
    X(NORM_SCALED) X(NORM_OF_SUM) X(NORM_WITHOUT) X(SCALE_LEFT) X(NOT_CLIPPED) X(RAGGED) X(BY_OWN_SAMPLES) \
    X(BY_MICRO_BATCH) X(UPDATES_RESUMED) X(UPDATED_TWICE) X(UPDATE_MISSING) X(DECAY_TWICE) \
    X(DECAY_MISSING) X(DECAY_DIVIDED) X(DECAY_BY_RANK) X(DECAY_IN_MOMENTS) X(VECTORS_RESUMED) \
    X(VECTORS_CLEARED) X(MOMENTUM) X(RATE_IN_MOMENTUM) X(DAMPENED) X(SECOND_MOMENT) X(BIAS_OFF) \
    X(NO_BIAS_CORRECTION) X(DECOUPLED_TWICE) X(TENSOR_NOT_UPDATED) X(UPDATE_SCALED) X(TRUST_OF_PARTS) \
    X(STATE_OF_RANKS) X(STATE_TWICE)
/* clang-format on */

typedef enum fault {
    NO_FAULT,
#define X(name) name,
    FAULTS(X)
#undef X
        FAULT_COUNT
} fault;

/* The active mistake. It changes only between runs. */
extern fault fault_on;

/* The worker of this thread; NULL in threads without a worker. */
extern _Thread_local gs_worker *fault_worker;

/* Whether the mistake is active on this rank. Most mistakes affect all ranks; some affect only rank 1. */
static inline bool is_on(fault f) {
    return fault_on == f;
}
static inline bool is_on_rank_1(fault f) {
    return fault_on == f && fault_worker && fault_worker->comm->rank == 1;
}

/* The number of workers in this worker's run. */
int fault_workers(void);
int fault_passes(void);

/* On cpu, memory is the host's. */
static inline float *fault_floats(gs_mem m) {
    return (float *)m.base + m.at;
}

/* Replaces the device's operators by some with mistakes. */
void fault_layers(gs_backend *ops, const gs_backend *real);
void fault_kinks(gs_backend *ops, const gs_backend *real);
void fault_update(gs_backend *ops, const gs_backend *real);
void fault_inputs(gs_backend *ops, const gs_backend *real);

/* Called after each backward of a pass, in place of the real one (wrap_sum.c). */
gs_status fault_after_backward(gs_model *, const gs_pass *,
                               gs_status (*backward)(gs_model *, const gs_pass *, gs_mem, gs_mem),
                               gs_mem logits, gs_mem targets);

/* ---- the table ---- */

typedef struct fault_case {
    fault fault;
    const char *name;          /* "SUMMED_TWICE" */
    const char *what;          /* what was wrong */
    const char *source;        /* where it occurred: "pytorch/torchtitan 596" */
    const fault_run *settings; /* for the run with the mistake; the other run has one worker */
    int kind;                  /* the quantity that differs first, */
    uint64_t step;             /* and in which step */
    const char *cause;         /* the name that `gradsum explain` gives it */
    bool on_rank_1;            /* explain must name this rank and no other */
    bool same_layout;          /* the other run is correct but has the same layout */
    bool resumed;              /* the run resumes another one */
} fault_case;

extern const fault_case fault_table[];
extern const int fault_cases;

/* Settings shared by all runs: small sets in memory, few steps. */
gs_settings fault_settings(void);
const gs_dataset *fault_tokens(void);
const gs_dataset *fault_images(void);
const gs_dataset *fault_numbers(void);
/* Batches of 63 samples, from 126 of fault_numbers: all batches are full, and 3 workers get equal parts. */
void fault_make_even(gs_settings *);
void fault_sets_free(void);
