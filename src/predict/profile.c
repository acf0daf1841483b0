#include "predict/profile.h"

#include "core/clock.h"
#include "core/usable.h"
#include "layer/make.h"
#include "model/model_text.h"
#include "train/run.h"
#include "train/settings.h"
#include "train/strategy.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>

/* ---- the roofline ---- */

/* Floats in each of triad's three arrays: for the first-level cache, second level, last level, and memory. */
static const size_t sizes[GS_ROOFLINE_SIZES] = {2 << 10, 32 << 10, 512 << 10, 8 << 20};
enum { FMA_FLOATS = 1 << 20, TAKES = 5 /* the best counts, because other programs may use the machine */ };

typedef struct measurement {
    gs_device *device;
    gs_mem y, a, b;
    size_t count; /* floats */
} measurement;

typedef gs_status (*measured)(const measurement *, size_t repeats);

static gs_status fma_loop(const measurement *m, size_t repeats) {
    return m->device->ops->fma_loop(m->device, m->y, 0.999f, 0.001f, m->count, repeats);
}

static gs_status triad(const measurement *m, size_t repeats) {
    for (size_t i = 0; i < repeats; i++)
        GS_TRY(m->device->ops->triad(m->device, m->y, m->a, m->b, 0.5f, m->count));
    return GS_OK;
}

static gs_status seconds_of(const measurement *m, measured work, size_t repeats, double *seconds) {
    GS_TRY(m->device->ops->finish(m->device));
    double start = gs_seconds();
    GS_TRY(work(m, repeats));
    GS_TRY(m->device->ops->finish(m->device));
    *seconds = gs_seconds() - start;
    return GS_OK;
}

/* Seconds per repeat, with enough repeats to measure them. */
static gs_status best_of(const measurement *m, measured work, double seconds, double *one) {
    double least = seconds / TAKES, took;
    size_t repeats = 1;
    GS_TRY(seconds_of(m, work, 1, &took)); /* compiles the kernels */
    GS_TRY(seconds_of(m, work, 1, &took));
    while (took < least) {
        repeats *= 2;
        GS_TRY(seconds_of(m, work, repeats, &took));
    }
    *one = took / (double)repeats;
    for (int i = 1; i < TAKES; i++) {
        GS_TRY(seconds_of(m, work, repeats, &took));
        *one = fmin(*one, took / (double)repeats);
    }
    return GS_OK;
}

static gs_status measure(measurement *m, double seconds, gs_roofline *out) {
    double one, each = seconds / (GS_ROOFLINE_SIZES + 1);
    m->count = FMA_FLOATS;
    GS_TRY(best_of(m, fma_loop, each, &one));
    out->flops = 2.0 * FMA_FLOATS / one;
    for (int i = GS_ROOFLINE_SIZES - 1; i >= 0; i--) {
        m->count = sizes[i];
        GS_TRY(best_of(m, triad, each, &one));
        out->bytes[i] = 12.0 * (double)sizes[i];
        out->rate[i] = out->bytes[i] / one;
        /* on a wide device a small kernel's launch takes longer than its memory traffic, so memory is not the limit */
        if (i + 1 < GS_ROOFLINE_SIZES) out->rate[i] = fmax(out->rate[i], out->rate[i + 1]);
    }
    return GS_OK;
}

gs_status gs_roofline_measure(gs_device *d, double seconds, gs_roofline *out) {
    measurement m = {.device = d};
    size_t bytes = sizes[GS_ROOFLINE_SIZES - 1] * sizeof(float);
    gs_status status = GS_OK;
    gs_mem *const place[] = {&m.y, &m.a, &m.b};
    for (int i = 0; i < 3 && status == GS_OK; i++) status = d->ops->alloc(d, bytes, place[i]);
    if (status == GS_OK) status = measure(&m, seconds, out);
    for (int i = 0; i < 3; i++) d->ops->free(d, *place[i]);
    return gs_context(status, "measuring the peak of %s", d->name);
}

double gs_roofline_rate(const gs_roofline *r, double bytes) {
    if (!(bytes > r->bytes[0])) return r->rate[0];
    for (int i = 1; i < GS_ROOFLINE_SIZES; i++)
        if (bytes < r->bytes[i]) {
            double share = log(bytes / r->bytes[i - 1]) / log(r->bytes[i] / r->bytes[i - 1]);
            return r->rate[i - 1] + share * (r->rate[i] - r->rate[i - 1]);
        }
    return r->rate[GS_ROOFLINE_SIZES - 1];
}

double gs_roofline_seconds(const gs_roofline *r, double flops, double bytes) {
    return fmax(flops / r->flops, bytes / gs_roofline_rate(r, bytes));
}

/* ---- measured parts ---- */

enum { ROW_DATA, ROW_LOSS, ROW_UPDATE, ROWS /* besides the layers */ };

/* A layer whose calls are timed. */
typedef struct timed {
    double start, outside; /* of the current call: when it began, and `inside` of the enclosing layer */
    gs_profile_row *row;   /* NULL: the layer is a view, which does nothing */
} timed;

typedef struct profiler {
    gs_worker worker; /* first, so that a pointer to it points to this struct */
    gs_profile *out;
    gs_dataset *loaded; /* NULL: the set is the caller's */
    const gs_dataset *set;
    char *model; /* the model's text, if adapted to the data */
    gs_comm *comm;
    double seconds;
    void *inputs, *targets; /* of the micro-batch that is used repeatedly */
    gs_loaded again;        /* this micro-batch, with the size that the schedule requires */
    gs_schedule_position at;
    gs_status (*from_loader)(gs_worker *, const gs_loaded **); /* the worker's own `next` */
    gs_layer_watcher watcher;
    gs_update_watcher updates;
    timed *layer;              /* [layers], by its number */
    double inside;             /* seconds in layers inside the current one, which itself takes the rest */
    gs_profile_row *own[ROWS]; /* sums over all steps, until measure_rows turns them into means */
    double mark;
    double waited;               /* seconds waited for the loader before `steps` began */
    double count, took, samples; /* of `steps`: number of steps, seconds, samples */
} profiler;

/* ---- the least bytes that must be moved: each operand once ---- */

/* The size of an array in floats; activations may be stored as 16-bit values (memory/half_storage.h). */
static double floats(bool half, double numbers) {
    return half ? numbers / 2 : numbers;
}

static double bytes_of(const gs_layer *l, gs_direction direction, double n) {
    const double in = floats(l->memory.x_half, n * (double)gs_shape_size(l->in)),
                 numbers = n * (double)gs_shape_size(gs_layer_y_shape(l)),
                 out = floats(l->memory.y_half, numbers), params = (double)gs_layer_weights(l),
                 weights = (double)(l->borrowed ? l->borrowed : l->param)->count,
                 index = numbers * (l->ops->extra_writes + (l->epilogue.pool != NULL)); /* at most */
    if (gs_layer_is_view(l)) return 0;
    if (l->children) /* a container's own work is an addition, y = a + b */
        return direction == GS_FORWARD || l->needs_dx
                   ? 3 * 4 * floats(l->memory.y_half, n * (double)gs_shape_size(l->out))
                   : 0;
    if (direction == GS_FORWARD) return 4 * (in + out + index + params);
    /* dy and y, with the index */
    const double read = out * (1 + l->ops->extra_reads - l->ops->extra_writes + l->epilogue.relu) + index;
    /* dw: dy and x are read, and dw is read and written; dx: w is read, and dx written */
    return 4 * (read + in + (params > 0 ? 2 * params + (l->needs_dx ? in + weights : 0) : 0));
}

/* Counted as gs_model counts: dx needs as many operations as forward, and dw and db together need as many again. A relu
 * or pooling that an earlier layer computes counts in that earlier layer. */
static double flops_of(const gs_layer *l, int direction, double n) {
    bool learns = gs_layer_weights(l) > 0;
    const gs_epilogue then = l->epilogue;
    double too = then.relu ? (double)gs_shape_size(l->out) : 0;
    if (then.pool)
        too += (double)gs_shape_size(gs_layer_y_shape(l)) * then.pool->kernel_h * then.pool->kernel_w;
    return n * (l->flops * (direction == GS_FORWARD ? 1 : l->needs_dx + learns) + too);
}

/* ---- the clock: around each layer, and between the parts of a step ---- */

static void add_to(gs_profile_cell *c, gs_profile_cell more) {
    c->seconds += more.seconds;
    c->flops += more.flops;
    c->bytes += more.bytes;
    c->least += more.least;
}

/* Add the time since the last mark to this row. */
static gs_status part_ends(profiler *p, int row, int direction, double flops, double bytes) {
    GS_TRY(p->worker.device->ops->finish(p->worker.device));
    const double now = gs_seconds(), least = gs_roofline_seconds(&p->out->roofline, flops, bytes);
    add_to(&p->own[row]->cell[direction], (gs_profile_cell){now - p->mark, flops, bytes, least});
    p->mark = now;
    return GS_OK;
}

/* Samples arrive before the model's forward; the loss and its gradient are computed between forward and backward. */
static gs_status before(void *context, const gs_layer *l, gs_direction direction, const gs_pass *pass,
                        gs_mem in) {
    (void)in;
    profiler *p = context;
    timed *t = &p->layer[l->number];
    const double pixels = (double)pass->n * (double)gs_shape_size(l->in),
                 outputs = 4 * (double)pass->n * (double)gs_shape_size(l->out);
    GS_TRY(p->worker.device->ops->finish(p->worker.device));
    /* 7 bytes per pixel: read and written on the way to the device (2), read again (1), and written as a float (4) */
    if (l == l->root && direction == GS_FORWARD)
        GS_TRY(part_ends(p, ROW_DATA, GS_FORWARD, 2 * pixels, 7 * pixels));
    if (l == l->root && direction == GS_BACKWARD) GS_TRY(part_ends(p, ROW_LOSS, GS_FORWARD, 0, 4 * outputs));
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
    GS_TRY(p->worker.device->ops->finish(p->worker.device));
    double took = gs_seconds() - t->start, n = (double)pass->n, flops = flops_of(l, direction, n);
    double bytes = bytes_of(l, direction, n);
    if (pass->recomputing && l->memory.rerun == GS_RERUN_INSIDE)
        flops = bytes = 0; /* its inner layers have counted them */
    const double least = gs_roofline_seconds(&p->out->roofline, flops, bytes);
    if (t->row) add_to(&t->row->cell[direction], (gs_profile_cell){took - p->inside, flops, bytes, least});
    p->inside = t->outside + took;
    p->mark = t->start + took;
    return GS_OK;
}

/* The update's time is counted from the end of the model's backward; it includes a search for the largest gradient. */
static gs_status after_update(void *context, const gs_optimizer *o, size_t first, size_t count) {
    (void)first;
    return part_ends(context, ROW_UPDATE, GS_BACKWARD, o->ops->flops * (double)count,
                     o->ops->bytes * (double)count);
}

static gs_profile_row *add_row(gs_profile *out, const char *name) {
    gs_profile_row *r = &out->rows[out->row_count++];
    snprintf(r->name, sizeof r->name, "%s", name);
    return r;
}

static gs_status add_layer(gs_layer *l, void *context) {
    const profiler *p = context;
    if (gs_layer_is_view(l)) return GS_OK;
    gs_profile_row *r = p->layer[l->number].row = add_row(p->out, *l->name ? l->name : "0");
    gs_layer_describe(l, r->what, sizeof r->what);
    return GS_OK;
}

/* From now on, time every layer of the worker's model. */
static gs_status time_layers(profiler *p) {
    gs_layer *net = p->worker.model->net;
    const size_t layers = gs_layer_count(net);
    GS_TRY(GS_NEW(p->layer, layers, "the times of %zu layers", layers));
    GS_TRY(GS_NEW(p->out->rows, layers + ROWS, "%zu rows", layers + ROWS));
    p->own[ROW_DATA] = add_row(p->out, "data");
    GS_TRY(gs_layer_walk(net, add_layer, p));
    p->own[ROW_LOSS] = add_row(p->out, "loss");
    p->own[ROW_UPDATE] = add_row(p->out, "update");
    p->watcher = (gs_layer_watcher){p, before, after, NULL};
    gs_layer_watch_begin(net, &p->watcher);
    p->updates = (gs_update_watcher){p, NULL, after_update};
    p->worker.optimizer->watcher = &p->updates;
    return GS_OK;
}

/* ---- steps: the steps of training (step.c), on one worker ---- */

/* Every step uses the first step's micro-batches. */
static gs_status next_again(gs_worker *w, const gs_loaded **next) {
    profiler *p = (profiler *)w;
    if (!gs_schedule_next(&w->schedule, &p->at, &p->again.micro_batch))
        gs_bug("a step has no more micro-batches");
    p->again.inputs = p->inputs;
    p->again.targets = p->targets;
    *next = &p->again;
    return GS_OK;
}

static gs_status step(profiler *p) {
    gs_worker *w = &p->worker;
    gs_score unused;
    p->at = gs_schedule_begin(&w->schedule);
    GS_TRY(w->device->ops->finish(w->device));
    p->mark = gs_seconds();
    GS_TRY(gs_strategy_synchronous.step(w, &unused));
    w->step++;
    return GS_OK;
}

/* Run steps for p->seconds, at least one step. */
static gs_status steps(profiler *p) {
    gs_worker *w = &p->worker;
    GS_TRY(step(p)); /* warms up the caches */
    GS_TRY(w->device->ops->finish(w->device));
    p->waited = gs_loader_waited(w->loader);
    const double start = gs_seconds(), before_them = w->measured.samples;
    p->count = 0;
    do {
        GS_TRY(step(p));
        p->count++;
    } while (gs_seconds() - start < p->seconds);
    GS_TRY(w->device->ops->finish(w->device));
    p->took = gs_seconds() - start;
    p->samples = w->measured.samples - before_them;
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
        if (status == GS_OK) samples += (double)next->micro_batch.n;
        took = gs_seconds() - start;
    } while (status == GS_OK && took < p->seconds);
    gs_loader_free(loader);
    p->out->loader = samples / took;
    return status;
}

static gs_status measure_step(profiler *p) {
    p->worker.next = next_again;
    GS_TRY(steps(p));
    p->out->step = p->samples / p->took;
    return GS_OK;
}

static gs_status measure_together(profiler *p) {
    gs_loader *loader = p->worker.loader;
    const gs_loaded *next;
    const double waited = gs_loader_waited(loader);
    /* Samples loaded before the clock started must not count towards the rate. */
    for (int i = 0; i < GS_LOADER_MOST_SLOTS && gs_loader_waited(loader) == waited; i++)
        GS_TRY(gs_loader_next(loader, &next));
    p->worker.next = p->from_loader;
    GS_TRY(steps(p));
    p->out->together = p->samples / p->took;
    p->out->waited = (gs_loader_waited(loader) - p->waited) / p->took;
    return GS_OK;
}

static gs_status measure_rows(profiler *p) {
    p->worker.next = next_again;
    GS_TRY(time_layers(p));
    GS_TRY(steps(p));
    const double count = p->count + 1; /* the first step was timed too */
    for (int i = 0; i < p->out->row_count; i++)
        for (int k = 0; k < GS_DIRECTIONS; k++) {
            gs_profile_cell *c = &p->out->rows[i].cell[k];
            *c = (gs_profile_cell){c->seconds / count, c->flops / count, c->bytes / count, c->least / count};
        }
    return GS_OK;
}

/* ---- set-up and clean-up ---- */

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
    GS_TRY(gs_comm_workers_create(1, NULL, s->timeout, &p->comm));
    GS_TRY(gs_worker_create(&p->worker, s, device, p->comm, gs_worker_threads(s, 1),
                            gs_dataset_scaling(p->set), p->set, NULL));
    gs_worker *w = &p->worker;
    size_t micro_batch = w->schedule.most;
    p->inputs = malloc(micro_batch * gs_dataset_input_bytes(p->set));
    p->targets = malloc(micro_batch * gs_dataset_target_bytes(p->set));
    if (!p->inputs || !p->targets) return gs_fail(GS_E_MEMORY, "no memory for %zu samples", micro_batch);
    GS_TRY(gs_dataset_gather(p->set, NULL, 0, micro_batch, p->inputs, p->targets));
    p->from_loader = w->next;
    gs_profile *out = p->out;
    bool named = gs_model_named(s->model);
    snprintf(out->model, sizeof out->model, "%s", named ? s->model : w->model->text);
    snprintf(out->device, sizeof out->device, "%s: %s", w->device->name, w->device->description);
    out->params = w->model->params;
    out->batch = w->batch;
    out->sample_bytes = (double)gs_sample_bytes(p->set);
    out->precision = s->precision;
    out->throttle = 1e6 * s->throttle;
    GS_TRY(gs_warm_up(w));
    return gs_prepare_steps(w);
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

/* Let `measure` add to *out, which is freed on failure. */
static gs_status run(const gs_settings *settings, double seconds, gs_status (*measure)(profiler *),
                     gs_profile *out) {
    GS_TRY(gs_check_each_setting(settings));
    gs_settings s = *settings;
    s.lr = 0;
    s.epochs = INT_MAX; /* the schedule never ends */
    s.steps = 0;
    s.sync = gs_settings_default().sync;
    s.bucket = 0;
    s.measure = false;
    if (!s.model) s.model = "mlp";
    profiler p = {.out = out, .seconds = seconds};
    gs_status status = prepare(&p, &s);
    if (status == GS_OK) status = measure(&p);
    gs_worker_free(&p.worker);
    gs_comm_free(p.comm);
    gs_dataset_free(p.loaded);
    free(p.model);
    free(p.inputs);
    free(p.targets);
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
            /* a layer that moves no bytes is computed by an earlier layer */
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

gs_profile_cell gs_profile_total(const gs_profile *p) {
    gs_profile_cell sum = {0};
    for (int i = 0; i < p->row_count; i++)
        for (int k = 0; k < GS_DIRECTIONS; k++) add_to(&sum, p->rows[i].cell[k]);
    return sum;
}
