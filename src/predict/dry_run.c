/* In a dry run, a worker makes the calls of a run, in order. Its allocations become a plan (predict/memory.h), and a
 * step's items are recorded (dry_run.h). */
#include "predict/dry_run.h"

#include <stdlib.h>

#include "core/memory.h"
#include "predict/memory.h"
#include "train/run.h"
#include "train/settings.h"
#include "train/strategy.h"
#include "train/worker_report.h"

/* Returns NULL if the worker is in a real run. */
static gs_dry_run *dry_run_of(const gs_worker *w) {
    return w->settings->dry_run;
}

static gs_status add(gs_dry_run *r, gs_dry_run_item item) {
    if (!r->on || r->failed != GS_OK) return r->failed;
    if (!gs_grow(&r->item, r->items, &r->room, sizeof *r->item))
        return r->failed = gs_fail(GS_E_MEMORY, "no memory for the calls of a step");
    r->item[r->items] = item;
    r->item[r->items++].in_job = r->in_job;
    return GS_OK;
}

/* ---- layers and updates ---- */

/* False if this direction skips this layer of the outermost sequence. Backward ends at a layer that needs no dx. */
static bool is_called(const gs_layer *net, int i, gs_direction direction) {
    bool ends = false;
    for (int k = i + 1; k < net->children && direction == GS_BACKWARD; k++)
        ends |= !net->child[k]->other_stage && !net->child[k]->needs_dx;
    return !net->child[i]->fused && !net->child[i]->other_stage && !ends;
}

/* Later layers that this layer computes too, or that compute nothing, count as part of this layer. Layers before the
 * first one called count as part of that first one. */
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
    return add(context, (gs_dry_run_item){.op = GS_VIRTUAL_LAYERS,
                                          .flops = flops,
                                          .first = first,
                                          .end = end,
                                          .backward = direction == GS_BACKWARD,
                                          .samples = pass->n});
}

static gs_status before_update(void *context, const gs_optimizer *o, size_t first, size_t count,
                               float scale) {
    (void)o, (void)first, (void)scale;
    return add(context, (gs_dry_run_item){.op = GS_VIRTUAL_UPDATE, .params = count});
}

/* ---- calls to other ranks ---- */

static gs_status add_call(gs_dry_run *r, const gs_comm *comm, gs_dry_run_item item) {
    if (!r->on) return GS_OK;
    while (item.axis < GS_WORLD && r->worker->groups.comm[item.axis] != comm) item.axis++;
    item.key.ranks = comm->size;
    return add(r, item);
}

/* Record a collective of `comm`, or a message between two of its ranks. */
static gs_status add_operation(gs_dry_run *r, const gs_comm *comm, const gs_call *call) {
    const gs_virtual_op op = call->operation == GS_SEND   ? GS_VIRTUAL_SEND_ONE
                             : call->operation == GS_RECV ? GS_VIRTUAL_RECV_ONE
                                                          : GS_VIRTUAL_LIST;
    if (comm->size == 1) return GS_OK;
    return add_call(r, comm, (gs_dry_run_item){.op = op, .key.call = *call});
}

/* ---- a comm without other ranks: calls return at once and leave their buffers unchanged ---- */

static gs_status dry_send(gs_comm *c, const gs_envelope *e, const void *data, size_t bytes) {
    (void)data, (void)bytes;
    return add_operation(c->state, c, e->call);
}

static gs_status dry_recv(gs_comm *c, const gs_envelope *e, void *data, size_t bytes) {
    (void)data, (void)bytes;
    return add_operation(c->state, c, e->call);
}

static gs_status dry_collective(gs_comm *c, const gs_call *call, const void *in, void *out) {
    (void)in, (void)out;
    return add_operation(c->state, c, call);
}

/* Record a sum by its scheme or, if `sum` is NULL, the collective `call` of `part`. */
static gs_status dry_of_part(gs_comm *c, const gs_comm *part, const gs_call *call, const gs_sync *sum) {
    if (!sum) return add_operation(c->state, part, call);
    const gs_message_lists_key key = {.scheme = sum->scheme, .array = sum->array};
    return add_call(c->state, sum->comm, (gs_dry_run_item){.op = GS_VIRTUAL_LIST, .key = key});
}

static void dry_abort(gs_comm *c, const char *message) {
    gs_bug("rank %d of a dry run is aborted: %s", c->rank, message);
}

static const gs_transport transport_dry = {
    .name = "dry",
    .send = dry_send,
    .recv = dry_recv,
    .collective = dry_collective,
    .abort = dry_abort,
    .dry = dry_of_part,
};

/* ---- what the worker receives: jobs, samples ---- */

static void told(void *context, gs_jobs_event event, uint64_t ticket) {
    static const gs_virtual_op ops[] = {[GS_JOB_ASKED] = GS_VIRTUAL_ASK,
                                        [GS_JOB_DONE] = GS_VIRTUAL_NOTE,
                                        [GS_JOB_AWAITED] = GS_VIRTUAL_AWAIT};
    gs_dry_run *r = context;
    if (event != GS_JOB_AWAITED) r->in_job = event == GS_JOB_ASKED;
    (void)add(r, (gs_dry_run_item){.op = ticket ? ops[event] : GS_VIRTUAL_JOIN, .ticket = ticket});
}

static gs_status jobs(const gs_worker *w, int room, gs_jobs **out) {
    return room > 0 ? gs_jobs_create_dry(told, dry_run_of(w), out) : gs_jobs_create(0, out);
}

/* A micro-batch of the same size as one of the previous two adds nothing to a dry run for memory, so it is skipped
 * unless it is the last of its part or the model is divided into stages. */
static gs_status next_piece(gs_worker *w, const gs_loaded **next) {
    gs_dry_run *r = dry_run_of(w);
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

static gs_status watch(const gs_worker *w, gs_layer *net) {
    gs_dry_run *r = dry_run_of(w);
    if (r && r->writes) gs_layer_watch_begin(net, &r->layers);
    return GS_OK;
}

const gs_hook gs_hook_dry_run = {.model = watch};

void gs_dry_run_free(gs_dry_run *r) {
    free(r->item);
    *r = (gs_dry_run){0};
}

/* ---- a worker's calls ---- */

/* Record a copy of the weights, like the one that gs_read_weights makes (train/hooks.c). */
static gs_status dry_weights(gs_worker *w) {
    GS_TRY(gs_book_host(w, GS_MEMORY_WEIGHTS, &w->model, gs_model_whole(w->model)->saved * sizeof(float)));
    return gs_partition_weights(w, NULL);
}

/* Run the step that follows the first `done` steps. Strategies whose workers differ between steps allocate nothing. */
static gs_status dry_step(gs_worker *w, uint64_t done) {
    gs_dry_run *r = dry_run_of(w);
    gs_score unused;
    w->step = w->schedule.done = done;
    w->in_step = true;
    r->at = gs_schedule_begin(&w->schedule);
    r->taken = 0;
    gs_status status = w->strategy->apart ? gs_gradient(w) : w->strategy->step(w, &unused);
    w->in_step = false;
    return w->strategy->apart && status == GS_OK ? gs_update(w, 1) : status;
}

/* All blocks of a test set are alike except the last, so two per worker suffice. A worker that has one block fewer than
 * the others still has one block fewer in the shortened set. */
static gs_dataset short_test_set(const gs_worker *w) {
    const size_t blocks = (w->test_set->count + w->eval_block - 1) / w->eval_block,
                 replicas = (size_t)w->groups.layout.dp, each = blocks / replicas;
    gs_dataset set = *w->test_set;
    if (each > 2) set.count -= (each - 2) * replicas * w->eval_block;
    return set;
}

/* A step or test leaves pages of offloaded memory to its successor, so every possible successor runs here too. */
static gs_status dry_epoch(gs_worker *w, uint64_t steps, bool last) {
    const bool offload = w->device->offload != 0, more = steps > 1;
    /* the second step begins with the first step's scratch memory */
    const int alike = more && (gs_has_stages(w) || offload) ? 2 : 1;
    const int tests = w->settings->tests, times = more && offload && tests > 1 ? 2 : 1;
    const gs_dataset test_set = short_test_set(w);
    gs_score unused;
    for (int i = 0; i < times; i++) {
        for (int k = 0; k < alike; k++) GS_TRY(dry_step(w, 0));
        if (last && more) GS_TRY(dry_step(w, steps - 1));
        if (tests > 0) GS_TRY(gs_evaluate(w, &test_set, &unused, NULL));
    }
    return GS_OK;
}

static gs_status dry_calls(gs_worker *w) {
    const gs_settings *s = w->settings;
    gs_state *unused;
    const uint64_t epoch = gs_steps_of_epoch(w->train_set->count, w->batch);
    const uint64_t all = epoch * (uint64_t)s->epochs, steps = s->steps && s->steps < all ? s->steps : all;
    const bool keeps = s->keep.best && (w->comm->rank == 0 || gs_weights_are_divided(w->model));
    if (!gs_has_stages(w)) GS_TRY(gs_warm_up(w));
    GS_TRY(gs_prepare_steps(w));
    GS_HOOKS(book, w);
    const uint64_t epochs = w->device->offload ? 3 : 1 + gs_has_stages(w); /* a test leaves scratch memory */
    for (uint64_t i = 0; i * epoch < steps && i < epochs; i++) {
        GS_TRY(dry_epoch(w, steps < epoch ? steps : epoch, steps >= epoch));
        if (i == 0 && keeps) GS_TRY(dry_weights(w));
    }
    if (s->save_state) GS_TRY(gs_state_book(w, &unused));
    return keeps ? GS_OK : dry_weights(w);
}

/* ---- what the calls allocated ---- */

typedef struct listing {
    gs_memory_plan *plan;
    size_t room;
    double held; /* the fraction of its layers' vectors that the worker holds, with ZeRO */
} listing;

static gs_status list_layer(gs_layer *l, void *context) {
    listing *to = context;
    gs_memory_plan *p = to->plan;
    if (l->fused || l->other_stage || p->layers == to->room) return GS_OK;
    gs_memory_layer *row = &p->layer[p->layers];
    double state = 0;
    for (int i = 0; i < l->params; i++) state += l->param[i].state ? (double)l->param[i].count : 0;
    const double own = (double)gs_layer_params(l);
    snprintf(row->name, sizeof row->name, "%s", l->name);
    gs_layer_describe(l, row->what, sizeof row->what);
    if (l->children > 0) snprintf(row->what, sizeof row->what, "%s", l->ops->name);
    row->weights = sizeof(float) * own;
    row->optimizer = row->weights * p->vectors * to->held;
    row->state = 2 * sizeof(float) * state; /* running statistics, and the sums from which they are updated */
    row->activations = l == l->root ? 0 : (double)l->bytes;
    p->shared -= row->activations;
    if (row->weights + row->state + row->activations > 0) p->layers++;
    return GS_OK;
}

static gs_status count_params(gs_layer *l, void *count) {
    for (int i = 0; i < l->params && !l->other_stage; i++)
        if (!l->param[i].state) *(size_t *)count += l->param[i].count;
    return GS_OK;
}

static gs_status list_layers(gs_memory_plan *p, const gs_worker *w) {
    size_t params = 0; /* in this worker's layers */
    const gs_model *m;
    for (int i = 0; (m = gs_worker_model(w, i)); i++) (void)gs_layer_walk(m->net, count_params, &params);
    listing to = {p, gs_layer_count(w->model->net),
                  params > 0 ? (double)w->optimizer->held / (double)params : 1};
    GS_TRY(GS_NEW(p->layer, to.room, "a list of %zu layers", to.room));
    p->params = gs_model_whole(w->model)->params;
    p->own = params;
    p->vectors = w->optimizer->vectors;
    p->batch = w->batch;
    const gs_recomputed r = gs_worker_recomputes(w);
    p->again = r.forward > 0 ? r.again / r.forward : 0;
    p->shared = p->worker[0].use[GS_ON_DEVICE].bytes[GS_MEMORY_ACTIVATIONS] +
                p->worker[0].use[GS_OFFLOADED].bytes[GS_MEMORY_ACTIVATIONS];
    for (int i = 0; (m = gs_worker_model(w, i)); i++) GS_TRY(gs_layer_walk(m->net, list_layer, &to));
    return GS_OK;
}

static gs_status play_run(gs_worker *w, const char *device, gs_memory_plan *plan) {
    gs_memory_worker *out = &plan->worker[plan->workers++];
    GS_TRY(dry_calls(w));
    snprintf(out->device, sizeof out->device, "%s", device);
    for (int p = 0; p < GS_MEMORY_PLACES; p++) out->use[p] = w->device->memory.peak[p];
    out->rank = w->comm->rank;
    out->micro_batch = w->schedule.most;
    out->eval_block = w->eval_block;
    return plan->workers == 1 ? list_layers(plan, w) : GS_OK;
}

static gs_status play_step(gs_worker *w, gs_dry_run *r) {
    r->worker = w;
    w->optimizer->watcher = &r->updates;
    (void)watch(w, w->model->net);
    GS_TRY(gs_prepare_steps(w));
    r->on = true;
    GS_TRY(dry_step(w, 0));
    r->sent = w->measured.sent;
    return r->failed;
}

/* Run the worker of this rank: with a plan, as its next worker; without a plan, for one step. */
static gs_status play(gs_dry_run *r, const gs_settings *given, const gs_dataset *train_set,
                      const gs_dataset *test_set, int threads, int workers, int rank, gs_memory_plan *plan) {
    gs_settings s = *given;
    gs_worker w;
    gs_comm comm = {&transport_dry, rank, workers, GS_TIMEOUT, r};
    char device[48];
    *r = (gs_dry_run){
        .writes = !plan, .layers = {r, before_layer, NULL, NULL}, .updates = {r, before_update, NULL}};
    s.dry_run = r;
    s.begin = NULL;
    s.load = NULL;
    GS_TRY(gs_devices_name(s.devices, rank % gs_devices_count(s.devices), device));
    gs_status status = gs_worker_create(&w, &s, device, &comm, threads, GS_NOT_SCALED, train_set, test_set);
    if (status == GS_OK) {
        w.next = next_piece;
        w.jobs = jobs;
        status = plan ? play_run(&w, device, plan) : play_step(&w, r);
        gs_worker_free(&w);
    }
    return status;
}

/* A dry run uses only the data set's shapes. */
gs_status gs_dry_run_create(const gs_settings *s, gs_shape in, int targets, int workers, int rank,
                            gs_dry_run *out) {
    const gs_dataset set = {.count = s->batch, .shape = in, .labels_each = targets};
    return play(out, s, &set, &set, 1, workers, rank, NULL);
}

/* ---- all workers ---- */

static double bytes_of(const gs_dataset *set) {
    return set->folder ? 0 : (double)set->count * (double)gs_sample_bytes(set);
}

static gs_status check(const gs_run *run, const gs_settings *s, int workers) {
    GS_TRY(gs_check_each_setting(s));
    GS_TRY(gs_check_settings(s));
    GS_TRY(gs_check_workers(s, run->train_set, workers));
    GS_TRY(gs_check_batch_norm(s, run->train_set, workers));
    return gs_run_check_sizes(run, s, workers);
}

gs_status gs_run_dry(gs_run *run, const gs_settings *s, bool all, gs_memory_plan *plan) {
    const gs_rendezvous *p = run->settings.processes;
    const int workers = gs_run_all_workers(run),
              first = all || workers == run->local ? 0 : p->rank * run->local;
    *plan = (gs_memory_plan){
        .run = run, .settings = *s, .all_workers = workers, .layout = gs_layout_of(s, workers)};
    if (workers == 1) plan->layout.zero = 0;
    plan->settings.train_set = run->train_set;
    plan->settings.test_set = run->test_set;
    GS_TRY(check(run, s, workers));
    const int count = all ? workers : run->local;
    GS_TRY(GS_NEW(plan->worker, count, "the plans of %d workers", count));
    plan->set_bytes = bytes_of(run->train_set);
    if (run->test_set != run->train_set) plan->set_bytes += bytes_of(run->test_set);
    for (int i = 0; i < count; i++) {
        gs_dry_run r;
        GS_TRY(play(&r, s, run->train_set, run->test_set, run->threads, workers, first + i, plan));
    }
    return GS_OK;
}
