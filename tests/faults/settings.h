/* How the runs with planted mistakes, and the correct runs, differ from fault_settings(). */
#pragma once

#include "train/train.h"

typedef struct fault_run {
    const struct fault_run *base; /* differs from this run; NULL: from fault_settings() */
    int workers;                  /* on cpu */
    const char *model, *sync, *pipeline_cut, *pipeline_schedule;
    const gs_dataset *(*set)(void);
    int zero, pipeline, micro_batches, accumulate, bucket, tensor, epochs, ghost, recompute;
    bool sequence, exact, cosine;
    size_t batch, micro_batch;
    uint64_t steps, seed;
    float clip, weight_decay, label_smoothing;
    unsigned offload;
    gs_wire wire;
    gs_precision precision;
    const gs_optimizer_ops *optimizer;
} fault_run;

/* Applies every field that is not 0. */
void fault_apply(const fault_run *, gs_settings *);

extern const fault_run settings_one, settings_two, settings_three, settings_four, settings_two_epochs,
    settings_images, settings_zero1, settings_tied_pipeline, settings_two_dropout,
    settings_accumulate_dropout, settings_two_norm, settings_two_relu, settings_two_tied, settings_accumulate,
    settings_accumulate_two, settings_accumulate_three, settings_pieces, settings_smoothed, settings_clip_two,
    settings_clip_three, settings_clip_zero, settings_clip_f16, settings_f16, settings_scheduled_accumulate,
    settings_scheduled_two, settings_adam, settings_adamw, settings_decay, settings_decay_three,
    settings_lamb_zero, settings_gpt, settings_resnet, settings_pool;
