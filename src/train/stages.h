/* How --pipeline divides a model: into stages, each of one or more runs of layers, with a schedule for each step. */
#pragma once

#include "parallel/cut.h"
#include "parallel/schedule.h"
#include "train/worker.h"

typedef struct gs_stages {
    const gs_pipeline_schedule *schedule;
    gs_pipeline shape;
    int runs, first[GS_RUNS + 1];
    gs_tied_runs tied;
} gs_stages;

/* Read "gpipe", "1f1b", "eager", "interleaved" or "interleaved:V"; NULL: 1f1b. GS_E_USAGE. */
gs_status gs_pipeline_read(const char *text, const gs_pipeline_schedule **schedule, int *chunks);

/* The number of samples in the largest micro-batch of a step. */
size_t gs_pipeline_micro_batch(const gs_settings *, size_t batch, int workers);

/* Cut a model; a tensor group's shard of a model is cut at the same layers as the whole model. GS_E_USAGE. */
gs_status gs_stages_cut(const gs_settings *, const gs_model *, int micro_batches, gs_stages *);

/* Find the stages of a worker's pipeline. */
gs_status gs_stages_of(const gs_worker *, gs_stages *);
