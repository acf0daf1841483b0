/* Before a run: its settings, its data sets, and what can be checked without a worker. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/usable.h"
#include "data/text_set.h"
#include "io/file.h"
#include "train/internal.h"
#include "train/run.h"
#include "train/state.h"

gs_status gs_run_check_sizes(const gs_run *run, const gs_settings *s, int workers) {
    size_t count = run->train_set->count, batch = s->batch;
    if (batch > count)
        return gs_fail(GS_E_USAGE,
                       "--batch %zu is larger than the training set, which has %zu sample%s (--batch all)",
                       batch, count, gs_s(count));
    const int spread = gs_replica_size(s);
    if (workers % spread != 0) return GS_OK; /* gs_check_workers says so, or others are yet to come */
    workers = workers > spread ? workers / spread : 1; /* that have samples of their own */
    if ((size_t)workers > count)
        return gs_fail(GS_E_USAGE, "there are %d workers, but only %zu sample%s to train on", workers, count,
                       gs_s(count));
    if (batch && (size_t)workers > batch)
        return gs_fail(GS_E_USAGE, "--batch %zu is the global batch: it cannot be divided among %d workers",
                       batch, workers);
    size_t share = (batch ? batch : count) / (size_t)workers;
    if ((size_t)gs_passes(s) > share)
        return gs_fail(GS_E_USAGE, "--%s %d: more passes than the %zu sample%s in a %s's part of the batch",
                       s->pipeline > 1 ? "micro-batches" : "accumulate", gs_passes(s), share, gs_s(share),
                       s->pipeline > 1 ? "pipeline"
                       : spread > 1    ? "group"
                                       : "worker");
    return GS_OK;
}

static gs_status check_by_channel(const gs_run *run, const char *name, const gs_by_channel *given,
                                  const gs_by_channel *used) {
    const gs_dataset *set = run->test_set;
    const char *where = given->count ? "" : run->settings.load;
    if (gs_by_channel_fits(used, set->shape.c)) return GS_OK;
    return gs_fail(given->count ? GS_E_USAGE : GS_E_SHAPE,
                   "%s%s%s has %d numbers, one for each channel, but the images of %s have %d channel%s",
                   where, given->count ? "--" : ": ", name, used->count, set->name, set->shape.c,
                   gs_s((unsigned)set->shape.c));
}

static gs_status check_scaling(const gs_run *run) {
    const gs_settings *s = &run->settings;
    const gs_dataset *set = run->train_set ? run->train_set : run->test_set;
    if (set->text && (s->mean.count || s->std.count))
        return gs_fail(GS_E_USAGE, "%s is a text: --mean and --std are for images", set->name);
    if (set->inputs && (s->mean.count || s->std.count))
        return gs_fail(GS_E_USAGE,
                       "%s holds floats, which are taken as they are: --mean and --std are for bytes",
                       set->name);
    if (set->inputs) return GS_OK;
    GS_TRY(check_by_channel(run, "mean", &run->settings.mean, &run->scaling.mean));
    return check_by_channel(run, "std", &run->settings.std, &run->scaling.std);
}

gs_status gs_run_plan_to_save(const gs_run *run, gs_model **plan) {
    const gs_settings *s = &run->settings;
    GS_TRY(gs_model_create(NULL, &(gs_model_wishes){.text = s->model, .in = run->train_set->shape}, plan));
    gs_status status = gs_context(gs_names_rename(*plan, s->names), "--names");
    if (status != GS_OK) gs_model_free(*plan);
    return status;
}

/* From a folder of checkpoints the newest that is whole is taken. */
static gs_status find_checkpoint(gs_run *run) {
    const gs_observer *o = run->observer;
    char note[GS_CHECKPOINT_NOTE];
    const bool first = !run->settings.processes || run->settings.processes->rank == 0;
    if (!gs_checkpoint_is_folder(run->settings.resume)) return gs_checkpoint_check_file(run->settings.resume);
    GS_TRY(gs_context(gs_checkpoint_find(run->settings.resume, &run->resume, note), "--resume"));
    if (*note && first && o && o->note) o->note(o->context, note);
    run->settings.resume = run->resume;
    return GS_OK;
}

/* The file is the one of the weights, too. */
static gs_status read_state(gs_run *run) {
    gs_settings *s = &run->settings;
    s->begin = NULL;
    if (!s->resume) return GS_OK;
    GS_TRY(find_checkpoint(run));
    GS_TRY(gs_state_read(s->resume, &run->state));
    s->load = s->resume;
    s->begin = run->state;
    return GS_OK;
}

/* Processes that mpirun, torchrun or Slurm has given CPUs of their own share none. */
static void count_threads(gs_run *run) {
    const gs_usable may = gs_usable_here();
    const gs_rendezvous *p = run->settings.processes;
    const bool apart = p && (p->own_cpus || (p->engine && may.cpus < sysconf(_SC_NPROCESSORS_ONLN)));
    const int nodes = p && p->nodes > 0 ? p->nodes : 1;
    char name[48];
    run->beside = p && p->size > 1 && !apart ? (p->size + nodes - 1) / nodes : 1;
    run->busy = (gs_busy){.cpus = may.cpus, .quota = may.quota};
    for (int i = 0; i < run->local; i++)
        if (gs_devices_name(run->settings.devices, i, name) == GS_OK && strcmp(name, "cpu") == 0)
            run->busy.threads += run->threads * run->beside;
}

gs_status gs_run_prepare(gs_run *run) {
    gs_settings *s = &run->settings;
    if (s->train_set) s->data = s->train_set->name; /* for messages and logs */
    GS_TRY(gs_check_each_setting(s));
    if (run->job == JOB_TRAIN) GS_TRY(gs_layout_settle(s));
    if (run->job == JOB_TRAIN) GS_TRY(gs_check_settings(s));
    if (run->job == JOB_TRAIN) GS_TRY(read_state(run));
    if (s->load) GS_TRY(gs_read_saved(s, &run->saved));
    if (!s->model) s->model = "mlp";
    if (run->job == JOB_TRAIN) {
        GS_TRY(gs_open_set(s, GS_TRAIN, &run->loaded[GS_TRAIN], &run->train_set));
        GS_TRY(gs_settle_model(s, run->train_set, &run->model));
        run->scaling = s->load ? run->saved.scaling : gs_dataset_scaling(run->train_set);
    } else {
        run->scaling = run->saved.scaling;
    }
    if (s->mean.count) run->scaling.mean = s->mean;
    if (s->std.count) run->scaling.std = s->std;
    GS_TRY(gs_open_set(s, GS_TEST, &run->loaded[GS_TEST], &run->test_set));
    if (!run->model) GS_TRY(gs_settle_model(s, run->test_set, &run->model));
    if (s->resume) GS_TRY(gs_state_check_model(s, &run->saved, run->test_set->shape));
    if (s->load) GS_TRY(gs_check_saved(s, &run->saved, run->test_set));
    if (run->job == JOB_TRAIN) {
        GS_TRY(gs_check_sets_alike(s, run->train_set, run->test_set));
        GS_TRY(gs_check_set(s, run->train_set));
        GS_TRY(gs_augment_check(&s->augment, run->train_set));
        if (s->resume) GS_TRY(gs_state_check_run(s, &run->saved, run->train_set, run->state));
    }
    GS_TRY(gs_check_set(s, run->test_set));
    GS_TRY(check_scaling(run));
    run->local = gs_devices_count(s->devices);
    run->threads = gs_worker_threads(s, run->local);
    count_threads(run);
    run->worker = calloc((size_t)run->local, sizeof *run->worker);
    if (!run->worker) return gs_fail(GS_E_MEMORY, "no memory for %d workers", run->local);
    for (int i = 0; i < run->local; i++) {
        run->worker[i].run = run;
        GS_TRY(gs_devices_name(s->devices, i, run->worker[i].device));
        run->worker[i].cpus = gs_worker_share(s, i, run->local, &run->worker[i].share);
    }
    if (run->job == JOB_TRAIN) {
        GS_TRY(gs_run_check_sizes(run, s, run->local));
        if (!run->state || !gs_state_has_ended(run->state, s, NULL, 0))
            GS_TRY(gs_check_rates(s, run->train_set->count));
    }
    if (!s->save) return GS_OK;
    GS_TRY(gs_file_check_target(s->save, GS_FILE_WEIGHTS));
    GS_TRY(gs_checkpoint_check_save(s->save));
    gs_model *plan; /* have all its tensors the names that are wanted? */
    GS_TRY(gs_run_plan_to_save(run, &plan));
    gs_model_free(plan);
    return GS_OK;
}

void gs_run_free(gs_run *run) {
    for (int i = 0; i < run->local && run->worker; i++) {
        gs_comm_free(run->worker[i].comm);
        gs_result_free(&run->worker[i].result);
    }
    free(run->worker);
    gs_state_free(run->state);
    gs_dataset_free(run->loaded[GS_TRAIN]);
    gs_dataset_free(run->loaded[GS_TEST]);
    gs_saved_free(&run->saved);
    free(run->model);
    free(run->resume);
    gs_checkpoint_unlock(run->settings.checkpoint, run->lock);
    gs_checkpoint_let_go();
}
