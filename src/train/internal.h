/* What the files of src/train/ share, besides what train.h and strategy.h tell everyone. */
#pragma once

#include <sched.h>
#include "core/busy.h"
#include "core/shard.h"
#include "model/safetensors.h"
#include "train/strategy.h"

/* In how many passes a worker goes through its part of a batch, by --accumulate, or by the micro-batches of a pipeline;
 * --exact has virtual shards instead. */
static inline int gs_passes(const gs_settings *s) {
    if (s->pipeline > 1 && !s->exact) return s->micro_batches > 0 ? s->micro_batches : 4 * s->pipeline;
    return s->accumulate > 1 && !s->exact ? s->accumulate : 1;
}

/* Samples of a global batch that are computed together: the groups of --batch-norm ghost:G. */
static inline size_t gs_together(const gs_settings *s) {
    return s->batch_norm.over == GS_BATCH_NORM_GHOST ? s->batch_norm.group : 1;
}

/* ---- memory.c ---- */

/* Book in the ledger of the worker's device what lies on the host: on cpu that is the device's memory too. */
gs_status gs_book_host(gs_worker *, gs_memory_kind, void *memory, size_t bytes);
/* malloc, and booked; in a dry run no memory. It may be freed with free when the worker goes. NULL: there is none. */
void *gs_host_alloc(gs_worker *, gs_memory_kind, size_t bytes);

/* ---- worker.c ---- */

/* What its steps need: what strategy, reducer and tensor group keep, and worker->sync. */
gs_status gs_prepare_steps(gs_worker *);

/* ---- dry_run.c ---- */

/* gs_device_open for a worker: in a dry run it computes nothing. */
gs_status gs_worker_device(const gs_settings *, const char *name, int threads, gs_device **out);

/* gs_jobs_create for a worker: in a dry run there is no thread. */
struct gs_jobs;
gs_status gs_worker_jobs(const gs_worker *, int room, struct gs_jobs **out);

/* ---- evaluate.c ---- */

/* Bytes of the outputs of all layers for one sample. */
gs_status gs_output_bytes(const char *model, gs_shape in, double *bytes);

/* `usual` samples, or so many halves of it that each having `bytes` bytes, they have at most `most`; at least 1. */
size_t gs_samples_within(double most, size_t usual, double bytes);

/* How many samples inference handles at once. It follows from the model alone, whatever the number of
 * workers, since how a set is cut decides the bits of its loss. */
gs_status gs_eval_block(const char *model, gs_shape in, size_t *block);

/* Of so many blocks of the test set, those that this worker goes through. */
gs_shard gs_eval_blocks(const gs_worker *, size_t blocks);

/* ---- connect.c ---- */

/* Is each device of this list cpu? */
bool gs_devices_are_cpu(const char *devices);

/* The CPUs of worker i of this process, which has `local` workers. Returns how many; 0: it is not bound. Ask before a
 * worker is bound. Workers are bound if settings->bind says so, there is more than one, and each has a CPU for each of
 * its threads. Workers on OpenCL devices are not, since OpenCL has threads of its own. Nor are those of processes that
 * `gradsum launch` did not start: mpirun has bound them, or was told not to. */
int gs_worker_share(const gs_settings *, int i, int local, cpu_set_t *share);

/* Connect this process with the others of settings->processes, of which there are some. *step: from which step it goes
 * on, 0 from the beginning, -1 without --resume; then rank 0's. */
gs_status gs_connect_processes(const gs_settings *, const char *purpose, int64_t *step, gs_comm **out);

/* Connect the `local` workers of this process with each other and, over settings->processes, with those of others.
 * `comms` has an entry for each, NULL at first; what is there after a failure is to be freed. purpose: what the
 * processes were started for, which must be the same for all of them. agree: called when the processes are connected;
 * of a single process with NULL. */
gs_status gs_connect_workers(const gs_settings *, const char *purpose, int local,
                             gs_status (*agree)(void *context, gs_comm *processes), void *context,
                             gs_comm **comms);

/* ---- prepare.c ---- */

/* *set: the caller's, or what was read from files into *loaded, which the caller frees. GS_E_USAGE, or as
 * gs_dataset_load. */
gs_status gs_open_set(const gs_settings *, gs_split, gs_dataset **loaded, const gs_dataset **set);

/* "gpt" -> "gpt 65", where the data are a text of 65 different tokens: settings->model becomes *made, which the caller
 * frees; NULL: it stays as it was. */
gs_status gs_settle_model(gs_settings *, const gs_dataset *, char **made);

/* Do the targets of the set suit the outputs of settings->model and the loss? GS_E_USAGE, GS_E_FORMAT, GS_E_SHAPE. */
gs_status gs_check_set(const gs_settings *, const gs_dataset *);

/* What the file settings->load says of itself, and its model where settings->model does not name one (it lives as
 * long as *saved); of an image folder, the size that the model takes. GS_E_FORMAT: neither names a model, or the file's
 * is not a model text; GS_E_USAGE: settings->folder.size is another one. */
gs_status gs_read_saved(gs_settings *, gs_weights_info *);

/* Add to *r the files of the set that some rank could not decode, and whose place others took. All workers call it:
 * each process knows its own. */
gs_status gs_count_skipped(gs_comm *, const gs_dataset *, gs_result *r);

/* ---- settings.c ---- */

/* GS_E_USAGE: a setting that is none, such as a number out of its option's range. Of any run, and before anything else
 * reads the settings: a program may have put there what the command line would have refused. */
gs_status gs_check_each_setting(const gs_settings *);

/* GS_E_USAGE: settings that do not go together. What can be known before the workers have met... */
gs_status gs_check_settings(const gs_settings *);

/* ... and what depends on how many there are, and on the training set. */
gs_status gs_check_workers(const gs_settings *, const gs_dataset *train_set, int workers);
gs_status gs_check_pauses(const gs_settings *,
                          int workers); /* of --slow and --jitter: is there each worker? */

/* GS_E_USAGE: a number is set that the optimiser does not take, such as Adam with --momentum. */
gs_status gs_check_optimizer(const gs_settings *);

/* ---- state.c, with settings->resume ---- */

/* GS_E_USAGE: settings->model is not that of the file. To be called before the weights are looked at, which would not
 * fit another model either. */
gs_status gs_state_check_model(const gs_settings *, const gs_weights_info *, gs_shape in);

/* Checks all else, and reads the vectors. GS_E_USAGE, GS_E_SHAPE, GS_E_FORMAT, GS_E_MEMORY. */
gs_status gs_state_check_run(const gs_settings *, const gs_weights_info *, const gs_dataset *train_set,
                             struct gs_state *);

/* ---- options/agreement.c ---- */

/* Checksum of all samples and targets. */
uint32_t gs_data_checksum(const gs_dataset *);

/* ---- batch_norm.c ---- */

/* GS_E_USAGE: the model has a batch_norm, and its samples are not together as settings->batch_norm needs them. */
gs_status gs_check_batch_norm(const gs_settings *, const gs_dataset *train_set, int workers);

/* The most samples that a worker computes at once: micro_batch, or what is usual; fewer where samples are large. This
 * follows from the model alone, whatever the number of workers, since the cut decides the bits of the gradients. Where
 * a layer takes statistics of a batch, the cut decides more than that: there the size of samples does not count, and
 * with statistics of the global batch the limit is higher. `in`: the shape of a sample. */
gs_status gs_largest_micro_batch(const gs_settings *, gs_shape in, size_t *most);

/* Do its passes share statistics with other workers, or parts? */
bool gs_batch_norm_is_shared(const gs_worker *);

/* What a pass of this worker needs for batch_norm. */
void gs_batch_norm_begin(gs_worker *, gs_pass *);

/* ---- settings.c: the learning rates ---- */

/* The learning rates of a run over `samples` samples in batches of `batch`. */
gs_lr_rates gs_rates_of(const gs_settings *, size_t batch, size_t samples);

/* GS_E_USAGE: these rates do not suit a training set of so many samples. */
gs_status gs_check_rates(const gs_settings *, size_t samples);

/* ---- worker_report.c ---- */

/* What each worker has done since then, in `seconds` of training: one report for each, to be freed with free(). All
 * workers call it. */
gs_status gs_report_workers(gs_worker *, const gs_measured *since, double seconds, gs_busy *busy,
                            gs_worker_report **out);

/* The devices of all workers, in the same way. */
gs_status gs_report_devices(gs_worker *, gs_device_report **out);

/* What the steps of a run took: times, messages, and what strategy and reducer report. All workers call it. */
gs_status gs_report_steps(gs_worker *, gs_result *);

/* Has each worker a part of the weights alone? Then all take part where they are put together (gs_partition_weights).
 *  */
static inline bool gs_weights_are_divided(const gs_model *m) {
    return m->weights_apart > 0 || m->undivided;
}

/* ---- diverged.c: GS_E_DIVERGED, or with --keep-going nothing ---- */

/* The loss of step `step` (from 1), as this worker knows it. True if this one or an earlier one is not finite: the run
 * must end. */
bool gs_watch_loss(gs_worker *, double loss, uint64_t step);

/* Checks what was read from settings->load. Never fails; if the run diverges, the message then says that the file is to
 * blame. */
void gs_look_at_loaded(gs_worker *, const float *weights);

/* On any worker: checks the weights that the run ends with. */
gs_status gs_check_weights(const gs_worker *, const float *weights);

/* The same in inference: the loss on the test set, which is the same on all workers, and a worker's logits of samples
 * first .. first + samples - 1. */
gs_status gs_check_inferred_loss(gs_worker *, double loss);
gs_status gs_check_logits(const gs_worker *, const float *logits, size_t first, size_t samples);
