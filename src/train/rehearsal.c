#include "train/rehearsal.h"

#include <stdlib.h>

#include "core/memory.h"
#include "train/hooks.h"

static gs_status add(gs_rehearsal *r, gs_rehearsed_item item) {
    if (!r->on || r->failed != GS_OK) return r->failed;
    if (!gs_grow(&r->item, r->items, &r->room, sizeof *r->item))
        return r->failed = gs_fail(GS_E_MEMORY, "no memory for the calls of a step");
    r->item[r->items++] = item;
    return GS_OK;
}

/* ---- layers and updates ---- */

/* Is a layer of the outermost sequence called in this direction? Backward ends at one that needs no dx. */
static bool is_called(const gs_layer *net, int i, gs_direction direction) {
    bool ends = false;
    for (int k = i + 1; k < net->children && direction == GS_BACKWARD; k++)
        ends |= !net->child[k]->elsewhere && !net->child[k]->needs_dx;
    return !net->child[i]->joined && !net->child[i]->elsewhere && !ends;
}

/* Those after it whose work it does, or that have none, count as its own; before the first one, too. */
static gs_status before_layer(void *context, const gs_layer *l, gs_direction direction, const gs_pass *pass,
                              gs_mem in) {
    const gs_layer *net = l->root;
    int first = 0;
    (void)in;
    while (first < net->children && net->child[first] != l) first++;
    if (first == net->children || pass->again) return GS_OK;
    int end = first + 1;
    while (end < net->children && !net->child[end]->elsewhere && !is_called(net, end, direction)) end++;
    bool more = true;
    for (int k = 0; k < first; k++) more &= !is_called(net, k, direction);
    while (more && first > 0 && !net->child[first - 1]->elsewhere) first--;
    double flops = 0;
    for (int k = first; k < end; k++) flops += gs_rehearsed_flops(net->child[k]);
    return add(context, (gs_rehearsed_item){.what = GS_REHEARSED_LAYERS,
                                            .flops = flops,
                                            .first = first,
                                            .end = end,
                                            .backward = direction == GS_BACKWARD,
                                            .samples = pass->n});
}

static gs_status after_layer(void *context, const gs_layer *l, gs_direction direction, const gs_pass *pass,
                             gs_mem out) {
    (void)context, (void)l, (void)direction, (void)pass, (void)out;
    return GS_OK;
}

static gs_status before_update(void *context, const gs_optimizer *o, size_t first, size_t count,
                               float scale) {
    (void)o, (void)first, (void)scale;
    return add(context, (gs_rehearsed_item){.what = GS_REHEARSED_UPDATE, .params = count});
}

static gs_status after_update(void *context, const gs_optimizer *o, size_t first, size_t count) {
    (void)context, (void)o, (void)first, (void)count;
    return GS_OK;
}

/* ---- calls to others ---- */

static gs_status called(void *context, const gs_comm *comm, const gs_call *call) {
    gs_rehearsal *r = context;
    const bool message = call->operation == GS_SEND || call->operation == GS_RECV;
    gs_rehearsed_item item = {.what = message ? GS_REHEARSED_MESSAGE : GS_REHEARSED_CALL, .message = *call};
    if (comm->size == 1 || !r->on) return GS_OK;
    while (item.axis < GS_WORLD && r->worker->groups.comm[item.axis] != comm) item.axis++;
    item.key = (gs_lists_key){.call = *call, .ranks = comm->size};
    return add(r, item);
}

static gs_status summed(void *context, const gs_sync *s) {
    gs_rehearsal *r = context;
    gs_rehearsed_item item = {.what = GS_REHEARSED_CALL};
    if (!r->on) return GS_OK;
    while (item.axis < GS_WORLD && r->worker->groups.comm[item.axis] != s->comm) item.axis++;
    item.key = (gs_lists_key){.scheme = s->scheme, .array = s->array, .ranks = s->comm->size};
    return add(r, item);
}

/* ---- jobs ---- */

static void asked(void *context) {
    gs_rehearsal *r = context;
    r->beside = true;
    (void)add(r, (gs_rehearsed_item){.what = GS_REHEARSED_ASK});
}

static void done(void *context, uint64_t ticket) {
    (void)add(context, (gs_rehearsed_item){.what = GS_REHEARSED_NOTE, .ticket = ticket});
}

static void awaited(void *context, uint64_t ticket) {
    (void)add(context,
              (gs_rehearsed_item){.what = ticket ? GS_REHEARSED_AWAIT : GS_REHEARSED_JOIN, .ticket = ticket});
}

/* ---- begin, free ---- */

void gs_rehearsal_begin(gs_rehearsal *r) {
    *r = (gs_rehearsal){.layers = {r, before_layer, after_layer, NULL},
                        .updates = {r, before_update, after_update},
                        .jobs = {r, asked, done, awaited},
                        .comm = {r, called, summed}};
}

static gs_status watch(const gs_worker *w, gs_layer *net) {
    if (w->rehearsal) gs_layer_watch_begin(net, &w->rehearsal->layers);
    return GS_OK;
}

void gs_rehearsal_watch(gs_rehearsal *r, gs_worker *w) {
    r->worker = w;
    w->rehearsal = r;
    w->optimizer->watcher = &r->updates;
    (void)watch(w, w->model->net);
}

const gs_hook gs_hook_rehearsal = {.model = watch};

void gs_rehearsal_free(gs_rehearsal *r) {
    free(r->item);
    *r = (gs_rehearsal){0};
}
