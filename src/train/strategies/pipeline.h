/* A worker of a pipeline: pipeline.c has what it is, pipeline_run.c what it executes. */
#pragma once

#include "optim/optimizer.h"
#include "train/stages.h"
#include "train/train.h"

/* A micro-batch on its way through a chunk: a stage of the model with activations of its own, the input that came and
 * the gradient of the output that came. The weights and the gradients are the worker's. */
typedef struct gs_stage_slot {
    gs_model *model;
    gs_mem x, dy; /* messages that came; GS_NONE: none come */
    gs_mem y, dx; /* what forward and backward gave: places in the model's buffers */
} gs_stage_slot;

/* Neighbouring layers of the model, on this worker. Micro-batch k is in slot k % slots; between two steps slot 0 is
 * that of an evaluation. */
typedef struct gs_stage_chunk {
    int run;         /* of the whole model: chunk x p + stage */
    gs_shard params; /* what it has of the worker's arrays, where units are whole */
    const gs_partition_state *state;
    int slots;
    gs_stage_slot *slot;
    bool has_dw, has_state; /* a backward, a forward of this step has written them: the next one adds */
} gs_stage_chunk;

/* A message that came before another one that was wanted first. */
typedef struct gs_kept_message {
    gs_instruction sent;
    struct gs_kept_message *next;
    unsigned char data[];
} gs_kept_message;

/* Seconds of some steps. */
typedef struct gs_stage_times {
    double span; /* on stage 0: from the first forward of a step to its last backward; on the others 0 */
    double seconds
        [2][GS_RUNS]; /* of the forward and of the backward passes of each run; 0 for other stages' runs */
} gs_stage_times;

/* For a report of what the stages waited. */
typedef struct gs_stage_record {
    gs_stage_times all, last; /* of all steps, but for the first if there are others; of the last one */
    size_t steps;
    bool in_step; /* `last` has begun: */
    double began;
} gs_stage_record;

typedef struct gs_pipeline_worker {
    gs_stages cut;
    int stage;
    gs_instructions *list; /* [p]: those of all stages; this worker executes list[stage] */
    size_t *sent; /* [p]: how many instructions of that list are past, as messages to here have shown */
    gs_kept_message *kept;
    gs_stage_chunk *chunk;   /* [v] */
    const gs_partition *own; /* the worker's */
    gs_input *input;         /* [inputs]: samples and targets of micro-batch k in [k % inputs] */
    int inputs;
    gs_micro_batch *micro_batch; /* [m]: those of this step; n 0: an empty one */
    int filled;                  /* how many the loader has */
    gs_stage_record record;
} gs_pipeline_worker;

/* ---- pipeline.c ---- */

/* The table that two runs use, where the layers of this worker find it. */
const gs_param *gs_stage_table(const gs_pipeline_worker *);

/* Write down a pass of this step that has just ended. */
void gs_stage_record_pass(gs_pipeline_worker *, const gs_instruction *, double start);

/* How long the stages waited, by cause, from the sums over all stages of one or more pipelines. GS_E_USAGE: a deadlock;
 * GS_E_MEMORY. */
gs_status gs_bubble_of(const gs_pipeline *, const gs_instructions *lists, const gs_stage_times *,
                       gs_bubble *out);

/* ---- pipeline_run.c ---- */

/* Execute the list of this stage up to the sum: dw of its layers, over the micro-batches of this pipeline. */
gs_status gs_stage_run(gs_worker *, gs_pipeline_worker *);

/* The messages after the update. */
gs_status gs_stage_run_after(gs_worker *, gs_pipeline_worker *);
