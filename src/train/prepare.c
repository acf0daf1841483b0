/* Preparation of a run: its settings, its data sets (from files or memory), and all checks that need no worker. */
#include <stdlib.h>
#include <unistd.h>

#include "core/text.h"
#include "core/usable.h"
#include "data/folder_set.h"
#include "data/text_set.h"
#include "io/file.h"
#include "layer/layer.h"
#include "model/model_text.h"
#include "train/settings.h"
#include "train/strategy.h"
#include "train/options/options.h"
#include "train/run.h"
#include "persist/folder.h"
#include "persist/state_file.h"

/* ---- the data ---- */

static gs_status check_folder_options(const gs_settings *s, const gs_dataset *set) {
    const char *const names[] = {"size", "loaders", "skip-broken"};
    for (int i = 0; i < 3 && !set->folder; i++)
        if (!gs_run_option_is_default(gs_run_option_named(names[i]), s))
            return gs_fail(GS_E_USAGE, "--%s is for image folders, and %s is none", names[i], set->name);
    return GS_OK;
}

/* A run may be resumed in a different folder than the one in which it began. */
static gs_status not_found_here(const gs_settings *s) {
    const char *kept = s->begin ? gs_state_option(s->begin, "data") : NULL;
    if (!kept || strcmp(kept, s->data) != 0 || !gs_dataset_is_relative(kept)) return GS_E_FILE;
    return gs_fail(
        GS_E_FILE,
        "%s; the run in %s was begun with --data %s, a path from the folder that it ran in: resume it "
        "there, or give --data",
        gs_message(), s->resume, gs_printable(kept));
}

gs_status gs_open_set(const gs_settings *s, gs_split split, gs_dataset **loaded, const gs_dataset **set) {
    if (!s->train_set != !s->test_set)
        return gs_fail(GS_E_USAGE,
                       "data from memory: there is a %s but no %s; wanted both, which may be the same",
                       s->train_set ? "train_set" : "test_set", s->train_set ? "test_set" : "train_set");
    *set = split == GS_TRAIN ? s->train_set : s->test_set;
    if (*set) return GS_OK;
    gs_status status = gs_load_set(s, split, loaded);
    if (status == GS_E_FILE) return not_found_here(s);
    GS_TRY(status);
    *set = *loaded;
    return check_folder_options(s, *set);
}

gs_status gs_load_set(const gs_settings *s, gs_split split, gs_dataset **set) {
    const gs_text_options text = {s->tokens, s->context, s->vocabulary, s->tokenizer};
    const char *of_text = s->context > 0                  ? "context"
                          : s->tokens != GS_TOKENS_UNSAID ? "tokens"
                          : s->tokenizer                  ? "tokenizer"
                                                          : NULL;
    if (!gs_text_is_at(s->data) && of_text)
        return gs_fail(GS_E_USAGE, "--%s is for a text (--data text:FILE), but the data are %s", of_text,
                       s->data);
    return gs_dataset_load_with(s->data, split, s->labels, &text, &s->folder, set);
}

/* ---- text ---- */

gs_status gs_settle_model(gs_settings *s, const gs_dataset *set, char **made) {
    *made = NULL;
    const bool bare = gs_model_is_language(s->model) && !strchr(s->model, ' '); /* "gpt", but not "gpt 96" */
    if (!set->text || !bare) return GS_OK;
    if (asprintf(made, "%s %d", s->model, set->text->vocabulary.size) < 0) {
        *made = NULL;
        return gs_fail(GS_E_MEMORY, "no memory for the name of the model %s", s->model);
    }
    s->model = *made;
    return GS_OK;
}

/* vocabulary: the size of the model's vocabulary; 0: it has no embedding. */
static gs_status check_text(const gs_settings *s, const gs_dataset *set, int vocabulary) {
    /* A step's counts are sent as floats with its gradients, and floats are exact only up to 2^24. */
    const size_t most = 1 << 24, batch = s->batch ? s->batch : set->count;
    if (vocabulary == 0)
        return gs_fail(GS_E_USAGE,
                       "%s is a text, but the model (%s) does not begin with an embedding, which takes the "
                       "numbers of its tokens",
                       set->name, s->model);
    if (batch <= most / (size_t)set->text->context) return GS_OK;
    return gs_fail(GS_E_USAGE,
                   "--batch %zu has %zu tokens, %d in a window; at most %zu tokens can be counted in a step",
                   batch, batch * (size_t)set->text->context, set->text->context, most);
}

/* ---- the model and the loss ---- */

/* Checked here because the layers' message would name only shapes. */
static gs_status check_images(const gs_settings *s, const gs_dataset *set) {
    if (set->text || set->inputs || !gs_model_is_language(s->model)) return GS_OK;
    return gs_fail(
        GS_E_USAGE,
        "%s has images, but the model (%s) takes a text: wanted --data jargon, or --data text:FILE",
        set->name, s->model);
}

gs_status gs_check_set(const gs_settings *s, const gs_dataset *set) {
    gs_model *plan;
    GS_TRY(check_images(s, set));
    gs_status fits = gs_model_create(NULL, &(gs_model_config){.text = s->model, .in = set->shape}, &plan);
    if (fits != GS_OK && set->text && gs_model_named(s->model) && !gs_model_is_language(s->model))
        return check_text(s, set, 0); /* the layers' message would name only shapes */
    GS_TRY(fits);
    int outputs = (int)gs_shape_size(plan->out), wanted = gs_model_targets(plan);
    int vocabulary = gs_layer_vocabulary(plan->net);
    gs_model_free(plan);
    if (set->text) GS_TRY(check_text(s, set, vocabulary));
    if (vocabulary > 0) GS_TRY(gs_dataset_check_tokens(set, vocabulary));
    bool targets = s->loss == GS_REGRESSION;
    if (targets != (set->targets != NULL))
        return gs_fail(
            GS_E_USAGE, "%s has %s, but this loss needs %s", set->name, set->targets ? "targets" : "labels",
            targets ? "targets: gs_dataset_from_targets" : "labels (of targets it is GS_REGRESSION)");
    int each = gs_dataset_labels_each(set);
    if (!targets && each != wanted)
        return gs_fail(GS_E_SHAPE, "%s has %d label%s for each sample, but the model answers %d", set->name,
                       each, gs_s((unsigned)each), wanted);
    if (!targets) return gs_dataset_check_labels(set, outputs / wanted);
    if (s->confusion)
        return gs_fail(GS_E_USAGE, "%s has targets: a confusion matrix needs classes", set->name);
    if (set->outputs == outputs) return GS_OK;
    return gs_fail(GS_E_SHAPE, "%s has %d target%s for each sample, but the model has %d output%s", set->name,
                   set->outputs, gs_s((unsigned)set->outputs), outputs, gs_s((unsigned)outputs));
}

gs_status gs_check_sets_alike(const gs_settings *s, const gs_dataset *train, const gs_dataset *test) {
    gs_shape a = train->shape, b = test->shape;
    if (!gs_shape_same(a, b))
        return gs_fail(GS_E_FORMAT, "%s: training images are %s, test images %s", s->data,
                       gs_shape_tuple(a).text, gs_shape_tuple(b).text);
    if (gs_dataset_is_numbers(train) != gs_dataset_is_numbers(test))
        return gs_fail(GS_E_USAGE, "%s holds %s, %s holds %s: both must hold the same", train->name,
                       train->inputs ? "floats" : "bytes", test->name, test->inputs ? "floats" : "bytes");
    return GS_OK;
}

gs_status gs_count_skipped(gs_comm *comm, const gs_dataset *set, gs_result *r) {
    if (!set || !set->folder || !set->folder->is_broken) return GS_OK;
    unsigned char *broken;
    GS_TRY(GS_NEW(broken, set->count, "%zu flags", set->count));
    for (size_t i = 0; i < set->count; i++)
        broken[i] = __atomic_load_n(&set->folder->is_broken[i], __ATOMIC_RELAXED);
    gs_status status = gs_comm_all_reduce(comm, broken, set->count, GS_U8, GS_MAX);
    for (size_t i = 0; i < set->count && status == GS_OK; i++)
        if (broken[i] && r->skipped++ == 0)
            snprintf(r->skipped_first, sizeof r->skipped_first, "%s/%s", set->folder->split,
                     gs_folder_name(&set->folder->list, i));
    free(broken);
    return status;
}

/* ---- weights in a file, and data ---- */

enum { FINE_CLASSES = 100 }; /* in CIFAR-100 */

/* Image folders can be read at any size, so the model determines the size. They cannot provide non-square images. */
static gs_status take_size(gs_settings *s, const gs_weights_info *saved) {
    const gs_shape in = saved->in;
    int *size = &s->folder.size;
    if (!saved->has_in || saved->vocabulary || in.h != in.w || !s->data ||
        !gs_dataset_is_image_folder(s->data))
        return GS_OK;
    if (*size && *size != in.h)
        return gs_fail(GS_E_USAGE, "--size %d: %s holds a model for images %s; leave --size out, or give %d",
                       *size, s->load, gs_shape_tuple(in).text, in.h);
    if (in.h <= GS_FOLDER_MOST) *size = in.h;
    return GS_OK;
}

gs_status gs_read_saved(gs_settings *s, gs_weights_info *saved) {
    GS_TRY(gs_safetensors_read_info(s->load, saved));
    GS_TRY(take_size(s, saved));
    if (!s->vocabulary) s->vocabulary = saved->vocabulary;
    const bool text = s->data && gs_text_is_at(s->data);
    if (text && saved->vocabulary && saved->has_in && !s->context) s->context = gs_shape_tokens(saved->in);
    if (s->model) return GS_OK;
    if (!saved->model)
        return gs_fail(
            GS_E_FORMAT,
            "%s: no 'model' in the metadata: gradsum did not save this file; name its model with --model",
            s->load);
    gs_layer *net;
    gs_status status = gs_model_parse(saved->model, &net);
    gs_layer_free(net);
    if (status == GS_E_MODEL) status = GS_E_FORMAT; /* the error is in the file, not in the command */
    s->model = saved->model;
    return gs_context(status, "%s: metadata", s->load);
}

/* A language model needs a text, with the model's vocabulary and window. */
static gs_status check_saved_text(const gs_settings *s, const gs_weights_info *saved, const gs_dataset *set) {
    const gs_vocabulary *v = saved->vocabulary;
    if (!v) return GS_OK;
    if (!set->text)
        return gs_fail(GS_E_USAGE,
                       "%s holds a model of text, but %s holds none; wanted --data text:FILE, or jargon",
                       s->load, set->name);
    if (!gs_vocabulary_same(v, &set->text->vocabulary))
        return gs_fail(GS_E_FORMAT, "%s: the model was trained with another vocabulary than that of %s",
                       s->load, set->name);
    if (saved->has_in && gs_shape_tokens(saved->in) != set->text->context)
        return gs_fail(GS_E_SHAPE,
                       "%s holds a model for windows of %d %s, but %s has windows of %d (--context)", s->load,
                       gs_shape_tokens(saved->in), gs_tokens_word(v->kind, 2), set->name, set->text->context);
    return GS_OK;
}

/* Explains a failure if the user named another model than the file's. text: the user's model, its blocks expanded. */
static gs_status not_of_this_model(const gs_settings *s, const gs_weights_info *saved, const char *text,
                                   gs_status status) {
    if (!saved->model || s->model == saved->model || strcmp(text, saved->model) == 0) return status;
    return gs_fail(status, "%s; --model is %s, but these are weights of %s, and are read so without --model",
                   gs_message(), gs_printable(s->model), gs_printable(saved->model));
}

/* The file's weights must fit the model, and the samples must have the shape for which the model was made. */
static gs_status check_saved(const gs_settings *s, const gs_weights_info *saved, const gs_dataset *set) {
    gs_shape in = saved->in, has = set->shape;
    GS_TRY(check_saved_text(s, saved, set));
    if (saved->has_in && !gs_shape_same(in, has))
        return gs_fail(GS_E_SHAPE, "%s holds a model for images %s, but %s has %s%s", s->load,
                       gs_shape_tuple(in).text, set->name, gs_shape_tuple(has).text,
                       set->text ? ": it is a text; wanted such images, or weights of a model of text" : "");
    gs_model *plan;
    gs_status status = gs_model_create(NULL, &(gs_model_config){.text = s->model, .in = has}, &plan);
    if (status != GS_OK)
        return s->model == saved->model ? gs_context(status, "%s: metadata", s->load)
                                        : not_of_this_model(s, saved, s->model, status);
    status = gs_safetensors_check(s->load, plan);
    if (status == GS_E_SHAPE) status = not_of_this_model(s, saved, plan->text, status);
    const int outputs = (int)gs_shape_size(plan->out);
    gs_model_free(plan);
    if (status == GS_OK && s->labels == GS_LABELS_COARSE && outputs == FINE_CLASSES)
        return gs_fail(GS_E_USAGE,
                       "--labels coarse: %s holds a model of the %d fine classes; leave --labels out",
                       s->load, outputs);
    return status;
}

/* ---- the run ---- */

int gs_run_all_workers(const gs_run *run) {
    const gs_rendezvous *p = run->settings.processes;
    return run->local * (p && p->size > 1 ? p->size : 1);
}

gs_status gs_run_check_sizes(const gs_run *run, const gs_settings *s, int workers) {
    size_t count = run->train_set->count, batch = s->batch;
    if (batch > count)
        return gs_fail(GS_E_USAGE,
                       "--batch %zu is larger than the training set, which has %zu sample%s (--batch all)",
                       batch, count, gs_s(count));
    const int spread = gs_model_parallel_size(s);
    if (workers % spread != 0) return GS_OK; /* gs_check_workers refuses this if no more workers join */
    workers = workers > spread ? workers / spread : 1; /* workers with samples of their own */
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
    GS_TRY(gs_model_create(NULL, &(gs_model_config){.text = s->model, .in = run->train_set->shape}, plan));
    gs_status status = gs_context(gs_names_rename(*plan, s->names), "--names");
    if (status != GS_OK) gs_model_free(*plan);
    return status;
}

/* If settings.resume is a folder of checkpoints, find its newest whole one. */
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

/* Read the run's state from a file that also holds its weights. */
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

/* The CPUs to which worker i of this process's `local` workers is bound (core/usable.h says why). Returns how many; 0:
 * not bound. Call this before any worker is bound. Workers are bound if settings->bind is set, there is more than one,
 * and each has a CPU for each of its threads. Workers on OpenCL devices, which have their own threads, are never bound.
 * In a run of several processes, only `gradsum launch` leads to binding: mpirun binds processes itself, or was told not
 * to. */
static int worker_share(const gs_settings *s, int i, int local, cpu_set_t *share) {
    bool several = s->processes && s->processes->size > 1, bound = several && s->processes->own_cpus;
    if (local == 1) return bound && sched_getaffinity(0, sizeof *share, share) == 0 ? CPU_COUNT(share) : 0;
    if (!s->bind || (several && !bound) || !gs_devices_are_cpu(s->devices)) return 0;
    int threads = s->threads < 1 ? 1 : s->threads;
    if (threads * local > gs_cpu_cores()) return 0;
    return gs_cores_share(i, local, share) ? CPU_COUNT(share) : 0;
}

/* Processes do not share CPUs if mpirun, torchrun or Slurm has given each process its own CPUs. */
static void count_threads(gs_run *run) {
    const gs_usable may = gs_usable_here();
    const gs_rendezvous *p = run->settings.processes;
    const bool apart = p && (p->own_cpus || (p->engine && may.cpus < sysconf(_SC_NPROCESSORS_ONLN)));
    const int nodes = p && p->nodes > 0 ? p->nodes : 1;
    char name[48];
    gs_process *process = &run->process;
    process->processes_here = p && p->size > 1 && !apart ? (p->size + nodes - 1) / nodes : 1;
    process->busy = (gs_busy){.cpus = may.cpus, .quota = may.quota};
    for (int i = 0; i < run->local; i++)
        if (gs_devices_name(run->settings.devices, i, name) == GS_OK && strcmp(name, "cpu") == 0)
            process->busy.threads += run->threads * process->processes_here;
}

gs_status gs_run_prepare(gs_run *run) {
    gs_settings *s = &run->settings;
    if (s->train_set) s->data = s->train_set->name; /* for messages and logs */
    GS_TRY(gs_check_each_setting(s));
    if (run->kind == GS_RUN_TRAIN) GS_TRY(gs_layout_settle(s));
    if (run->kind == GS_RUN_TRAIN) GS_TRY(gs_check_settings(s));
    if (run->kind == GS_RUN_TRAIN) GS_TRY(read_state(run));
    if (s->load) GS_TRY(gs_read_saved(s, &run->saved));
    if (!s->model) s->model = "mlp";
    if (run->kind == GS_RUN_TRAIN) {
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
    if (s->load) GS_TRY(check_saved(s, &run->saved, run->test_set));
    if (run->kind == GS_RUN_TRAIN) {
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
    GS_TRY(GS_NEW(run->worker, run->local, "%d workers", run->local));
    for (int i = 0; i < run->local; i++) {
        run->worker[i].run = run;
        GS_TRY(gs_devices_name(s->devices, i, run->worker[i].device));
        run->worker[i].cpus = worker_share(s, i, run->local, &run->worker[i].share);
    }
    if (run->kind == GS_RUN_TRAIN) {
        GS_TRY(gs_run_check_sizes(run, s, run->local));
        if (!run->state || !gs_state_has_ended(run->state, s, NULL, 0))
            GS_TRY(gs_check_rates(s, run->train_set->count));
    }
    if (!s->save) return GS_OK;
    GS_TRY(gs_file_check_target(s->save, GS_FILE_WEIGHTS));
    GS_TRY(gs_checkpoint_check_save(s->save));
    gs_model *plan; /* check that all tensors have the requested names */
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
    gs_weights_info_free(&run->saved);
    free(run->model);
    free(run->resume);
    gs_checkpoint_unlock(run->settings.checkpoint, run->lock);
    gs_checkpoint_let_go();
}
