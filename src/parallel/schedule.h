/* Pipeline schedules: lists of instructions that say which stage computes which micro-batch, and when.
 *
 * A pipeline has p stages. Each is a run of the model's layers, on a separate worker. A batch is cut into m
 * micro-batches, which follow each other through the stages: forward from first to last, backward from last to first.
 * At the end of the batch all stages sum and update (no weight is ever stale). In a stage, a micro-batch is alive from
 * its forward to its backward. With p = 3, m = 4, and a backward as long as two forwards:
 *
 *     gpipe    stage 0   0 1 2 3 . . . . . . 0 0 1 1 2 2 3 3     all forward, then all backward:
 *              stage 1   . 0 1 2 3 . . . 0 0 1 1 2 2 3 3 . .     m micro-batches are alive in each stage
 *              stage 2   . . 0 1 2 3 0 0 1 1 2 2 3 3 . . . .
 *
 *     1f1b     stage 0   0 1 2 . . . . 0 0 3 1 1 . 2 2 . 3 3     one forward, one backward: as fast as gpipe,
 *              stage 1   . 0 1 . . 0 0 2 1 1 3 2 2 . 3 3 . .     but at most p - s are alive in stage s
 *              stage 2   . . 0 0 0 1 1 1 2 2 2 3 3 3 . . . .
 *
 *     interleaved        each stage holds v short runs (chunks) instead of a long one: stage s holds the runs
 *                        s, p + s, 2 p + s, ... A micro-batch passes all stages v times, and a stage waits for a
 *                        short run instead of a long one; at most 2 (p - 1 - s) + (v - 1) p + 1 passes are alive (all
 *                        m v of them if m = p)
 *
 *     eager              1f1b in which stage s runs 2 (p - 1 - s) micro-batches ahead instead of p - 1 - s. In 1f1b
 *                        two neighbours need each other's result at the same time, so delaying one delays both.
 *                        In eager, activations arrive early and a stage waits only for gradients; up to
 *                        2 (p - 1 - s) + 1 micro-batches are alive in stage s
 *
 * The dots are the bubble: time in which stages wait. If all stages are equally fast, its share of the batch's time is
 *
 *     gpipe, 1f1b, eager   (p - 1) / (m + p - 1)
 *     interleaved          (p - 1) / (v m + p - 1)
 *
 * Messages may arrive in an order other than the one in which their receiver wants them: with chunks, a stage may send
 * both activations and gradients to the same neighbour. A receive then takes messages in the order of the sender's list
 * until the wanted one arrives, and keeps the others.
 *
 * An instruction names a message's sender and receiver by their stages. A worker only has to execute its list in order;
 * the lists can also be drawn, tested, and run in virtual time (virtual_time.h).
 *
 * Sources: Huang et al., "GPipe: efficient training of giant neural networks using pipeline parallelism" (NeurIPS
 * 2019); Narayanan et al., "PipeDream: generalized pipeline parallelism for DNN training" (SOSP 2019), for 1f1b;
 * Narayanan et al., "Efficient large-scale language model training on GPU clusters using Megatron-LM" (SC 2021), for
 * interleaved; Zhuang et al., "On optimizing the communication of model parallelism" (MLSys 2023), for eager.
 * Schedules as lists: ShallowSpeed (siboehm).
 */
#pragma once

#include <stddef.h>

#include "core/error.h"

/* How the last run sends the gradient of a table that it shares with the first run (layer/tied.c). */
typedef enum gs_tied_exchange {
    GS_TIED_NONE, /* no shared table */
    GS_TIED_ONCE, /* once, after all backward passes */
    /* After each backward pass, so that the first run adds gradients in the order of an undivided model. Not allowed
     * with several chunks: messages between the last stage and the first could deadlock. */
    GS_TIED_EACH,
} gs_tied_exchange;

typedef struct gs_pipeline {
    int stages;        /* p, at least 1 */
    int micro_batches; /* m, at least 1 */
    int chunks;        /* v, the runs in each stage, at least 1; more than 1 only in a chunked schedule */
    gs_tied_exchange tied;
} gs_pipeline;

typedef enum gs_action {
    GS_DO_LOAD, /* micro-batch k: its samples on the first stage, its targets on the last, its size on all stages */
    GS_DO_RECV_ACTIVATION,
    GS_DO_FORWARD, /* in the last run: also the loss */
    GS_DO_SEND_ACTIVATION,
    GS_DO_RECV_GRADIENT,
    GS_DO_RECV_TIED, /* the table's gradient */
    GS_DO_BACKWARD,
    GS_DO_SEND_GRADIENT,
    GS_DO_SEND_TIED,
    GS_DO_SUM, /* over all pipelines */
    GS_DO_UPDATE,
    GS_DO_SEND_TABLE, /* after the update */
    GS_DO_RECV_TABLE,
    GS_ACTIONS
} gs_action;

extern const char *const gs_action_names[GS_ACTIONS]; /* "load", "receive activation", ... */

typedef struct gs_instruction {
    gs_action action;
    int micro_batch, chunk; /* 0 if not applicable */
    int peer;               /* the stage at the other end of a message */
} gs_instruction;

typedef struct gs_instructions {
    gs_instruction *list;
    size_t count, room;
} gs_instructions;

typedef struct gs_pipeline_schedule {
    const char *name;  /* the value of --pipeline-schedule */
    const char *title; /* for readers */
    bool chunked;      /* a stage may hold several chunks; p must then divide m */
    /* Calls gs_then_forward and gs_then_backward in this stage's order. The built-in ones never fail. */
    gs_status (*order)(const gs_pipeline *, int stage, gs_instructions *);
} gs_pipeline_schedule;

extern const gs_pipeline_schedule gs_gpipe, gs_1f1b, gs_interleaved, gs_eager;

/* All schedules, NULL-terminated. */
const gs_pipeline_schedule *const *gs_pipeline_schedules(void);

/* Replace schedule `name` with the caller's in gs_pipeline_schedules, and therefore for --pipeline-schedule, to try it
 * in the running framework (lessons/). NULL restores the built-in one. The schedule must live as long as it is used,
 * and is trusted: a list that omits a micro-batch, or waits for a message that is never sent, is a bug. Call this
 * before other threads start. GS_E_USAGE: no schedule is called `name`, or the new one has a different name. */
gs_status gs_pipeline_schedule_replace(const char *name, const gs_pipeline_schedule *);

/* GS_E_USAGE: a number is below 1. With several chunks also: the schedule is not chunked, there is only one stage,
 * `tied` is GS_TIED_EACH, or p does not divide m. */
gs_status gs_pipeline_check(const gs_pipeline_schedule *, const gs_pipeline *);

/* Build a stage's list; free it even after a failure. GS_E_MEMORY, or the error of the caller's schedule. */
gs_status gs_instructions_create(const gs_pipeline_schedule *, const gs_pipeline *, int stage,
                                 gs_instructions *out);
void gs_instructions_free(gs_instructions *);

enum { GS_ALL_CHUNKS = -1 };

/* The maximum number of micro-batches that are alive in this chunk at the same time. With GS_ALL_CHUNKS, the maximum
 * for all chunks together. This is not the chunks' sum: they reach their maxima at different times. */
int gs_instructions_alive(const gs_instructions *, int chunk);

/* The share of time lost to the bubble if all stages are equally fast, by the formula above. */
double gs_pipeline_bubble(const gs_pipeline *);

static inline bool gs_action_sends(gs_action a) {
    return a == GS_DO_SEND_ACTIVATION || a == GS_DO_SEND_GRADIENT || a == GS_DO_SEND_TIED ||
           a == GS_DO_SEND_TABLE;
}
static inline bool gs_action_receives(gs_action a) {
    return a == GS_DO_RECV_ACTIVATION || a == GS_DO_RECV_GRADIENT || a == GS_DO_RECV_TIED ||
           a == GS_DO_RECV_TABLE;
}

static inline bool gs_instruction_is(const gs_instruction *a, const gs_instruction *b) {
    return a->action == b->action && a->micro_batch == b->micro_batch && a->chunk == b->chunk &&
           a->peer == b->peer;
}

/* The peer's instruction that sends the message which `receive` receives. */
gs_instruction gs_instruction_sent(const gs_pipeline *, const gs_instruction *receive, int stage);

/* ---- for schedules ---- */

/* Append a pass of micro-batch k through a chunk, including its messages. */
void gs_then_forward(gs_instructions *, const gs_pipeline *, int stage, int k, int chunk);
void gs_then_backward(gs_instructions *, const gs_pipeline *, int stage, int k, int chunk);
