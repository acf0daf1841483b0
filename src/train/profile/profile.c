#include "train/profile/profile.h"

#include "core/clock.h"
#include "core/usable.h"
#include "layer/make.h"
#include "model/model_text.h"
#include "train/internal.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROW_DATA, ROW_LOSS, ROW_UPDATE, ROWS /* besides the layers */ };

/* A layer whose clock is read before and after its forward and its backward. */
typedef struct timed {
    const gs_layer *layer;
    double start, outside; /* of the run that is under way: when it began, and `inside` of what it lies in */
    gs_profile_cell cell[GS_DIRECTIONS];
} timed;

/* What the measurements share. */
typedef struct profiler {
    gs_profile *out;
    gs_worker worker;
    gs_dataset *loaded; /* NULL where the set is the caller's */
    const gs_dataset *set;
    char *model; /* its text, where it was made to fit the data */
    gs_comm *comm;
    double seconds;
    size_t pieces;          /* of a step */
    void *inputs, *answers; /* a piece that is used again and again */
    size_t again;           /* its samples; 0: the loader's next one is taken */
    gs_layer_watcher watcher;
    timed *layer; /* [layers], by its number, while rows are measured; else NULL */
    int layers;
    double inside; /* seconds of the layers inside of the one that runs: its own time is the rest */
    gs_profile_cell own[ROWS][GS_DIRECTIONS];
    double mark;
    double waited; /* for the loader, when the clock of `steps` started */
} profiler;

/* ---- bytes that must at least be moved: each operand once ---- */

/* What activations take, which may lie in 16 bits (memory/halves.h). */
static double floats(bool half, double numbers) {
    return half ? numbers / 2 : numbers;
}

/* A container's own work is a sum, y = a + b. */
static double bytes_of_sum(const gs_layer *l, double n) {
    return 3 * 4 * floats(l->memory.y_half, n * (double)gs_shape_size(l->out));
}

/* What the layer does of those after it (backend.h). */
static gs_epilogue epilogue_of(const gs_layer *l) {
    const gs_epilogue *then = gs_layer_epilogue((gs_layer *)l);
    return then ? *then : (gs_epilogue){.relu = false};
}

static double bytes_forward(const gs_layer *l, double n) {
    const double in = floats(l->memory.x_half, n * (double)gs_shape_size(l->in)),
                 numbers = n * (double)gs_shape_size(gs_layer_y_shape(l));
    if (gs_layer_is_view(l)) return 0;
    if (l->children) return bytes_of_sum(l, n);
    const double out = floats(l->memory.y_half, numbers) +
                       numbers * (l->ops->also_writes + (epilogue_of(l).pool != NULL)); /* y, the index */
    return 4 * (in + out + (double)gs_layer_weights(l));
}

static double bytes_backward(const gs_layer *l, double n) {
    const double in = floats(l->memory.x_half, n * (double)gs_shape_size(l->in)),
                 numbers = n * (double)gs_shape_size(gs_layer_y_shape(l));
    const gs_epilogue then = epilogue_of(l);
    double weights = (double)(l->borrowed ? l->borrowed : l->param)->count,
           params = (double)gs_layer_weights(l);
    if (gs_layer_is_view(l)) return 0;
    if (l->children) return l->needs_dx ? bytes_of_sum(l, n) : 0;
    const int index = l->ops->also_writes + (then.pool != NULL);
    const double out =
        floats(l->memory.y_half, numbers) * (1 + l->ops->also_reads - l->ops->also_writes + then.relu) +
        numbers * index; /* dy, y, the index */
    /* dy and x are read for dw, which is added to; w is read and dx written for dx */
    if (params > 0) return 4 * (out + in + 2 * params + (l->needs_dx ? in + weights : 0));
    return 4 * (out + in);
}

/* As gs_model counts them: as much as forward for dx, and again for dw and db. If a layer does the relu or the pooling
 * that follows it, they are counted in that layer. */
static double flops_of(const gs_layer *l, int direction, double n) {
    bool learns = gs_layer_weights(l) > 0;
    const gs_epilogue then = epilogue_of(l);
    double too = then.relu ? (double)gs_shape_size(l->out) : 0;
    if (then.pool)
        too += (double)gs_shape_size(gs_layer_y_shape(l)) * then.pool->kernel_h * then.pool->kernel_w;
    return n * (l->flops * (direction == GS_FORWARD ? 1 : l->needs_dx + learns) + too);
}

/* ---- the clock around each layer ---- */

static gs_status before(void *context, const gs_layer *l, gs_direction direction, const gs_pass *pass,
                        gs_mem in) {
    (void)direction, (void)pass, (void)in;
    profiler *p = context;
    timed *t = &p->layer[l->number];
    GS_TRY(p->worker.device->ops->finish(p->worker.device));
    t->outside = p->inside;
    p->inside = 0;
    t->start = gs_seconds();
    return GS_OK;
}

static gs_status after(void *context, const gs_layer *l, gs_direction direction, const gs_pass *pass,
                       gs_mem out) {
    (void)out;
    profiler *p = context;
    timed *t = &p->layer[l->number];
    gs_profile_cell *c = &t->cell[direction];
    GS_TRY(p->worker.device->ops->finish(p->worker.device));
    double took = gs_seconds() - t->start, n = (double)pass->n, flops = flops_of(l, direction, n);
    double bytes = direction == GS_FORWARD ? bytes_forward(l, n) : bytes_backward(l, n);
    if (pass->again && l->memory.again == GS_AGAIN_INSIDE)
        flops = bytes = 0; /* the layers in it have counted theirs */
    c->seconds += took - p->inside;
    c->flops += flops;
    c->bytes += bytes;
    c->least += gs_roofline_seconds(&p->out->roofline, flops, bytes);
    p->inside = t->outside + took;
    return GS_OK;
}

static gs_status note_one(gs_layer *l, void *context) {
    profiler *p = context;
    p->layer[l->number].layer = l;
    return GS_OK;
}

/* From now on every layer of the worker's model is measured. */
static gs_status time_layers(profiler *p) {
    gs_layer *net = p->worker.model->net;
    p->layers = (int)gs_layer_count(net);
    p->layer = calloc((size_t)p->layers, sizeof *p->layer);
    if (!p->layer) return gs_fail(GS_E_MEMORY, "no memory to measure %d layers", p->layers);
    p->watcher = (gs_layer_watcher){p, before, after, NULL};
    gs_layer_watch_begin(net, &p->watcher);
    return gs_layer_walk(net, note_one, p);
}

/* Seconds that the model's layers have taken since the last call. */
static double layers_took(profiler *p) {
    const double took = p->inside; /* the root's, with all inside of it */
    p->inside = 0;
    return took;
}

/* What was measured, of one of `steps` steps; returns the row behind the last. */
static gs_profile_row *layer_rows(const profiler *p, double steps, gs_profile_row *r) {
    for (int i = 0; i < p->layers; i++) {
        const timed *t = &p->layer[i];
        if (gs_layer_is_view(t->layer)) continue;
        snprintf(r->name, sizeof r->name, "%s", *t->layer->name ? t->layer->name : "0");
        gs_layer_describe(t->layer, r->what, sizeof r->what);
        for (int k = 0; k < GS_DIRECTIONS; k++) r->cell[k] = gs_profile_cell_of(&t->cell[k], steps);
        r++;
    }
    return r;
}

/* ---- the clock between the parts of a step, while rows are measured ---- */

static gs_status mark(profiler *p) {
    if (!p->layer) return GS_OK;
    GS_TRY(p->worker.device->ops->finish(p->worker.device));
    p->mark = gs_seconds();
    return GS_OK;
}

static gs_status part_ends(profiler *p, int row, int direction, double flops, double bytes) {
    if (!p->layer) return GS_OK;
    gs_profile_cell *c = &p->own[row][direction];
    double began = p->mark;
    GS_TRY(mark(p));
    c->seconds += p->mark - began;
    c->flops += flops;
    c->bytes += bytes;
    c->least += gs_roofline_seconds(&p->out->roofline, flops, bytes);
    return GS_OK;
}

/* ---- a step, as step.c makes it on one worker ---- */

/* The next piece; if pieces are used again and again, at most `left` samples of it. */
static gs_status bring_samples(profiler *p, size_t left, size_t *n) {
    gs_worker *w = &p->worker;
    GS_TRY(mark(p));
    if (p->again) {
        *n = p->again < left ? p->again : left;
        GS_TRY(gs_worker_write(w, p->inputs, p->answers, *n));
    } else {
        const gs_loaded *next;
        GS_TRY(gs_loader_next(w->loader, &next));
        *n = next->piece.n;
        GS_TRY(gs_worker_write(w, next->inputs, next->answers, *n));
    }
    double pixels = (double)*n * (double)gs_shape_size(w->model->in);
    /* bytes: read and written once on their way to the device, read again, and written as floats */
    return part_ends(p, ROW_DATA, GS_FORWARD, 2 * pixels, 7 * pixels);
}

static gs_status piece(profiler *p, size_t left, size_t *n) {
    gs_worker *w = &p->worker;
    gs_pass pass = {.training = true, .fresh = left == w->batch, .seed = w->settings->seed, .step = w->step};
    gs_mem logits;
    GS_TRY(bring_samples(p, left, n));
    pass.n = *n;
    double outputs = 4 * (double)*n * (double)gs_shape_size(w->model->out);
    GS_TRY(gs_model_forward(w->model, &pass, w->input.x, &logits));
    GS_TRY(mark(p));
    GS_TRY(gs_model_loss(w->model, &pass, logits, w->input.answers));
    GS_TRY(part_ends(p, ROW_LOSS, GS_FORWARD, 0, 2 * outputs));
    (void)layers_took(p);
    GS_TRY(gs_model_backward(w->model, &pass, logits, w->input.answers));
    GS_TRY(part_ends(p, ROW_LOSS, GS_BACKWARD, 0, 2 * outputs));
    /* the layers' backward is inside of the model's: the rest is the loss's */
    p->own[ROW_LOSS][GS_BACKWARD].seconds -= layers_took(p);
    return GS_OK;
}

static gs_status step(profiler *p, double *samples) {
    gs_worker *w = &p->worker;
    double params = (double)w->model->params;
    float sum[GS_STATS];
    size_t all = 0, n;
    GS_TRY(mark(p));
    GS_TRY(gs_model_clear_stats(w->model));
    for (size_t i = 0; i < p->pieces; i++, all += n) GS_TRY(piece(p, w->batch - all, &n));
    GS_TRY(w->device->ops->read(w->device, sum, gs_model_stats(w->model), sizeof sum)); /* the score */
    GS_TRY(mark(p));
    GS_TRY(gs_optimizer_update(w->optimizer, (double)all * gs_model_answers(w->model)));
    const gs_optimizer_ops *optimizer = w->optimizer->ops;
    GS_TRY(part_ends(p, ROW_UPDATE, GS_BACKWARD, optimizer->flops * params, optimizer->bytes * params));
    w->step++;
    *samples = (double)all;
    return GS_OK;
}

/* Steps for p->seconds, at least one: how many, how long, how many samples. */
static gs_status steps(profiler *p, double *count, double *took, double *samples) {
    double n;
    GS_TRY(step(p, &n)); /* what is used for the first time now was not in the caches */
    GS_TRY(p->worker.device->ops->finish(p->worker.device));
    p->waited = p->worker.loader ? gs_loader_waited(p->worker.loader) : 0;
    double start = gs_seconds();
    *count = *samples = 0;
    do {
        GS_TRY(step(p, &n));
        ++*count;
        *samples += n;
        *took = gs_seconds() - start;
    } while (*took < p->seconds);
    GS_TRY(p->worker.device->ops->finish(p->worker.device));
    *took = gs_seconds() - start;
    return GS_OK;
}

/* ---- the measurements ---- */

static gs_status measure_loader(profiler *p) {
    gs_loader *loader;
    double start = gs_seconds(), took, samples = 0;
    const gs_settings *s = p->worker.settings;
    GS_TRY(gs_loader_create(p->set, &p->worker.schedule, &s->augment, s->seed, p->out->throttle, &loader));
    const gs_loaded *next;
    gs_status status;
    do {
        status = gs_loader_next(loader, &next);
        if (status == GS_OK) samples += (double)next->piece.n;
        took = gs_seconds() - start;
    } while (status == GS_OK && took < p->seconds);
    gs_loader_free(loader);
    p->out->loader = samples / took;
    return status;
}

static gs_status measure_step(profiler *p) {
    double count, took, samples;
    p->again = p->worker.schedule.most;
    GS_TRY(steps(p, &count, &took, &samples));
    p->out->step = samples / took;
    return GS_OK;
}

static gs_status measure_together(profiler *p) {
    gs_loader *loader = p->worker.loader;
    const gs_loaded *next;
    double count, took, samples;
    const double waited = gs_loader_waited(loader);
    /* What was loaded before the clock started is not bandwidth. */
    for (int i = 0; i < GS_LOADER_MOST_PLACES && gs_loader_waited(loader) == waited; i++)
        GS_TRY(gs_loader_next(loader, &next));
    p->again = 0;
    GS_TRY(steps(p, &count, &took, &samples));
    p->out->together = samples / took;
    p->out->waited = (gs_loader_waited(loader) - p->waited) / took;
    return GS_OK;
}

static void own_row(const profiler *p, int row, const char *name, double count, gs_profile_row *out) {
    snprintf(out->name, sizeof out->name, "%s", name);
    for (int k = 0; k < GS_DIRECTIONS; k++) out->cell[k] = gs_profile_cell_of(&p->own[row][k], count);
}

static gs_status measure_rows(profiler *p) {
    double count, took, samples;
    gs_profile *out = p->out;
    p->again = p->worker.schedule.most;
    GS_TRY(time_layers(p));
    GS_TRY(steps(p, &count, &took, &samples));
    count++; /* the first one was measured too */
    gs_profile_row *row = out->rows = calloc((size_t)p->layers + ROWS, sizeof *out->rows);
    if (!row) return gs_fail(GS_E_MEMORY, "no memory for %d rows", p->layers + ROWS);
    own_row(p, ROW_DATA, "data", count, row);
    row = layer_rows(p, count, row + 1);
    own_row(p, ROW_LOSS, "loss", count, row);
    own_row(p, ROW_UPDATE, "update", count, row + 1);
    out->row_count = (int)(row + 2 - out->rows);
    return GS_OK;
}

/* ---- before and after ---- */

static gs_status check(const gs_settings *s, const gs_dataset *set) {
    GS_TRY(gs_check_set(s, set));
    GS_TRY(gs_augment_check(&s->augment, set));
    const int devices = gs_devices_count(s->devices);
    if (devices != 1)
        return gs_fail(GS_E_USAGE,
                       "profile measures one device at a time, and '%s' names %d; wanted one of them, as "
                       "--device %.*s",
                       s->devices, devices, (int)strcspn(s->devices, ","), s->devices);
    if (s->batch > set->count)
        return gs_fail(GS_E_USAGE,
                       "--batch %zu is larger than the training set, which has %zu sample%s (--batch all)",
                       s->batch, set->count, gs_s(set->count));
    return GS_OK;
}

static gs_status prepare(profiler *p, gs_settings *s) {
    char device[48];
    GS_TRY(gs_open_set(s, GS_TRAIN, &p->loaded, &p->set));
    GS_TRY(gs_settle_model(s, p->set, &p->model));
    GS_TRY(check(s, p->set));
    GS_TRY(gs_devices_name(s->devices, 0, device));
    GS_TRY(gs_comm_world_create(1, NULL, s->timeout, &p->comm));
    GS_TRY(gs_worker_create(&p->worker, s, device, p->comm, gs_worker_threads(s, 1),
                            gs_dataset_scaling(p->set), p->set, NULL));
    gs_worker *w = &p->worker;
    size_t piece = w->schedule.most;
    p->inputs = malloc(piece * gs_dataset_input_bytes(p->set));
    p->answers = malloc(piece * gs_dataset_answer_bytes(p->set));
    if (!p->inputs || !p->answers) return gs_fail(GS_E_MEMORY, "no memory for %zu samples", piece);
    GS_TRY(gs_dataset_gather(p->set, NULL, 0, piece, p->inputs, p->answers));
    p->pieces = (w->batch + piece - 1) / piece;
    gs_profile *out = p->out;
    bool named = gs_model_is_name(s->model);
    snprintf(out->model, sizeof out->model, "%s", named ? s->model : w->model->text);
    snprintf(out->device, sizeof out->device, "%s: %s", w->device->name, w->device->description);
    out->params = w->model->params;
    out->batch = w->batch;
    out->sample_bytes = (double)gs_sample_bytes(p->set);
    out->precision = s->precision;
    out->throttle = 1e6 * s->throttle;
    return gs_warm_up(w);
}

static gs_status measure_all(profiler *p) {
    const gs_busy_clock begun = gs_busy_begin();
    const gs_usable may = gs_usable_here();
    gs_busy busy = {
        .threads = strcmp(p->worker.device->name, "cpu") == 0 ? gs_worker_threads(p->worker.settings, 1) : 0,
        .cpus = may.cpus,
        .quota = may.quota};
    GS_TRY(gs_roofline_measure(p->worker.device, p->seconds, &p->out->roofline));
    GS_TRY(measure_loader(p));
    GS_TRY(measure_step(p));
    GS_TRY(measure_together(p));
    busy.waited = gs_busy_waited(&begun, busy.cpus);
    gs_busy_text(&busy, p->out->busy);
    return measure_rows(p);
}

/* Adds to *out what `measure` measures, and frees it on failure. */
static gs_status run(const gs_settings *settings, double seconds, gs_status (*measure)(profiler *),
                     gs_profile *out) {
    GS_TRY(gs_check_each_setting(settings));
    gs_settings s = *settings;
    s.lr = 0;
    s.epochs = INT_MAX; /* a schedule that does not end */
    s.steps = 0;
    if (!s.model) s.model = "mlp";
    profiler p = {.out = out, .seconds = seconds};
    gs_status status = prepare(&p, &s);
    if (status == GS_OK) status = measure(&p);
    gs_worker_free(&p.worker);
    gs_comm_free(p.comm);
    gs_dataset_free(p.loaded);
    free(p.model);
    free(p.inputs);
    free(p.answers);
    free(p.layer);
    if (status != GS_OK) gs_profile_free(out);
    return status;
}

gs_status gs_profile_run(const gs_settings *settings, double seconds, gs_profile *out) {
    *out = (gs_profile){0};
    return run(settings, seconds, measure_all, out);
}

gs_status gs_profile_plain(const gs_settings *settings, double seconds, gs_profile *out) {
    gs_settings s = *settings;
    gs_profile plain = {.roofline = out->roofline};
    s.devices = "cpu";
    s.threads = 1;
    gs_backend_replace(gs_cpu_plain);
    gs_status status = run(&s, seconds, measure_rows, &plain);
    gs_backend_replace(NULL);
    GS_TRY(status);
    if (plain.row_count != out->row_count)
        gs_bug("profile: %d rows, %d plain", out->row_count, plain.row_count);
    for (int k = 0; k < GS_DIRECTIONS; k++)
        for (int i = 0, does_it = 0; i < out->row_count; i++) {
            /* a layer that moves no bytes of its own is done by one before it */
            if (out->rows[i].cell[k].bytes > 0) does_it = i;
            out->rows[does_it].plain[k] += plain.rows[i].cell[k].seconds;
        }
    gs_profile_free(&plain);
    return GS_OK;
}

void gs_profile_free(gs_profile *p) {
    free(p->rows);
    *p = (gs_profile){0};
}

/* ---- the sum of all rows ---- */

gs_profile_cell gs_profile_total(const gs_profile *p) {
    gs_profile_cell sum = {0};
    for (int i = 0; i < p->row_count; i++)
        for (int k = 0; k < GS_DIRECTIONS; k++) {
            const gs_profile_cell *c = &p->rows[i].cell[k];
            sum.seconds += c->seconds;
            sum.flops += c->flops;
            sum.bytes += c->bytes;
            sum.least += c->least;
        }
    return sum;
}
