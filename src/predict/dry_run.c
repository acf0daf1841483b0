#include "predict/dry_run.h"

#include <stdlib.h>
#include <string.h>

#include "core/memory.h"
#include "train/hooks.h"
#include "train/strategy.h"

static gs_status add(gs_dry_run *r, gs_dry_run_item item) {
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
        ends |= !net->child[k]->other_stage && !net->child[k]->needs_dx;
    return !net->child[i]->fused && !net->child[i]->other_stage && !ends;
}

/* Those after it whose work it does, or that have none, count as its own; before the first one, too. */
static gs_status before_layer(void *context, const gs_layer *l, gs_direction direction, const gs_pass *pass,
                              gs_mem in) {
    const gs_layer *net = l->root;
    int first = 0;
    (void)in;
    while (first < net->children && net->child[first] != l) first++;
    if (first == net->children || pass->recomputing) return GS_OK;
    int end = first + 1;
    while (end < net->children && !net->child[end]->other_stage && !is_called(net, end, direction)) end++;
    bool more = true;
    for (int k = 0; k < first; k++) more &= !is_called(net, k, direction);
    while (more && first > 0 && !net->child[first - 1]->other_stage) first--;
    double flops = 0;
    for (int k = first; k < end; k++) flops += gs_dry_run_flops(net->child[k]);
    return add(context, (gs_dry_run_item){.what = GS_DRY_LAYERS,
                                          .flops = flops,
                                          .first = first,
                                          .end = end,
                                          .backward = direction == GS_BACKWARD,
                                          .samples = pass->n});
}

static gs_status before_update(void *context, const gs_optimizer *o, size_t first, size_t count,
                               float scale) {
    (void)o, (void)first, (void)scale;
    return add(context, (gs_dry_run_item){.what = GS_DRY_UPDATE, .params = count});
}

/* ---- calls to others ---- */

static gs_status add_call(gs_dry_run *r, const gs_comm *comm, gs_dry_run_item item) {
    if (!r->on) return GS_OK;
    while (item.axis < GS_WORLD && r->worker->groups.comm[item.axis] != comm) item.axis++;
    item.key.ranks = comm->size;
    return add(r, item);
}

static gs_status called(void *context, const gs_comm *comm, const gs_call *call) {
    const bool message = call->operation == GS_SEND || call->operation == GS_RECV;
    const gs_dry_run_what what = message ? GS_DRY_MESSAGE : GS_DRY_CALL;
    if (comm->size == 1) return GS_OK;
    return add_call(context, comm, (gs_dry_run_item){.what = what, .message = *call, .key.call = *call});
}

static gs_status summed(void *context, const gs_sync *s) {
    const gs_message_lists_key key = {.scheme = s->scheme, .array = s->array};
    return add_call(context, s->comm, (gs_dry_run_item){.what = GS_DRY_CALL, .key = key});
}

/* ---- what a worker needs that is not its own ---- */

static gs_status open_dry(const char *device, int threads, gs_device **out) {
    GS_TRY(gs_device_open(device, threads, out));
    gs_device_set_dry(*out);
    return GS_OK;
}

static void told(void *context, gs_jobs_event event, uint64_t ticket) {
    static const gs_dry_run_what what[] = {
        [GS_JOB_ASKED] = GS_DRY_ASK, [GS_JOB_DONE] = GS_DRY_NOTE, [GS_JOB_AWAITED] = GS_DRY_AWAIT};
    gs_dry_run *r = context;
    r->background |= event == GS_JOB_ASKED;
    (void)add(r, (gs_dry_run_item){.what = ticket ? what[event] : GS_DRY_JOIN, .ticket = ticket});
}

static gs_status jobs(const gs_worker *w, int room, gs_jobs **out) {
    return room > 0 ? gs_jobs_create_dry(told, gs_dry_run_of(w), out) : gs_jobs_create(0, out);
}

/* There is nobody to ask: what the devices are called says it. */
static gs_status find_halves(const gs_worker *w, bool *all) {
    const char *devices = w->settings->devices;
    const int each = w->groups.layout.dp * w->groups.layout.tp, count = gs_devices_count(devices);
    char name[48];
    *all = true;
    for (int r = w->comm->rank % each; r < w->comm->size && *all; r += each) {
        GS_TRY(gs_devices_name(devices, r % count, name));
        *all = strcmp(name, "cpu") != 0;
    }
    return GS_OK;
}

/* Of a micro-batch that is as large as one of the two before it, and not the last of its part, a dry run for memory
 * learns nothing: it is left out. In a pipeline each is a micro-batch. */
static gs_status next_piece(gs_worker *w, const gs_loaded **next) {
    gs_dry_run *r = gs_dry_run_of(w);
    gs_micro_batch *p = &r->loaded.micro_batch;
    const bool all = r->writes || gs_has_stages(w);
    do
        if (!gs_schedule_next(&w->schedule, &r->at, p)) gs_bug("a dry run goes on beyond the end of the run");
    while (!all && r->taken > 1 && !p->last && (p->n == r->known[0] || p->n == r->known[1]));
    r->known[r->taken % 2] = p->n;
    r->taken = p->last ? 0 : r->taken + 1;
    *next = &r->loaded;
    return GS_OK;
}

static gs_status load(gs_worker *w) {
    w->next = next_piece;
    return GS_OK;
}

/* ---- begin, free ---- */

void gs_dry_run_begin(gs_dry_run *r, bool writes) {
    *r = (gs_dry_run){.calls = {open_dry, load, jobs, find_halves, .unset = true, .uncounted = 1},
                      .writes = writes,
                      .layers = {r, before_layer, NULL, NULL},
                      .updates = {r, before_update, NULL},
                      .comm = {r, called, summed}};
}

static gs_status watch(const gs_worker *w, gs_layer *net) {
    gs_dry_run *r = gs_dry_run_of(w);
    if (r && r->writes) gs_layer_watch_begin(net, &r->layers);
    return GS_OK;
}

void gs_dry_run_watch(gs_dry_run *r, gs_worker *w) {
    r->worker = w;
    w->optimizer->watcher = &r->updates;
    (void)watch(w, w->model->net);
}

const gs_hook gs_hook_dry_run = {.model = watch};

void gs_dry_run_free(gs_dry_run *r) {
    free(r->item);
    *r = (gs_dry_run){0};
}
