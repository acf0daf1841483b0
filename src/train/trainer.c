/* A trainer (gradsum.h): a run whose caller requests each step. Its workers and threads are those of any run (run.c,
 * epochs.c); between two calls they wait. */
#include "core/clock.h"
#include "data/text_set.h"
#include "io/file.h"
#include "layer/layer.h"
#include "model/model_text.h"
#include "persist/folder.h"
#include "train/options/options.h"
#include "train/run.h"
#include "train/strategy.h"

#include <inttypes.h>
#include <stdlib.h>

/* A run in progress. */
typedef struct training {
    gs_run run; /* must be first: a pointer to the run is then also a pointer to the training */
    char *path; /* the file or folder from which it was loaded, or NULL */
    /* Arguments and result of the trainer's current call. */
    const gs_dataset *set;
    size_t count;
    const float *from;
    float *to;
    gs_score score;
} training;

struct gs_trainer {
    gs_settings settings; /* as requested */
    char *model, *more;   /* texts that the settings point to; may be NULL */
    training *now;
};

static training *training_of(const gs_run_worker *me) {
    return (training *)me->run;
}

/* All workers hold the same model, unless the model is divided. Between two calls no thread uses the worker. */
static const gs_worker *first_worker(const gs_trainer *t) {
    return &t->now->run.worker[0].worker;
}

/* ---- settings ---- */

/* True for options that say how data are read, how training begins or ends, or what is observed. */
static bool is_refused(const char *name) {
    char word[64];
    snprintf(word, sizeof word, " %s ", name);
    return strstr(" model data labels tokens tokenizer context size loaders skip-broken device devices load "
                  " save save-state names keep checkpoint checkpoint-every resume log trace-steps "
                  "confusion digest tests max-memory fit ",
                  word) != NULL;
}

/* Read "--clip 1 --exact". Splits the text in place. */
static gs_status read_more(char *text, gs_settings *s) {
    char *rest;
    for (char *name = strtok_r(text, " ", &rest); name; name = strtok_r(NULL, " ", &rest)) {
        const gs_run_option *o = gs_run_table;
        while (o->name && (strncmp(name, "--", 2) != 0 || strcmp(name + 2, o->name) != 0)) o++;
        if (!o->name || is_refused(o->name))
            return gs_fail(
                GS_E_USAGE,
                "a trainer has no option '%s'; wanted one of gradsum train that changes its steps, "
                "such as --clip X",
                name);
        const gs_option option = gs_run_option_of(o, s);
        const char *value = o->kind == GS_OPTION_FLAG ? NULL : strtok_r(NULL, " ", &rest);
        if (o->kind == GS_OPTION_FLAG)
            *(bool *)option.value = true;
        else if (!value)
            return gs_fail(GS_E_USAGE, "--%s ends the options of a trainer; wanted %s after it", o->name,
                           o->argument);
        else
            GS_TRY(gs_option_read(&option, value));
    }
    return GS_OK;
}

static gs_status take_options(gs_trainer *t, const gs_trainer_options *o) {
    gs_settings *s = &t->settings;
    *s = gs_settings_default();
    const int no_end = (int)gs_run_option_named("epochs")->max;
    s->epochs = no_end;
    if (!o->data) return gs_fail(GS_E_USAGE, "a trainer without data; wanted a data set");
    if (o->model && o->layers)
        return gs_fail(GS_E_USAGE, "a trainer has a model, '%s', and layers; wanted one of them", o->model);
    s->train_set = s->test_set = o->data;
    s->model = o->model;
    if (o->layers) {
        s->model = t->model = gs_model_text_of(o->layers);
        if (!t->model) return gs_fail(GS_E_MEMORY, "no memory for the text of a model");
    }
    if (o->devices) s->devices = o->devices;
    if (o->scheme) s->sync = o->scheme;
    s->threads = o->threads;
    s->batch = o->batch ? o->batch : gs_smaller(s->batch, o->data->count);
    s->loss = o->loss;
    const gs_option optimizer = gs_run_option_of(gs_run_option_named("optimizer"), s);
    if (o->optimizer) GS_TRY(gs_option_read(&optimizer, o->optimizer));
    if (o->lr != 0) s->lr = o->lr;
    if (o->momentum != 0) s->momentum = o->momentum;
    if (o->weight_decay != 0) s->weight_decay = o->weight_decay;
    if (o->seed) s->seed = o->seed;
    if (!o->more) return GS_OK;
    t->more = strdup(o->more);
    if (!t->more) return gs_fail(GS_E_MEMORY, "no memory for '%s'", o->more);
    GS_TRY(read_more(t->more, s));
    if (gs_lr_schedule_falls(&s->schedule) && s->epochs == no_end && !s->steps)
        return gs_fail(GS_E_USAGE,
                       "--schedule falls until the last step, and a trainer with '%s' has none; "
                       "wanted --epochs E or --steps N too",
                       o->more);
    return GS_OK;
}

/* ---- begin and end ---- */

static gs_status begin(gs_run_worker *me) {
    GS_TRY(gs_run_open_worker(me));
    me->event.result = &me->result;
    me->event.epoch = (int)(me->worker.step / gs_steps_of_epoch(me->run->train_set->count, me->worker.batch));
    return gs_begin_training(&me->worker);
}

static void free_training(training *t) {
    if (!t) return;
    gs_run_stop(&t->run);
    gs_run_free(&t->run);
    free(t->path);
    free(t);
}

static gs_status open_training(training *t) {
    const gs_strategy *strategy = gs_strategy_of(&t->run.settings);
    GS_TRY(gs_run_prepare(&t->run));
    if (strategy->apart)
        return gs_fail(GS_E_USAGE,
                       "%s: workers have different weights between two steps, and a trainer shows "
                       "the same of all; wanted a scheme that sums gradients",
                       strategy->option);
    GS_TRY(gs_run_start(&t->run));
    return gs_run_do(&t->run, begin);
}

/* path: the file or folder from which to continue; NULL: begin a run. */
static gs_status make_training(const gs_settings *s, const char *path, training **out) {
    training *t;
    *out = NULL;
    GS_TRY(GS_NEW(t, 1, "a trainer"));
    t->run.kind = GS_RUN_TRAIN;
    t->run.settings = *s;
    gs_status status = GS_OK;
    if (path && !(t->path = strdup(path))) status = gs_fail(GS_E_MEMORY, "no memory for the name %s", path);
    if (path && gs_checkpoint_is_folder(path)) {
        t->run.settings.resume = t->path;
    } else if (status == GS_OK && path) {
        gs_weights_info info;
        status = gs_safetensors_read_info(path, &info);
        *(info.state ? &t->run.settings.resume : &t->run.settings.load) = t->path;
        gs_weights_info_free(&info);
    }
    if (status == GS_OK) status = open_training(t);
    if (status == GS_OK)
        *out = t;
    else
        free_training(t);
    return status;
}

gs_status gs_trainer_create(const gs_trainer_options *o, gs_trainer **out) {
    gs_trainer *t = *out = calloc(1, sizeof *t);
    gs_status status = t ? take_options(t, o) : gs_fail(GS_E_MEMORY, "no memory for a trainer");
    if (status == GS_OK) status = make_training(&t->settings, NULL, &t->now);
    gs_layer_free(o->layers);
    if (status == GS_OK) return GS_OK;
    gs_trainer_free(t);
    *out = NULL;
    return status;
}

void gs_trainer_free(gs_trainer *t) {
    if (!t) return;
    free_training(t->now);
    free(t->model);
    free(t->more);
    free(t);
}

/* ---- steps ---- */

uint64_t gs_trainer_steps(const gs_trainer *t) {
    return first_worker(t)->step;
}

uint64_t gs_trainer_steps_per_epoch(const gs_trainer *t) {
    return gs_steps_of_epoch(t->now->run.train_set->count, first_worker(t)->batch);
}

static gs_metrics metrics_of(const gs_trainer *t) {
    const gs_score *s = &t->now->score;
    const double targets = gs_model_targets(gs_model_whole(first_worker(t)->model));
    return (gs_metrics){s->loss / s->samples, s->correct / s->samples, (size_t)(s->samples / targets)};
}

static gs_status step(gs_run_worker *me) {
    gs_event *e = &me->event;
    gs_worker *w = &me->worker;
    if (e->done == e->of) { /* the epoch has ended */
        e->epoch++;
        GS_TRY(gs_epoch_begin(w, e));
    }
    w->measured.times.since = gs_seconds();
    GS_TRY(gs_epoch_step(w, e));
    if (me == me->run->worker) training_of(me)->score = e->score;
    return e->done == e->of || e->diverged ? gs_epoch_end(w, e) : GS_OK;
}

gs_status gs_trainer_step(gs_trainer *t, gs_metrics *metrics) {
    const gs_settings *s = &t->now->run.settings;
    const uint64_t all = (uint64_t)s->epochs * gs_trainer_steps_per_epoch(t), done = gs_trainer_steps(t);
    if (done >= all || (s->steps && done >= s->steps))
        return gs_fail(GS_E_USAGE, "the trainer has made %" PRIu64 " steps, all that --%s asked for", done,
                       done >= all ? "epochs" : "steps");
    GS_TRY(gs_run_do(&t->now->run, step));
    if (metrics) *metrics = metrics_of(t);
    return GS_OK;
}

/* ---- evaluation and prediction ---- */

static gs_status evaluate(gs_run_worker *me) {
    gs_score score;
    GS_TRY(gs_evaluate(&me->worker, training_of(me)->set, &score, NULL));
    if (me == me->run->worker) training_of(me)->score = score;
    return GS_OK;
}

gs_status gs_trainer_evaluate(gs_trainer *t, const gs_dataset *set, gs_metrics *metrics) {
    const gs_run *run = &t->now->run;
    GS_TRY(gs_check_sets_alike(&run->settings, run->train_set, set));
    GS_TRY(gs_check_set(&run->settings, set));
    const struct gs_text *text = run->train_set->text;
    if (set->text && text && !gs_vocabulary_same(&set->text->vocabulary, &text->vocabulary))
        return gs_fail(GS_E_FORMAT, "%s has another vocabulary than %s, on which the model is trained",
                       set->name, run->train_set->name);
    t->now->set = set;
    GS_TRY(gs_run_do(&t->now->run, evaluate));
    *metrics = metrics_of(t);
    return GS_OK;
}

static bool is_divided(const gs_worker *w) {
    return gs_has_stages(w) || gs_weights_are_divided(w->model);
}

static gs_status refuse_divided(const gs_trainer *t, const char *what) {
    if (!is_divided(first_worker(t))) return GS_OK;
    return gs_fail(GS_E_USAGE,
                   "%s: the model is divided among the workers (--pipeline, --tensor or --zero 3); "
                   "wanted one that each worker has whole",
                   what);
}

/* Predict block by block, as in an evaluation; the blocks are divided among the workers. */
static gs_status predict(gs_run_worker *me) {
    gs_worker *w = &me->worker;
    const training *t = training_of(me);
    const size_t in = gs_shape_size(w->model->in), out = gs_shape_size(w->model->out), block = w->eval_block;
    const gs_shard mine = gs_shard_of((t->count + block - 1) / block, me->comm->rank, me->comm->size);
    for (size_t first = mine.first * block; first < t->count && first < (mine.first + mine.count) * block;
         first += block) {
        const gs_pass pass = {.n = gs_smaller(t->count - first, block)};
        gs_mem y;
        GS_TRY(
            w->device->ops->write(w->device, w->input.x, t->from + first * in, pass.n * in * sizeof(float)));
        const bool fixed_order = w->device->fixed_order;
        w->device->fixed_order = true;
        const gs_status status = gs_model_forward(w->model, &pass, w->input.x, &y);
        w->device->fixed_order = fixed_order;
        GS_TRY(status);
        GS_TRY(w->device->ops->read(w->device, t->to + first * out, y, pass.n * out * sizeof(float)));
    }
    return GS_OK;
}

/* x = (pixel - mean) / std */
static gs_status scaled(const gs_run *run, size_t count, const float *pixels, float **x) {
    const gs_shape shape = run->train_set->shape;
    const size_t plane = (size_t)shape.h * (size_t)shape.w, numbers = count * gs_shape_size(shape);
    GS_TRY(GS_NEW(*x, numbers, "%zu samples of %s", count, gs_shape_tuple(shape).text));
    for (size_t i = 0; i < numbers; i++) {
        const int c = (int)(i / plane % (size_t)shape.c);
        (*x)[i] = (pixels[i] - gs_of_channel(&run->scaling.mean, c)) / gs_of_channel(&run->scaling.std, c);
    }
    return GS_OK;
}

gs_status gs_trainer_predict(gs_trainer *t, size_t count, const float *inputs, float *outputs) {
    const gs_run *run = &t->now->run;
    const int vocabulary = gs_layer_vocabulary(gs_model_whole(first_worker(t)->model)->net);
    const gs_dataset set = {
        .name = "predict", .count = count, .shape = run->train_set->shape, .inputs = (float *)inputs};
    float *x = NULL;
    GS_TRY(refuse_divided(t, "predict"));
    if (vocabulary > 0) GS_TRY(gs_dataset_check_tokens(&set, vocabulary));
    if (!gs_dataset_is_numbers(run->train_set)) GS_TRY(scaled(run, count, inputs, &x));
    t->now->count = count;
    t->now->from = x ? x : inputs;
    t->now->to = outputs;
    const gs_status status = gs_run_do(&t->now->run, predict);
    free(x);
    return status;
}

size_t gs_trainer_outputs(const gs_trainer *t) {
    return gs_shape_size(gs_model_whole(first_worker(t)->model)->out);
}

/* ---- weights, in memory and in files ---- */

size_t gs_trainer_weights(const gs_trainer *t) {
    return gs_model_whole(first_worker(t)->model)->saved;
}

/* Worker 0's weights are used; the other workers take part only if each holds a part of the weights. */
static gs_status read_weights(gs_run_worker *me) {
    if (me->comm->rank != 0 && !is_divided(&me->worker)) return GS_OK;
    return gs_read_weights(&me->worker, &me->result);
}

gs_status gs_trainer_read_weights(gs_trainer *t, float *weights) {
    GS_TRY(gs_run_do(&t->now->run, read_weights));
    memcpy(weights, t->now->run.worker[0].result.weights, gs_trainer_weights(t) * sizeof(float));
    return GS_OK;
}

static gs_status write_weights(gs_run_worker *me) {
    return gs_model_write_weights(me->worker.model, training_of(me)->from);
}

gs_status gs_trainer_write_weights(gs_trainer *t, const float *weights) {
    GS_TRY(refuse_divided(t, "weights"));
    t->now->from = weights;
    return gs_run_do(&t->now->run, write_weights);
}

static gs_status read_state(gs_run_worker *me) {
    if (!me->result.state) GS_TRY(gs_state_create(&me->worker, &me->result.state));
    GS_TRY(gs_state_fill(&me->worker, me->result.state));
    return read_weights(me);
}

gs_status gs_trainer_save(gs_trainer *t, const char *path) {
    gs_settings *s = &t->now->run.settings;
    GS_TRY(gs_file_check_target(path, GS_FILE_WEIGHTS));
    GS_TRY(gs_run_do(&t->now->run, read_state));
    s->save = path;
    const gs_status status = gs_run_save_weights(&t->now->run);
    s->save = NULL;
    return status;
}

gs_status gs_trainer_load(gs_trainer *t, const char *path) {
    training *loaded;
    GS_TRY(make_training(&t->settings, path, &loaded));
    free_training(t->now);
    t->now = loaded;
    return GS_OK;
}
