/* The functions that replace real ones; the linker determines their names. */
#pragma once

#include "parallel/schedule.h"
#include "tests/faults/faults.h"

#define WRAP(type, name, ...)                                                                                \
    type __real_##name(__VA_ARGS__);                                                                         \
    type __wrap_##name(__VA_ARGS__);

WRAP(gs_status, gs_worker_create, gs_worker *, const gs_settings *, const char *, gs_comm *, int, gs_scaling,
     const gs_dataset *, const gs_dataset *)
WRAP(gs_status, gs_device_open, const char *, int, gs_device **)
WRAP(gs_status, gs_begin_training, gs_worker *)
WRAP(gs_status, gs_loader_create, const gs_dataset *, const gs_schedule *, const gs_augment *, uint64_t,
     double, gs_loader **)
WRAP(void, gs_epoch_order, uint64_t, uint64_t, size_t, uint32_t *)
WRAP(gs_status, gs_augment_gather, const gs_augment *, const gs_dataset *, uint64_t, uint64_t,
     const uint32_t *, size_t, void *, void *)
WRAP(gs_status, gs_worker_next, gs_worker *, gs_pass *)
WRAP(gs_status, gs_instructions_create, const gs_pipeline_schedule *, const gs_pipeline *, int,
     gs_instructions *)
WRAP(gs_status, gs_model_backward, gs_model *, const gs_pass *, gs_mem, gs_mem)
WRAP(void, gs_batch_norm_begin, gs_worker *, gs_pass *)
WRAP(gs_status, gs_sync_sum, gs_sync *, gs_device *, gs_mem, size_t)
WRAP(gs_status, gs_optimizer_update, gs_optimizer *, double)
WRAP(gs_status, gs_optimizer_clip_held, gs_optimizer *, double, const gs_held *, bool *)
WRAP(gs_status, gs_norm, gs_device *, gs_mem, size_t, double *)
WRAP(float, gs_lr_of_step, const gs_lr_rates *, uint64_t)
WRAP(gs_status, gs_state_restore, gs_worker *)
WRAP(gs_status, gs_call_run, gs_comm *, const gs_call *, const void *, void *)

gs_status fault_stale(gs_optimizer *, double samples, gs_status (*update)(gs_optimizer *, double));
void fault_round_weights(gs_worker *);
