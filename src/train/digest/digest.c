/* A worker's record: adds up what layers, optimiser and loader report during a step, and writes it after the step. */
#include "train/digest/digest.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "parallel/tensor.h"
#include "layer/watch.h"
#include "train/hooks.h"
#include "train/options/options.h"
#include "train/strategy.h"

/* ---- data ----
 *
 * In a tensor group (parallel/tensor.h) each member records its shard of divided arrays, at the shard's positions in
 * the whole array; only the first member records arrays that all of them hold. The records of a group thus add up to
 * the record of a single worker. */

/* A sample's array at the input or output of a layer. */
typedef struct vector {
    size_t each, whole;  /* number of elements in this shard, and in the whole array */
    gs_tensor_rows rows; /* the shard's positions in the whole array */
    bool elsewhere;      /* another member of the group records it */
} vector;

typedef struct layer_record {
    vector y, dx;
    int masks; /* number of passes in this step that drew a mask */
} layer_record;

typedef struct param_record {
    int layer;
    gs_mem place;     /* where the watched layers hold the parameter */
    gs_sketch before; /* dw at the end of the last pass */
    int passes;       /* number of passes in this step that added to dw */
} param_record;

struct gs_digest {
    gs_worker *worker;
    FILE *file;
    char path[4096];
    char stopped[GS_DIGEST_WHY]; /* why the record ended early (the file is then closed); otherwise "" */
    int numbers;                 /* the number of layers or of parameters, whichever is larger */
    gs_sketch *table;            /* (kinds, numbers, parts) of the current step */
    layer_record *layer;
    param_record *param;
    float *room; /* buffer for a copy of a device array */
    size_t room_count;
    size_t own; /* number of samples loaded in this step */
    double scale;
    gs_update_watcher updates;
    gs_layer_watcher layers;
};

static size_t cells_of(const gs_digest *d) {
    return (size_t)GS_DIGEST_KINDS_COUNT * (size_t)d->numbers * GS_DIGEST_PARTS;
}

static gs_sketch *cell(gs_digest *d, gs_digest_kind kind, int number, int part) {
    if (part >= GS_DIGEST_PARTS) part = GS_DIGEST_PARTS - 1;
    return &d->table[((size_t)kind * (size_t)d->numbers + (size_t)number) * GS_DIGEST_PARTS + (size_t)part];
}

/* ---- positions in whole arrays ---- */

static const gs_layer *layer_numbered(const gs_layer *l, int number) {
    const gs_layer *found = l->number == number ? l : NULL;
    for (int i = 0; i < l->children && !found; i++) found = layer_numbered(l->child[i], number);
    return found;
}

/* The number of equal blocks in a token's array: 3 if it holds q, k and v (inside a pair), otherwise 1. */
static int blocks_of(const gs_layer *l, bool input) {
    const bool has = l->shard && input == (l->ops->tensor == GS_TENSOR_HEADS);
    return has ? l->shard->blocks : 1;
}

/* Describe the input or output of a layer, which belongs to m or to a stage or replica of m. */
static vector vector_of(const gs_model *m, const gs_layer *l, bool input) {
    const gs_shape here = input ? l->in : l->out;
    const size_t each = gs_shape_size(here);
    vector v = {each, each, {1, each, each, each, 0}, false};
    if (!m->undivided) return v;
    const gs_layer *of_all = layer_numbered(m->undivided->net, l->number);
    const gs_shape all = input ? of_all->in : of_all->out;
    const bool tokens =
        gs_shape_tokens(all) != gs_shape_tokens(here); /* this member has some tokens (parallel/sequence.h) */
    v.elsewhere = all.c == here.c && !tokens && m->tensor.rank > 0;
    if (all.c == here.c && !tokens) return v;
    v.whole = gs_shape_size(all);
    v.rows.whole_first = each * (size_t)m->tensor.rank;
    if (tokens) return v;
    const size_t plane = (size_t)here.h * (size_t)here.w;
    const int blocks = blocks_of(l, input);
    const gs_share share = gs_tensor_share(&m->tensor, all.c / blocks);
    const size_t floats = (size_t)here.c / (size_t)blocks * plane,
                 step = (size_t)all.c / (size_t)blocks * plane;
    v.rows = (gs_tensor_rows){(size_t)gs_shape_tokens(here) * (size_t)blocks, floats, floats, step,
                              (size_t)gs_share_first(&share) * plane};
    return v;
}

/* Add elements from .. from + count - 1 of a shard whose whole array begins at position `at`. */
static void add_rows(gs_sketch *to, const gs_tensor_rows *r, const float *x, size_t from, size_t count,
                     uint64_t at) {
    for (size_t done = 0; done < count;) {
        const size_t run = (from + done) / r->floats, inside = (from + done) % r->floats,
                     n = gs_smaller(r->floats - inside, count - done);
        gs_sketch_add(to, x + done, n, at + r->whole_first + run * r->whole_step + inside);
        done += n;
    }
}

static void add_vector(gs_sketch *to, const vector *v, const float *x, uint64_t sample) {
    if (!v->elsewhere) add_rows(to, &v->rows, x, 0, v->each, sample * v->whole);
}

/* Add elements from .. from + count - 1 of parameter p of m. False: another member of the group records them. */
static bool add_numbers(gs_sketch *to, const gs_model *m, int p, const float *x, size_t from, size_t count) {
    const gs_param *part = m->param[p];
    const gs_model *whole = gs_model_whole(m);
    if (part->cut == GS_UNCUT && m->tensor.rank > 0) return false;
    const gs_tensor_rows r = gs_tensor_rows_of(part, m->tensor.rank, m->tensor.size);
    add_rows(to, &r, x, from, count, whole->param[p]->at);
    return true;
}

/* ---- the file: see digest.h ---- */

const char *const gs_digest_names[] = {
#define GS_NAME(name, title) #name,
    GS_DIGEST_KINDS(GS_NAME)
#undef GS_NAME
};

/* Make sure that everything written so far survives the death of the process. */
static gs_status flush(gs_digest *d) {
    struct stat s;
    if (fflush(d->file) != 0 || ferror(d->file))
        return gs_fail(GS_E_FILE, "--digest: cannot write %s: %s", d->path, strerror(errno));
    const bool nameless = fstat(fileno(d->file), &s) == 0 && s.st_nlink == 0;
    if (!nameless || access(d->path, F_OK) == 0) return GS_OK;
    return gs_fail(GS_E_FILE, "--digest: %s was removed while the run wrote it", d->path);
}

static gs_status open_new(gs_digest *d) {
    const char *folder = d->worker->settings->digest;
    if (mkdir(folder, 0777) != 0 && errno != EEXIST)
        return gs_fail(GS_E_FILE, "--digest: cannot make the folder %s: %s", folder, strerror(errno));
    const int length = snprintf(d->path, sizeof d->path, "%s/rank-%d.digest", folder, d->worker->comm->rank);
    if (length >= (int)sizeof d->path)
        return gs_fail(GS_E_USAGE, "--digest: the name of the folder is too long");
    d->file = fopen(d->path, "wx");
    if (d->file) return GS_OK;
    if (errno == EEXIST)
        return gs_fail(GS_E_FILE, "--digest: %s is there already; wanted a new folder for each run", d->path);
    return gs_fail(GS_E_FILE, "--digest: cannot write %s: %s", d->path, strerror(errno));
}

static gs_status write_layer(gs_layer *l, void *context) {
    const gs_digest *d = context;
    fprintf(d->file, "layer %d %s %s\n", l->number, l->ops->name, l->name[0] ? l->name : "-");
    return GS_OK;
}

/* Write the settings that determine what is computed, or how it is divided. */
static void write_options(const gs_digest *d) {
    const gs_settings s = gs_settings_in_use(d->worker);
    char room[GS_OPTION_TEXT_MOST];
    fprintf(d->file, "option model %s\n", d->worker->model->text);
    for (const gs_run_option *o = gs_run_table; o->name; o++) {
        const bool decides = o->resume != GS_RESUME_FREE || o->json[GS_JSON_START] || o->json[GS_JSON_LOG];
        if (strcmp(o->name, "model") == 0 || !decides) continue;
        fprintf(d->file, "option %s %s\n", o->name, gs_run_option_text(o, &s, room));
    }
}

/* Write everything up to "start". */
static gs_status write_start(gs_digest *d) {
    const gs_worker *w = d->worker;
    const gs_model *m = w->model, *whole = gs_model_whole(m);
    GS_TRY(open_new(d));
    fprintf(d->file, "gradsum digest %d rank %d of %d\n", GS_DIGEST_VERSION, w->comm->rank, w->comm->size);
    write_options(d);
    fprintf(d->file, "set %zu\n", w->train_set->count);
    GS_TRY(gs_layer_walk(m->net, write_layer, d));
    for (int p = 0; p < m->saved_count; p++)
        fprintf(d->file, "param %d %zu %zu %d %d %s\n", p, whole->param[p]->at, whole->param[p]->count,
                m->param[p]->state, d->param[p].layer, m->param[p]->name);
    fprintf(d->file, "start\n");
    return flush(d);
}

/* Write the step. If this fails (because the disk is full or the file was removed), this rank stops recording and tells
 * the observer, but training continues, because its result is worth more than the record. */
static void write_step(gs_digest *d, uint64_t step, const gs_digest_score *s) {
    const gs_observer *observer = d->worker->observer;
    size_t rows = 0;
    for (size_t i = 0; i < cells_of(d) && d->file; i++) {
        const size_t number = i / GS_DIGEST_PARTS;
        const gs_sketch *x = &d->table[i];
        if (!(x->n > 0)) continue;
        rows++;
        fprintf(d->file, "%s %" PRIu64 " %zu %zu %.0f %.10g %.10g",
                gs_digest_names[number / (size_t)d->numbers], step, number % (size_t)d->numbers,
                i % GS_DIGEST_PARTS, x->n, x->sum, x->squares);
        for (int k = 0; k < GS_ALONG; k++) fprintf(d->file, " %.10g", x->along[k]);
        fprintf(d->file, " %" PRIx64 "\n", x->bits);
    }
    if (!d->file) return; /* recording has stopped */
    fprintf(d->file, "score %" PRIu64 " %.17g %.17g %.17g %.17g %.17g %.17g %.17g %.17g %.17g %.17g\n", step,
            s->loss, s->correct, s->samples, s->lr, s->scale, s->norm, s->updates, s->loss_scale, s->skipped,
            s->held);
    fprintf(d->file, "end %" PRIu64 " %zu\n", step, rows);
    if (flush(d) == GS_OK) return;
    snprintf(d->stopped, sizeof d->stopped,
             "%.900s; this record stops before step %" PRIu64 ", training continues", gs_message(), step);
    fclose(d->file);
    d->file = NULL;
    if (observer->note) observer->note(observer->context, d->stopped);
}

/* Copy `count` elements from the device to d->room. 16-bit elements are first read into space after the floats. */
static gs_status fetch(gs_digest *d, gs_mem x, size_t count) {
    gs_device *device = d->worker->device;
    const size_t halves = x.half ? (count + 1) / 2 : 0, all = count + halves;
    if (all > d->room_count) {
        free(d->room);
        d->room_count = 0;
        GS_TRY(GS_NEW(d->room, all, "%zu numbers (--digest)", count));
        d->room_count = all;
    }
    if (!x.half) return device->ops->read(device, d->room, x, count * sizeof *d->room);
    GS_TRY(device->ops->read(device, d->room + count, x, halves * sizeof *d->room));
    gs_wire_widen(device->precision == GS_PRECISION_BF16 ? GS_WIRE_BF16 : GS_WIRE_F16, d->room,
                  (const uint16_t *)(const void *)(d->room + count), count);
    return GS_OK;
}

/* ---- arrays of samples ---- */

/* Add all samples of the pass, at their positions in the global batch. */
static gs_status add_on_device(gs_digest *d, gs_digest_kind kind, int number, gs_mem x, const vector *v,
                               const gs_pass *pass) {
    if (v->elsewhere) return GS_OK;
    GS_TRY(fetch(d, x, pass->n * v->each));
    for (size_t i = 0; i < pass->n; i++) {
        const int part = gs_digest_eighth(pass->first + i, d->worker->micro_batch.batch);
        add_vector(cell(d, kind, number, part), v, d->room + i * v->each, pass->first + i);
    }
    return GS_OK;
}

/* Images are bytes, unless the data set contains floats; labels are int32, and other targets are floats. */
typedef enum loaded { BYTES, FLOATS, LABELS } loaded;

static float value(const void *x, size_t at, loaded type) {
    if (type == BYTES) return ((const uint8_t *)x)[at];
    return type == FLOATS ? ((const float *)x)[at] : (float)((const int32_t *)x)[at];
}

static void add_loaded(gs_digest *d, gs_digest_kind kind, const void *x, loaded type, size_t n, size_t each,
                       size_t place) {
    for (size_t i = 0; i < n; i++) {
        const int part =
            kind == GS_DIGEST_own ? 0 : gs_digest_eighth(place + i, d->worker->micro_batch.batch);
        for (size_t k = 0; k < each; k++) {
            const float v = value(x, i * each + k, type);
            gs_sketch_add(cell(d, kind, 0, part), &v, 1, (uint64_t)(place + i) * each + k);
        }
    }
}

static gs_status add_samples(gs_worker *w, const gs_loaded *l) {
    gs_digest *d = w->digest;
    if (!d) return GS_OK;
    const size_t n = l->micro_batch.n, each = gs_shape_size(w->model->in),
                 targets = w->input.target_bytes / 4;
    const loaded type = gs_dataset_is_numbers(w->train_set) ? FLOATS : BYTES;
    const size_t own = d->own;
    d->own += n;
    if (w->model->tensor.rank > 0) return GS_OK; /* the group's first member records them */
    add_loaded(d, GS_DIGEST_samples, l->inputs, type, n, each, l->micro_batch.offset);
    add_loaded(d, GS_DIGEST_own, l->inputs, type, n, each, own);
    add_loaded(d, GS_DIGEST_answers, l->targets, w->train_set->targets ? FLOATS : LABELS, n, targets,
               l->micro_batch.offset);
    return GS_OK;
}

/* ---- layers ---- */

/* A parameter's index in the model. */
static int param_of(const gs_digest *d, const gs_param *p) {
    const gs_model *m = d->worker->model;
    int i = 0;
    while (i < m->saved_count && m->param[i]->at != p->at) i++;
    return i;
}

static gs_status add_param(gs_digest *d, gs_digest_kind kind, const gs_param *p, gs_mem x, int part) {
    gs_sketch *to = cell(d, kind, param_of(d, p), part);
    if (to->n > 0) return GS_OK; /* recorded in this step's first pass */
    GS_TRY(fetch(d, x, p->count));
    (void)add_numbers(to, d->worker->model, param_of(d, p), d->room, 0, p->count);
    return GS_OK;
}

static gs_status add_weights(gs_digest *d, const gs_layer *l) {
    for (int i = 0; i < l->params; i++)
        if (!l->param[i].state && l->param[i].w.base)
            GS_TRY(add_param(d, GS_DIGEST_weight, &l->param[i], l->param[i].w, 0));
    return l->borrowed ? add_param(d, GS_DIGEST_weight, l->borrowed, l->borrowed->w, 1) : GS_OK;
}

/* Add this pass's contribution to dw: all of dw if the pass began from 0 (fresh) or if each pass has a separate sum. */
static gs_status add_dw(gs_digest *d, const gs_param *p, bool fresh, bool apart) {
    const int number = param_of(d, p);
    gs_sketch now = {0};
    GS_TRY(fetch(d, p->dw, p->count));
    if (!add_numbers(&now, d->worker->model, number, d->room, 0, p->count)) return GS_OK;
    gs_sketch added = now;
    if (!fresh && !apart) gs_sketch_add_scaled(&added, -1, &d->param[number].before);
    gs_sketch *to = cell(d, GS_DIGEST_dw, number, d->param[number].passes++);
    gs_sketch_add_scaled(to, 1, &added);
    to->n = (double)p->count;
    d->param[number].before = now;
    return GS_OK;
}

static gs_status add_gradients(gs_digest *d, const gs_layer *l, const gs_pass *pass) {
    const gs_worker *w = d->worker;
    const bool apart = w->partition.gradients_cut && !(l->lent && gs_has_stages(w));
    for (int i = 0; i < l->params; i++)
        if (!l->param[i].state && l->param[i].dw.base) GS_TRY(add_dw(d, &l->param[i], pass->fresh, apart));
    /* The table of another pipeline stage. With --exact that stage receives this gradient before it adds its own. */
    const bool of_other = l->borrowed && l->root->child[0]->other_stage && !w->settings->exact;
    return of_other ? add_dw(d, l->borrowed, false, false) : GS_OK;
}

/* Record the mask of the y in d->room. An output of 0 counts as masked, although the input may have been 0. */
static void add_mask(gs_digest *d, int layer, size_t samples, const vector *v) {
    gs_sketch *to = cell(d, GS_DIGEST_mask, layer, d->layer[layer].masks++);
    for (size_t i = 0; i < samples * v->each; i++) d->room[i] = d->room[i] > 0 || d->room[i] < 0 ? 1 : 0;
    for (size_t i = 0; i < samples; i++) add_vector(to, v, d->room + i * v->each, i);
}

/* With --recompute, forward may run twice; only the first run is recorded. */
static bool is_recorded(gs_direction direction, const gs_pass *pass) {
    return pass->training && pass->n > 0 && !(direction == GS_FORWARD && pass->recomputing);
}

static gs_status before_layer(void *context, const gs_layer *l, gs_direction direction, const gs_pass *pass,
                              gs_mem in) {
    gs_digest *d = context;
    if (!is_recorded(direction, pass)) return GS_OK;
    const bool forward = direction == GS_FORWARD;
    const gs_layer *outermost = l->children > 0 ? l->child[forward ? 0 : l->children - 1] : l;
    const vector *v = forward ? &d->layer[l->number].dx : &d->layer[l->number].y;
    if (l == l->root && !outermost->other_stage)
        GS_TRY(add_on_device(d, forward ? GS_DIGEST_x : GS_DIGEST_dy, 0, in, v, pass));
    return forward ? add_weights(d, l) : GS_OK;
}

static gs_status after_layer(void *context, const gs_layer *l, gs_direction direction, const gs_pass *pass,
                             gs_mem out) {
    gs_digest *d = context;
    if (!is_recorded(direction, pass)) return GS_OK;
    if (direction == GS_BACKWARD) {
        GS_TRY(add_gradients(d, l, pass));
        if (!out.base || gs_layer_is_view(l)) return GS_OK;
        return add_on_device(d, GS_DIGEST_dx, l->number, out, &d->layer[l->number].dx, pass);
    }
    if (gs_layer_is_view(l)) return GS_OK;
    const vector *y = &d->layer[l->number].y;
    GS_TRY(add_on_device(d, GS_DIGEST_y, l->number, out, y, pass));
    if (strcmp(l->ops->name, "dropout") == 0 && !y->elsewhere) add_mask(d, l->number, pass->n, y);
    return GS_OK;
}

/* ---- the update ---- */

/* Add elements first .. first + count - 1 of an array laid out like the model's flat one; x points to the first. */
static gs_status add_range(gs_digest *d, gs_digest_kind kind, gs_mem x, size_t first, size_t count,
                           int part) {
    const gs_model *m = d->worker->model;
    for (int p = 0; p < m->param_count; p++) {
        const size_t from = m->param[p]->at > first ? m->param[p]->at : first,
                     end = m->param[p]->at + m->param[p]->count,
                     to = end < first + count ? end : first + count;
        if (from >= to) continue;
        GS_TRY(fetch(d, gs_at(x, from - first), to - from));
        gs_sketch *here = cell(d, kind, p, part);
        if (here->n >= (double)m->param[p]->count) *here = (gs_sketch){0}; /* a second update in this step */
        (void)add_numbers(here, m, p, d->room, from - m->param[p]->at, to - from);
    }
    return GS_OK;
}

static gs_status add_updated(gs_digest *d, const gs_optimizer *o, gs_mem weights, size_t first, size_t count,
                             size_t vector_at, int part) {
    GS_TRY(add_range(d, GS_DIGEST_updated, weights, first, count, part));
    for (int i = 0; i < o->vectors && i < 2; i++)
        GS_TRY(add_range(d, GS_DIGEST_vector0 + i, gs_at(o->vector[i], vector_at), first, count, part));
    return GS_OK;
}

static gs_status before_update(void *context, const gs_optimizer *o, size_t first, size_t count,
                               float scale) {
    gs_digest *d = context;
    d->scale = (double)scale;
    for (int i = 0; o->divided && i < o->divided->parts; i++) {
        const gs_held_shard *p = &o->divided->part[i];
        GS_TRY(add_range(d, GS_DIGEST_sum, p->gradients, p->first, p->count, p->common));
    }
    if (o->divided) return GS_OK;
    return add_range(d, GS_DIGEST_sum, gs_at(o->model->gradients, first), first, count,
                     o->part && o->part->common);
}

static gs_status after_update(void *context, const gs_optimizer *o, size_t first, size_t count) {
    gs_digest *d = context;
    for (int i = 0; o->divided && i < o->divided->parts; i++) {
        const gs_held_shard *p = &o->divided->part[i];
        GS_TRY(add_updated(d, o, p->weights, p->first, p->count, p->vector_at, p->common));
    }
    if (o->divided) return GS_OK;
    return add_updated(d, o, gs_at(o->model->weights, first), first, count, first,
                       o->part && o->part->common);
}

/* ---- a step ---- */

static bool has_layer(gs_digest *d, int layer) {
    for (int part = 0; part < GS_DIGEST_EIGHTHS; part++)
        if (cell(d, GS_DIGEST_y, layer, part)->n > 0) return true;
    return false;
}

/* A pipeline stage records the state of its own layers only, from the memory in which it holds them. */
static gs_status add_state(gs_digest *d) {
    const gs_model *m = d->worker->model;
    const bool split = gs_has_stages(d->worker);
    for (int p = m->param_count; p < m->saved_count; p++) {
        if (split && (!d->param[p].place.base || !has_layer(d, d->param[p].layer))) continue;
        const gs_mem place = split ? d->param[p].place : gs_at(m->weights, m->param[p]->at);
        GS_TRY(add_param(d, GS_DIGEST_state, m->param[p], place, 0));
    }
    return GS_OK;
}

static gs_status after_step(gs_worker *w, gs_event *e) {
    gs_digest *d = w->digest;
    if (!d) return GS_OK;
    const gs_optimizer *o = w->optimizer;
    const gs_score *of = &e->score;
    GS_TRY(add_state(d));
    const gs_digest_score score = {.loss = of->loss,
                                   .correct = of->correct,
                                   .samples = of->samples,
                                   .lr = (double)o->lr,
                                   .scale = d->scale,
                                   .norm = o->clip > 0 ? o->norm : 0,
                                   .updates = (double)o->updates,
                                   .loss_scale = (double)of->loss_scale,
                                   .skipped = of->skipped,
                                   .held = (double)d->own};
    write_step(d, w->step, &score);
    memset(d->table, 0, cells_of(d) * sizeof *d->table);
    for (int i = 0; i < d->numbers; i++) {
        d->layer[i].masks = d->param[i].passes = 0;
        d->param[i].before = (gs_sketch){0};
    }
    d->own = 0;
    d->scale = 0;
    return GS_OK;
}

/* Also tell rank 0's observer which other ranks stopped recording. */
static gs_status end(gs_worker *w, gs_event *e) {
    const gs_digest *d = w->digest;
    const gs_observer *observer = w->observer;
    if (!d) return GS_OK;
    const size_t ranks = (size_t)w->comm->size;
    char *all;
    GS_TRY(GS_NEW(all, ranks * GS_DIGEST_WHY, "the notes of %zu ranks (--digest)", ranks));
    const gs_status status = gs_comm_all_gather(w->comm, d->stopped, all, GS_DIGEST_WHY, GS_U8);
    for (size_t r = 0; status == GS_OK && r < ranks; r++) {
        char *why = all + r * GS_DIGEST_WHY;
        why[GS_DIGEST_WHY - 1] = '\0'; /* other ranks are not trusted */
        if (*why && r != (size_t)w->comm->rank && observer->note) observer->note(observer->context, why);
        e->result->digest_lost |= *why != '\0';
    }
    free(all);
    return status;
}

/* ---- creation and release ---- */

static gs_status place_layer(gs_layer *l, void *context) {
    gs_digest *d = context;
    for (int i = 0; i < l->params; i++) {
        const int p = param_of(d, &l->param[i]);
        d->param[p].layer = l->number;
        if (!l->other_stage) d->param[p].place = l->param[i].w;
    }
    d->layer[l->number].y = vector_of(d->worker->model, l, false);
    d->layer[l->number].dx = vector_of(d->worker->model, l, true);
    return GS_OK;
}

static gs_status watch(const gs_worker *w, gs_layer *net) {
    gs_digest *d = w->digest;
    if (!d) return GS_OK;
    gs_layer_watch_begin(net, &d->layers);
    return gs_layer_walk(net, place_layer, d);
}

static gs_status create(gs_worker *w) {
    const gs_model *m = w->model;
    if (!w->settings->digest) return GS_OK;
    GS_TRY(GS_NEW(w->digest, 1, "--digest"));
    gs_digest *d = w->digest;
    d->worker = w;
    const size_t layers = gs_layer_count(m->net), params = (size_t)m->saved_count;
    d->numbers = (int)(layers > params ? layers : params);
    const size_t count = (size_t)d->numbers;
    GS_TRY(GS_NEW(d->table, cells_of(d), "the numbers of %zu layers (--digest)", layers));
    GS_TRY(GS_NEW(d->layer, count, "%zu layers (--digest)", layers));
    GS_TRY(GS_NEW(d->param, count, "%zu tensors (--digest)", params));
    d->layers = (gs_layer_watcher){d, before_layer, after_layer, NULL};
    d->updates = (gs_update_watcher){d, before_update, after_update};
    w->optimizer->watcher = &d->updates;
    GS_TRY(watch(w, m->net));
    return write_start(d);
}

static void free_digest(gs_worker *w) {
    gs_digest *d = w->digest;
    if (!d) return;
    if (d->file) fclose(d->file);
    free(d->table);
    free(d->layer);
    free(d->param);
    free(d->room);
    free(d);
}

const gs_hook gs_hook_digest = {.create = create,
                                .model = watch,
                                .loaded = add_samples,
                                .after_step = after_step,
                                .end = end,
                                .free = free_digest};
