/* Which calls a layout's step makes: those of train/step.c, tensor/tensor.c, zero/zero.c and strategies/pipeline.c. */
#include <stdlib.h>

#include "core/memory.h"
#include "layer/tensor.h"
#include "train/internal.h"
#include "train/layout/layout_parts.h"
#include "train/zero/zero.h"

void gs_layout_calls_free(gs_layout_calls *list) {
    free(list->call);
    *list = (gs_layout_calls){0};
}

/* One of nothing, or of one rank, is none. */
static gs_status add(gs_layout_calls *list, gs_layout_call call) {
    if (call.floats == 0 || call.ranks < 2 || !(call.times > 0)) return GS_OK;
    if (!gs_grow(&list->call, list->count, &list->room, sizeof *list->call))
        return gs_fail(GS_E_MEMORY, "no memory for a list of calls");
    list->call[list->count++] = call;
    return GS_OK;
}

/* ---- in layers ---- */

/* The workers of a pipeline share none (gs_check_batch_norm). */
static bool shares_statistics(const gs_layout_step *p) {
    return p->layout.dp > 1 && p->layout.pp == 1 &&
           gs_batch_norm_would_be_shared(p->settings, p->part->net, p->layout.dp);
}

bool gs_layout_meets_in_layers(const gs_layout_step *p) {
    return p->layout.tp > 1 || shares_statistics(p);
}

/* With an order of its own a sum goes by recursive doubling, else by a ring. */
static const gs_sync_scheme *scheme_of_group(bool ordered) {
    return ordered ? &gs_sync_recursive_doubling : &gs_sync_ring;
}

typedef struct walk {
    const gs_layout_step *step;
    gs_layout_calls *list;
} walk;

static gs_status add_of_group(const walk *w, const gs_tensor_call *c) {
    const gs_layout_step *p = w->step;
    const size_t samples = c->once ? 1 : p->samples;
    gs_layout_call call = {.ranks = p->layout.tp,
                           .floats = samples * c->floats,
                           .when = c->backward ? GS_CALL_BACKWARD : GS_CALL_FORWARD,
                           .times = 1};
    if (c->act == GS_TENSOR_ADDS) {
        call.scheme = scheme_of_group(p->settings->exact);
    } else {
        call.operation = c->act == GS_TENSOR_GATHERS ? GS_ALL_GATHER : GS_REDUCE_SCATTER;
        call.pieces = samples;
    }
    return add(w->list, call);
}

/* Doubles: m, sum x and sum x^2 of each channel in forward, and in backward two sums. */
static gs_status add_of_batch_norm(const walk *w, const gs_layer *l) {
    const gs_layout_step *p = w->step;
    const size_t sums = 2 * (size_t)l->in.c;
    gs_layout_call call = {.operation = GS_ALL_REDUCE,
                           .ranks = p->layout.dp,
                           .whole = p->layout.tp == 1,
                           .floats = 2 * (1 + sums),
                           .when = GS_CALL_FORWARD,
                           .times = 1};
    GS_TRY(add(w->list, call));
    call.floats = 2 * sums;
    call.when = GS_CALL_BACKWARD;
    return add(w->list, call);
}

static gs_status add_of_layer(gs_layer *l, void *context) {
    const walk *w = context;
    gs_tensor_call call[GS_TENSOR_CALLS];
    const int calls = gs_tensor_calls(l, call);
    for (int i = 0; i < calls; i++) GS_TRY(add_of_group(w, &call[i]));
    return l->ops->of_batch && shares_statistics(w->step) ? add_of_batch_norm(w, l) : GS_OK;
}

gs_status gs_layout_calls_of_layer(const gs_layout_step *p, gs_layer *l, gs_layout_calls *list) {
    return gs_layer_walk(l, add_of_layer, &(walk){p, list});
}

/* ---- between replicas, without stages ---- */

static gs_status add_sum(const gs_layout_step *p, gs_layout_calls *list) {
    const bool grouped = p->layout.tp > 1, exact = p->settings->exact;
    gs_layout_call call = {.ranks = p->layout.dp,
                           .whole = !grouped,
                           .floats = p->part->saved + GS_STATS,
                           .when = GS_CALL_AFTER,
                           .times = 1};
    if (grouped || exact)
        call.scheme = scheme_of_group(exact || gs_tensor_part_needs_order(p->part, p->layout.dp));
    else
        GS_TRY(gs_find_scheme(p->settings, &call.scheme));
    return add(list, call);
}

/* A unit's gradients in each pass, its weights before forward and before backward, or after the update. A worker
 * without a thread beside it makes all of them itself. */
static gs_status add_unit(const gs_layout_step *p, const gs_held_unit *u, gs_layout_calls *list) {
    const int zero = p->layout.zero;
    const bool exact = p->settings->exact,
               thread = gs_zero_would_have_thread(p->settings, p->devices, p->part->net, p->layout.dp);
    gs_layout_call call = {.operation = GS_REDUCE_SCATTER,
                           .ranks = p->layout.dp,
                           .whole = p->layout.tp == 1,
                           .floats = u->own * (size_t)p->layout.dp,
                           .when = zero > 1 && thread ? GS_CALL_BESIDE : GS_CALL_AFTER,
                           .times = zero > 1 && !exact ? p->passes : 1};
    GS_TRY(add(list, call));
    call.operation = GS_ALL_GATHER;
    call.when = zero > 2 && thread ? GS_CALL_BESIDE : GS_CALL_AFTER;
    call.times = zero > 2 ? 2.0 * p->passes : 1;
    return add(list, call);
}

static gs_status add_zero(const gs_layout_step *p, gs_layout_calls *list) {
    gs_holding units;
    GS_TRY(gs_holding_cut(p->part, p->layout.zero, p->layout.dp, 0, &units));
    gs_status status = GS_OK;
    for (int i = 0; i < units.count && status == GS_OK; i++) status = add_unit(p, &units.unit[i], list);
    if (status == GS_OK) /* what all hold */
        status = add(list, (gs_layout_call){.operation = GS_ALL_REDUCE,
                                            .ranks = p->layout.dp,
                                            .whole = p->layout.tp == 1,
                                            .floats = units.rest + gs_model_tail(p->part),
                                            .when = GS_CALL_AFTER,
                                            .times = 1});
    gs_holding_free(&units);
    return status;
}

/* ---- between stages, and the replicas of one ---- */

static gs_status add_of_replicas(const gs_layout_step *p, const gs_pipeline_worker *stage,
                                 gs_layout_calls *list) {
    gs_layout_call call = {
        .operation = GS_ALL_REDUCE, .ranks = p->layout.dp, .when = GS_CALL_AFTER, .times = 1};
    if (p->settings->exact) call.scheme = scheme_of_group(true);
    for (int c = 0; c < stage->shape.chunks; c++) {
        call.floats = stage->own->state[c].count;
        GS_TRY(add(list, call));
        call.floats = stage->own->unit[c].count;
        if (!p->layout.zero) {
            GS_TRY(add(list, call));
            continue;
        }
        gs_layout_call part = call;
        part.scheme = NULL;
        part.operation = GS_REDUCE_SCATTER;
        GS_TRY(add(list, part));
        part.operation = GS_ALL_GATHER;
        GS_TRY(add(list, part));
    }
    return GS_OK;
}

/* A stage has half of an exchange, in which a rank sends one message and receives one. */
static gs_status add_message(const gs_layout_step *p, size_t bytes, gs_call_when when, double messages,
                             gs_layout_calls *list) {
    return add(list, (gs_layout_call){.operation = GS_SEND,
                                      .ranks = p->layout.pp,
                                      .floats = (bytes + sizeof(float) - 1) / sizeof(float),
                                      .when = when,
                                      .times = messages / 2});
}

/* A table of two stages: its gradient goes, and after the update it comes back itself. */
static gs_status add_table(const gs_layout_step *p, const gs_pipeline_worker *stage, gs_layout_calls *list) {
    const bool ends = stage->stage == 0 || stage->stage == stage->shape.stages - 1;
    if (!stage->tied.table || !ends) return GS_OK;
    const double gradients = stage->shape.tied == GS_TIED_EACH ? p->passes : 1;
    return add_message(p, stage->tied.table->count * sizeof(float), GS_CALL_AFTER, gradients + 1, list);
}

size_t gs_layout_between(const gs_layout_step *p, const gs_pipeline_worker *stage, int run, size_t samples) {
    const gs_layer *after = p->part->net->child[stage->first[run + 1]];
    return gs_bytes_of(samples * gs_shape_size(after->in), p->halves && after->x_half);
}

/* Of each run's micro-batch, to the next run and from the one before; backward the same, the other way. */
gs_status gs_layout_calls_of_run(const gs_layout_step *p, const gs_pipeline_worker *stage, int run,
                                 gs_layout_calls *list) {
    for (gs_call_when when = GS_CALL_FORWARD; when <= GS_CALL_BACKWARD; when++) {
        if (run > 0) GS_TRY(add_message(p, gs_layout_between(p, stage, run - 1, p->samples), when, 1, list));
        if (run + 1 < stage->runs)
            GS_TRY(add_message(p, gs_layout_between(p, stage, run, p->samples), when, 1, list));
    }
    return GS_OK;
}

/* The score goes to all workers. */
static gs_status add_score(const gs_layout_step *p, gs_layout_calls *list) {
    return add(list, (gs_layout_call){.operation = GS_ALL_REDUCE,
                                      .ranks = p->layout.dp * p->layout.tp * p->layout.pp,
                                      .whole = true,
                                      .floats = GS_STATS,
                                      .when = GS_CALL_AFTER,
                                      .times = 1});
}

gs_status gs_layout_calls_of_step(const gs_layout_step *p, const gs_pipeline_worker *stage,
                                  gs_layout_calls *list) {
    if (!stage) return p->layout.zero && p->layout.dp > 1 ? add_zero(p, list) : add_sum(p, list);
    GS_TRY(add_of_replicas(p, stage, list));
    GS_TRY(add_table(p, stage, list));
    return add_score(p, list);
}
