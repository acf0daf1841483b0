/* Checks, before anything is computed, which settings are allowed and work together; and derives values from them. */
#pragma once

#include "train/train.h"

/* For any run, before anything else reads the settings: a program may have set values that the command line would
 * refuse. GS_E_USAGE: a setting is invalid, such as a number outside its option's range. */
gs_status gs_check_each_setting(const gs_settings *);

/* GS_E_USAGE: settings do not work together. This checks what can be known before the workers are connected ... */
gs_status gs_check_settings(const gs_settings *);

/* ... and this the rest, once the number of workers and the training set are known. */
gs_status gs_check_workers(const gs_settings *, const gs_dataset *train_set, int workers);
/* GS_E_USAGE: --jitter names a worker that does not exist. */
gs_status gs_check_pauses(const gs_settings *, int workers);

/* GS_E_USAGE: a hyper-parameter is set that the optimiser does not take, such as --momentum for Adam. */
gs_status gs_check_optimizer(const gs_settings *);

/* An option's help. For a hyper-parameter, the names of the optimisers that take it and their defaults are appended:
 * "lars: momentum; by default 0.9". Not thread-safe. */
const char *gs_optimizers_help(const char *option, const char *help);

/* Two settings that do not work together, and why the first excludes the second. */
typedef struct gs_conflict {
    const char *option, *other, *why; /* "--zero", "--bucket", "divides the gradients among the workers" */
} gs_conflict;

/* Conflict i of the table; false: there are no more. gs_check_pairs returns GS_E_USAGE for a conflict, or for an option
 * set without the choice that it requires. */
bool gs_conflict_of(int i, gs_conflict *);
gs_status gs_check_pairs(const gs_settings *);

/* True if every device in the list is cpu. */
bool gs_devices_are_cpu(const char *devices);

/* ---- the layout ---- */

/* Set pipeline, tensor and zero from settings->layout, if set; a second call changes nothing. GS_E_USAGE: the layout is
 * invalid (gs_layout_read), or a different --pipeline, --tensor or --zero is set. */
gs_status gs_layout_settle(gs_settings *);

/* The layout of `workers` workers with these settings, after gs_layout_settle. */
gs_layout gs_layout_of(const gs_settings *, int workers);

/* GS_E_USAGE: settings->layout requires a different number of workers. */
gs_status gs_layout_check_workers(const gs_settings *, int workers, const char *options);

/* The number of passes in which a worker computes its part of a batch: --accumulate, or the number of a pipeline's
 * micro-batches; 1 with --exact, where virtual shards replace both. */
static inline int gs_passes(const gs_settings *s) {
    if (s->pipeline > 1 && !s->exact) return s->micro_batches > 0 ? s->micro_batches : 4 * s->pipeline;
    return s->accumulate > 1 && !s->exact ? s->accumulate : 1;
}

/* ---- the learning rates ---- */

/* The learning rates of a run over `samples` samples in batches of `batch`. */
gs_lr_rates gs_rates_of(const gs_settings *, size_t batch, size_t samples);

/* GS_E_USAGE: with `samples` samples the warm-up lasts the whole run, so that a falling schedule would never begin. */
gs_status gs_check_rates(const gs_settings *, size_t samples);
