/* A worker of a pipeline: pipeline.c makes it, pipeline_run.c executes its instructions. */
#pragma once

#include "optim/optimizer.h"
#include "train/stages.h"
#include "train/train.h"

/* A micro-batch on its way through a chunk: a stage of the model with its own activations, the input and the gradient
 * of the output that it received. The weights and the gradients are the worker's. */
typedef struct gs_stage_slot {
    gs_model *model;
    gs_mem x, dy; /* received; GS_NONE at the ends of the pipeline */
    gs_mem y, dx; /* results of forward and backward, in the model's buffers */
} gs_stage_slot;

/* Neighbouring layers of the model, on this worker. Micro-batch k is in slot k % slots; between two steps an evaluation
 * uses slot 0. */
typedef struct gs_stage_chunk {
    int run;         /* of the whole model: chunk x p + stage */
    gs_shard params; /* its range of the worker's arrays of whole units */
    const gs_partition_state *state;
    int slots;
    gs_stage_slot *slot;
    bool has_dw, has_state; /* a pass of this step has written them: the next one adds */
} gs_stage_chunk;

/* A message that arrived before it was wanted. */
typedef struct gs_kept_message {
    gs_instruction sent;
    struct gs_kept_message *next;
    unsigned char data[];
} gs_kept_message;

/* Seconds of some steps. */
typedef struct gs_stage_times {
    double span; /* on stage 0: from the first forward of a step to its last backward; on the others 0 */
    double seconds[2][GS_RUNS]; /* of forward, of backward passes of each run; 0 for other stages' runs */
} gs_stage_times;

/* For the report of how long the stages waited. */
typedef struct gs_stage_record {
    gs_stage_times all, last; /* of all steps, except the first if there are others; of the last one */
    size_t steps;
    bool in_step; /* `last` has begun, */
    double began; /* at this time */
} gs_stage_record;

typedef struct gs_pipeline_worker {
    gs_stages cut;
    int stage;
    gs_instructions *list; /* [p]: those of all stages; this worker executes list[stage] */
    size_t *sent;          /* [p]: instructions of that list known to be done, from messages to this stage */
    gs_kept_message *kept;
    gs_stage_chunk *chunk;   /* [v] */
    const gs_partition *own; /* the worker's */
    gs_input *input;         /* [inputs]: samples and targets of micro-batch k in [k % inputs] */
    int inputs;
    gs_micro_batch *micro_batch; /* [m]: those of this step; n 0: an empty one */
    int filled;                  /* those that the loader delivers */
    gs_stage_record record;
} gs_pipeline_worker;

/* ---- pipeline.c ---- */

/* The table that two runs use, in this worker's layers. */
const gs_param *gs_stage_table(const gs_pipeline_worker *);

/* Record a pass of this step that has just ended. */
void gs_stage_record_pass(gs_pipeline_worker *, const gs_instruction *, double start);

/* How long the stages waited, by cause, from sums over all stages of one or more pipelines. GS_E_USAGE: a deadlock;
 * GS_E_MEMORY. */
gs_status gs_bubble_of(const gs_pipeline *, const gs_instructions *lists, const gs_stage_times *,
                       gs_bubble *out);

/* ---- pipeline_run.c ---- */

/* Execute this stage's list up to the sum: dw of its layers, over the micro-batches of this pipeline. */
gs_status gs_stage_run(gs_worker *, gs_pipeline_worker *);

/* The messages after the update. */
gs_status gs_stage_run_after(gs_worker *, gs_pipeline_worker *);
