/* The record of a worker: what layers, the optimiser and the loader show is added up until the step ends. */
#include "train/digest/digest.h"

#include <stdlib.h>
#include <string.h>

#include "sync/wire.h"
#include "train/digest/record.h"
#include "train/hooks.h"

gs_numbers *gs_digest_cell(gs_digest *d, gs_digest_kind kind, int number, int part) {
    if (part >= GS_DIGEST_PARTS) part = GS_DIGEST_PARTS - 1;
    return &d->table[((size_t)kind * (size_t)d->numbers + (size_t)number) * GS_DIGEST_PARTS + (size_t)part];
}

/* Numbers of 16 bits are read into the room behind the floats that they are widened to. */
gs_status gs_digest_fetch(gs_digest *d, gs_mem x, size_t count) {
    gs_device *device = d->worker->device;
    const size_t halves = x.half ? (count + 1) / 2 : 0, all = count + halves;
    if (all > d->room_count) {
        free(d->room);
        d->room_count = 0;
        d->room = malloc(all * sizeof *d->room);
        if (!d->room) return gs_fail(GS_E_MEMORY, "--digest: no memory for %zu numbers", count);
        d->room_count = all;
    }
    if (!x.half) return device->ops->read(device, d->room, x, count * sizeof *d->room);
    GS_TRY(device->ops->read(device, d->room + count, x, halves * sizeof *d->room));
    gs_wire_widen(device->precision == GS_PRECISION_BF16 ? GS_WIRE_BF16 : GS_WIRE_F16, d->room,
                  (const uint16_t *)(const void *)(d->room + count), count);
    return GS_OK;
}

/* ---- arrays of samples ---- */

/* Of all samples of the pass; the first has its place in the global batch. */
static gs_status add_on_device(gs_digest *d, gs_digest_kind kind, int number, gs_mem x,
                               const gs_digest_vector *v, const gs_pass *pass) {
    if (v->elsewhere) return GS_OK;
    GS_TRY(gs_digest_fetch(d, x, pass->n * v->each));
    for (size_t i = 0; i < pass->n; i++) {
        const int part = gs_digest_eighth(pass->first + i, d->worker->piece.batch);
        gs_digest_add_vector(gs_digest_cell(d, kind, number, part), v, d->room + i * v->each,
                             pass->first + i);
    }
    return GS_OK;
}

/* Images are bytes, unless the set is numbers; labels are int32, and targets are numbers. */
typedef enum loaded { BYTES, FLOATS, LABELS } loaded;

static float value(const void *x, size_t at, loaded type) {
    if (type == BYTES) return ((const uint8_t *)x)[at];
    return type == FLOATS ? ((const float *)x)[at] : (float)((const int32_t *)x)[at];
}

static void add_loaded(gs_digest *d, gs_digest_kind kind, const void *x, loaded type, size_t n, size_t each,
                       size_t place) {
    for (size_t i = 0; i < n; i++) {
        const int part = kind == GS_DIGEST_own ? 0 : gs_digest_eighth(place + i, d->worker->piece.batch);
        for (size_t k = 0; k < each; k++) {
            const float v = value(x, i * each + k, type);
            gs_numbers_add(gs_digest_cell(d, kind, 0, part), &v, 1, (uint64_t)(place + i) * each + k);
        }
    }
}

static gs_status add_samples(gs_worker *w, const gs_loaded *l) {
    gs_digest *d = w->digest;
    if (!d) return GS_OK;
    const size_t n = l->piece.n, each = gs_shape_size(w->model->in), answers = w->input.answer_bytes / 4;
    const loaded type = gs_dataset_is_numbers(w->train_set) ? FLOATS : BYTES;
    const size_t own = d->own;
    d->own += n;
    if (w->model->tensor.rank > 0) return GS_OK; /* the first of the group has the same */
    add_loaded(d, GS_DIGEST_samples, l->inputs, type, n, each, l->piece.place);
    add_loaded(d, GS_DIGEST_own, l->inputs, type, n, each, own);
    add_loaded(d, GS_DIGEST_answers, l->answers, w->train_set->targets ? FLOATS : LABELS, n, answers,
               l->piece.place);
    return GS_OK;
}

/* ---- layers ---- */

/* The model's own number of a parameter. */
static int param_of(const gs_digest *d, const gs_param *p) {
    const gs_model *m = d->worker->model;
    int i = 0;
    while (i < m->saved_count && m->param[i]->at != p->at) i++;
    return i;
}

static gs_status add_param(gs_digest *d, gs_digest_kind kind, const gs_param *p, gs_mem x, int part) {
    gs_numbers *to = gs_digest_cell(d, kind, param_of(d, p), part);
    if (to->n > 0) return GS_OK; /* of this step's first pass */
    GS_TRY(gs_digest_fetch(d, x, p->count));
    (void)gs_digest_add_param(to, d->worker->model, param_of(d, p), d->room, 0, p->count);
    return GS_OK;
}

static gs_status add_weights(gs_digest *d, const gs_layer *l) {
    for (int i = 0; i < l->params; i++)
        if (!l->param[i].state && l->param[i].w.base)
            GS_TRY(add_param(d, GS_DIGEST_weight, &l->param[i], l->param[i].w, 0));
    return l->borrowed ? add_param(d, GS_DIGEST_weight, l->borrowed, l->borrowed->w, 1) : GS_OK;
}

/* What this pass has added to dw: all of it if the pass began with 0 (fresh), or if each pass has a sum of its own. */
static gs_status add_dw(gs_digest *d, const gs_param *p, bool fresh, bool apart) {
    const int number = param_of(d, p);
    gs_numbers now = {0};
    GS_TRY(gs_digest_fetch(d, p->dw, p->count));
    if (!gs_digest_add_param(&now, d->worker->model, number, d->room, 0, p->count)) return GS_OK;
    gs_numbers added = now;
    if (!fresh && !apart) gs_numbers_add_scaled(&added, -1, &d->before[number]);
    gs_numbers *to = gs_digest_cell(d, GS_DIGEST_dw, number, d->passes[number]++);
    gs_numbers_add_scaled(to, 1, &added);
    to->n = (double)p->count;
    d->before[number] = now;
    return GS_OK;
}

static gs_status add_gradients(gs_digest *d, const gs_layer *l, const gs_pass *pass) {
    const gs_worker *w = d->worker;
    const bool apart = w->holding.gradients_cut && !(l->lent && gs_has_stages(w));
    for (int i = 0; i < l->params; i++)
        if (!l->param[i].state && l->param[i].dw.base) GS_TRY(add_dw(d, &l->param[i], pass->fresh, apart));
    /* A table that another stage of a pipeline has. With --exact its gradient goes there before that stage adds. */
    const bool of_other = l->borrowed && l->root->child[0]->elsewhere && !w->settings->exact;
    return of_other ? add_dw(d, l->borrowed, false, false) : GS_OK;
}

/* An output of 0 was masked, unless its input was 0. */
static void add_mask(gs_digest *d, int layer, size_t samples, const gs_digest_vector *v) {
    gs_numbers *to = gs_digest_cell(d, GS_DIGEST_mask, layer, d->masks[layer]++);
    for (size_t i = 0; i < samples * v->each; i++) {
        const float kept = d->room[i] > 0 || d->room[i] < 0 ? 1 : 0;
        gs_numbers_add(to, &kept, 1, i / v->each * v->whole + v->first + i % v->each);
    }
}

static const gs_layer *outermost_first(const gs_layer *l) {
    return l->children > 0 ? l->child[0] : l;
}

/* With --recompute a forward may come again. */
static bool is_forward_again(gs_direction direction, const gs_pass *pass) {
    return direction == GS_FORWARD && pass->again;
}

static gs_status before_layer(void *context, const gs_layer *l, gs_direction direction, const gs_pass *pass,
                              gs_mem in) {
    gs_digest *d = context;
    if (!pass->training || pass->n == 0 || is_forward_again(direction, pass)) return GS_OK;
    const bool root = l == l->root;
    if (direction == GS_FORWARD) {
        if (root && !outermost_first(l)->elsewhere)
            GS_TRY(add_on_device(d, GS_DIGEST_x, 0, in, &d->layer[l->number].dx, pass));
        return add_weights(d, l);
    }
    if (!root || (l->children > 0 && l->child[l->children - 1]->elsewhere)) return GS_OK;
    return add_on_device(d, GS_DIGEST_dy, 0, in, &d->layer[l->number].y, pass);
}

static gs_status after_layer(void *context, const gs_layer *l, gs_direction direction, const gs_pass *pass,
                             gs_mem out) {
    gs_digest *d = context;
    if (!pass->training || pass->n == 0 || is_forward_again(direction, pass)) return GS_OK;
    if (direction == GS_BACKWARD) {
        GS_TRY(add_gradients(d, l, pass));
        if (!out.base || gs_layer_is_view(l)) return GS_OK;
        return add_on_device(d, GS_DIGEST_dx, l->number, out, &d->layer[l->number].dx, pass);
    }
    if (gs_layer_is_view(l)) return GS_OK;
    const gs_digest_layer *joined = &d->layer[l->number];
    GS_TRY(add_on_device(d, GS_DIGEST_y, joined->last, out, &joined->y, pass));
    if (strcmp(l->ops->name, "dropout") == 0 && !joined->y.elsewhere)
        add_mask(d, l->number, pass->n, &joined->y);
    return GS_OK;
}

/* ---- the update ---- */

/* The numbers first .. first + count - 1 of an array like the flat one; `x` is where the first of them is. */
static gs_status add_range(gs_digest *d, gs_digest_kind kind, gs_mem x, size_t first, size_t count,
                           int part) {
    const gs_model *m = d->worker->model;
    for (int p = 0; p < m->param_count; p++) {
        const size_t from = m->param[p]->at > first ? m->param[p]->at : first,
                     end = m->param[p]->at + m->param[p]->count,
                     to = end < first + count ? end : first + count;
        if (from >= to) continue;
        GS_TRY(gs_digest_fetch(d, gs_at(x, from - first), to - from));
        gs_numbers *here = gs_digest_cell(d, kind, p, part);
        if (here->n >= (double)m->param[p]->count) *here = (gs_numbers){0}; /* a second update in this step */
        (void)gs_digest_add_param(here, m, p, d->room, from - m->param[p]->at, to - from);
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
        const gs_held_part *p = &o->divided->part[i];
        GS_TRY(add_range(d, GS_DIGEST_sum, p->gradients, p->first, p->count, p->common));
    }
    if (o->divided) return GS_OK;
    return add_range(d, GS_DIGEST_sum, gs_at(o->model->gradients, first), first, count,
                     o->part && o->part->common);
}

static gs_status after_update(void *context, const gs_optimizer *o, size_t first, size_t count) {
    gs_digest *d = context;
    for (int i = 0; o->divided && i < o->divided->parts; i++) {
        const gs_held_part *p = &o->divided->part[i];
        GS_TRY(add_updated(d, o, p->weights, p->first, p->count, p->vector_at, p->common));
    }
    if (o->divided) return GS_OK;
    return add_updated(d, o, gs_at(o->model->weights, first), first, count, first,
                       o->part && o->part->common);
}

/* ---- a step ---- */

static bool has_layer(gs_digest *d, int layer) {
    for (int part = 0; part < GS_DIGEST_EIGHTHS; part++)
        if (gs_digest_cell(d, GS_DIGEST_y, layer, part)->n > 0) return true;
    return false;
}

/* A stage of a pipeline records the state of its own layers, from where they keep it. */
static gs_status add_state(gs_digest *d) {
    const gs_model *m = d->worker->model;
    const bool split = gs_has_stages(d->worker);
    for (int p = m->param_count; p < m->saved_count; p++) {
        if (split && (!d->place[p].base || !has_layer(d, d->layer_of[p]))) continue;
        const gs_mem place = split ? d->place[p] : gs_at(m->weights, m->param[p]->at);
        GS_TRY(add_param(d, GS_DIGEST_state, m->param[p], place, 0));
    }
    return GS_OK;
}

/* Rank 0's observer gets a note that its record has stopped: once. */
static void tell(const gs_worker *w) {
    gs_digest *d = w->digest;
    if (d->told || !*d->stopped) return;
    d->told = true;
    if (w->observer->note) w->observer->note(w->observer->context, d->stopped);
}

/* The step is written. Where it cannot be, because the disk is full or the file was removed, the record of this rank
 * stops, and training continues: what it computes is worth more. */
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
    GS_TRY(gs_digest_write_step(d, w->step, &score));
    memset(d->table, 0, gs_digest_cells(d) * sizeof *d->table);
    memset(d->passes, 0, (size_t)d->numbers * sizeof *d->passes);
    memset(d->masks, 0, (size_t)d->numbers * sizeof *d->masks);
    memset(d->before, 0, (size_t)d->numbers * sizeof *d->before);
    d->own = 0;
    d->scale = 0;
    tell(w);
    return GS_OK;
}

/* It gets a note of another rank's record too. */
static gs_status end(gs_worker *w, gs_event *e) {
    const gs_digest *d = w->digest;
    const gs_observer *observer = w->observer;
    if (!d) return GS_OK;
    const size_t ranks = (size_t)w->comm->size;
    char *all = malloc(ranks * GS_DIGEST_WHY);
    if (!all) return gs_fail(GS_E_MEMORY, "--digest: no memory for the notes of %zu ranks", ranks);
    const gs_status status = gs_comm_all_gather(w->comm, d->stopped, all, GS_DIGEST_WHY, GS_U8);
    tell(w);
    for (size_t r = 0; status == GS_OK && r < ranks; r++) {
        char *why = all + r * GS_DIGEST_WHY;
        why[GS_DIGEST_WHY - 1] = '\0'; /* whatever the other side has sent */
        if (*why && r != (size_t)w->comm->rank && observer->note) observer->note(observer->context, why);
        e->result->digest_lost |= *why != '\0';
    }
    free(all);
    return status;
}

/* ---- making and freeing ---- */

/* Of layers that are joined, y is that of the last one. */
static gs_status place_layer(gs_layer *l, void *context) {
    gs_digest *d = context;
    gs_digest_layer *own = &d->layer[l->number];
    for (int i = 0; i < l->params; i++) {
        const int p = param_of(d, &l->param[i]);
        d->layer_of[p] = l->number;
        if (!l->elsewhere) d->place[p] = l->param[i].w;
    }
    const gs_model *m = d->worker->model;
    if (own->y.each == 0)
        *own =
            (gs_digest_layer){l->number, gs_digest_vector_of(m, l, false), gs_digest_vector_of(m, l, true)};
    for (int i = 0; i < l->children; i++) {
        int last = i;
        while (last + 1 < l->children && l->child[last + 1]->joined) last++;
        d->layer[l->child[i]->number] =
            (gs_digest_layer){l->child[last]->number, gs_digest_vector_of(m, l->child[last], false),
                              gs_digest_vector_of(m, l->child[i], true)};
    }
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
    gs_digest *d = w->digest = calloc(1, sizeof *d);
    if (!d) return gs_fail(GS_E_MEMORY, "no memory for --digest");
    d->worker = w;
    const size_t layers = gs_layer_count(m->net), params = (size_t)m->saved_count;
    d->numbers = (int)(layers > params ? layers : params);
    const size_t count = (size_t)d->numbers;
    d->table = calloc(gs_digest_cells(d), sizeof *d->table);
    d->before = calloc(count, sizeof *d->before);
    d->passes = calloc(count, sizeof *d->passes);
    d->masks = calloc(count, sizeof *d->masks);
    d->layer = calloc(count, sizeof *d->layer);
    d->layer_of = calloc(count, sizeof *d->layer_of);
    d->place = calloc(count, sizeof *d->place);
    if (!d->table || !d->before || !d->passes || !d->masks || !d->layer || !d->layer_of || !d->place)
        return gs_fail(GS_E_MEMORY, "--digest: no memory for the numbers of %zu layers", layers);
    d->layers = (gs_layer_watcher){d, before_layer, after_layer, NULL};
    d->updates = (gs_update_watcher){d, before_update, after_update};
    w->optimizer->watcher = &d->updates;
    GS_TRY(watch(w, m->net));
    return gs_digest_write_start(d);
}

static void free_digest(gs_worker *w) {
    gs_digest *d = w->digest;
    if (!d) return;
    gs_digest_close(d);
    free(d->table);
    free(d->before);
    free(d->passes);
    free(d->masks);
    free(d->layer);
    free(d->layer_of);
    free(d->place);
    free(d->room);
    free(d);
}

const gs_hook gs_hook_digest = {.create = create,
                                .model = watch,
                                .loaded = add_samples,
                                .after_step = after_step,
                                .end = end,
                                .free = free_digest};
