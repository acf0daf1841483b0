/* Which settings are allowed, and which go together, before anything is computed; what follows from them. */
#pragma once

#include "train/train.h"

/* GS_E_USAGE: a setting that is none, such as a number out of its option's range. Of any run, and before anything else
 * reads the settings: a program may have put there what the command line would have refused. */
gs_status gs_check_each_setting(const gs_settings *);

/* GS_E_USAGE: settings that do not go together. What can be known before the workers have met... */
gs_status gs_check_settings(const gs_settings *);

/* ... and what depends on how many there are, and on the training set. */
gs_status gs_check_workers(const gs_settings *, const gs_dataset *train_set, int workers);
/* Of --slow and --jitter: is there each worker? */
gs_status gs_check_pauses(const gs_settings *, int workers);

/* GS_E_USAGE: a number is set that the optimiser does not take, such as Adam with --momentum. */
gs_status gs_check_optimizer(const gs_settings *);

/* The help of an option: of a number that optimisers take, with their names and defaults behind and before `help`,
 * "lars: momentum; by default 0.9". Not for several threads at once. */
const char *gs_optimizers_help(const char *option, const char *help);

/* Two settings that do not go together, and why the first one does not allow the second. */
typedef struct gs_conflict {
    const char *option, *other, *why; /* "--zero", "--bucket", "cuts the gradients among the workers" */
} gs_conflict;

/* Conflict i of all such pairs; false: no more. GS_E_USAGE: the settings have one, or an option without its choice. */
bool gs_conflict_of(int i, gs_conflict *);
gs_status gs_check_pairs(const gs_settings *);

/* ---- the layout ---- */

/* Settings that name a layout get its pipeline, tensor and zero. Doing it twice changes nothing. GS_E_USAGE: as
 * gs_layout_read; or they have another --pipeline, --tensor or --zero already. */
gs_status gs_layout_settle(gs_settings *);

/* The layout that settings, settled, give so many workers. */
gs_layout gs_layout_of(const gs_settings *, int workers);

/* GS_E_USAGE: settings->layout is for another number of workers. */
gs_status gs_layout_check_workers(const gs_settings *, int workers, const char *options);

/* In how many passes a worker goes through its part of a batch, by --accumulate, or by the micro-batches of a pipeline;
 * --exact has virtual shards instead. */
static inline int gs_passes(const gs_settings *s) {
    if (s->pipeline > 1 && !s->exact) return s->micro_batches > 0 ? s->micro_batches : 4 * s->pipeline;
    return s->accumulate > 1 && !s->exact ? s->accumulate : 1;
}

/* ---- the learning rates ---- */

/* The learning rates of a run over `samples` samples in batches of `batch`. */
gs_lr_rates gs_rates_of(const gs_settings *, size_t batch, size_t samples);

/* GS_E_USAGE: these rates do not suit a training set of so many samples. */
gs_status gs_check_rates(const gs_settings *, size_t samples);
