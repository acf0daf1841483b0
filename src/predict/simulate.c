#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/clock.h"
#include "core/median.h"
#include "core/memory.h"
#include "model/model_text.h"
#include "train/settings.h"
#include "predict/memory.h"
#include "predict/dry_run.h"
#include "predict/simulate.h"
#include "train/tensor.h"

const char *const gs_simulated_kinds[GS_SIM_KINDS] = {"pause", "forward", "backward",
                                                      "sum",   "message", "update"};

enum { STEPS_MOST = 8 /* maximum number of steps until two take equally long */ };
static const double SAME = 1e-6; /* as a fraction of a step */

/* ---- settings ---- */

static gs_status check_settings(const gs_settings *s) {
    const gs_sync_scheme *scheme;
    GS_TRY(gs_sync_find(s->sync, &scheme));
    if (scheme == &gs_sync_auto)
        return gs_fail(GS_E_USAGE,
                       "--sync auto chooses by measuring, and simulate measures no messages; name a scheme "
                       "(gradsum step --help lists them)");
    GS_TRY(gs_tensor_check(s));
    gs_settings any = *s;
    any.sync = gs_settings_default().sync; /* stages and groups have no scheme */
    return gs_check_pairs(&any);
}

static gs_status check_workers(const gs_simulation *s) {
    if (s->hosts > s->workers || s->workers % s->hosts != 0)
        return gs_fail(GS_E_USAGE, "--hosts %d: %d workers cannot be divided evenly among them", s->hosts,
                       s->workers);
    return gs_check_pauses(&s->settings, s->workers);
}

gs_status gs_simulation_settle(gs_simulation *s) {
    if (s->hosts == 0) s->hosts = s->workers;
    GS_TRY(check_workers(s));
    if (s->hosts < s->workers && s->hosts > 1 && !gs_link_is_there(&s->inside))
        return gs_fail(
            GS_E_USAGE,
            "--hosts %d: each has %d workers, and --inside LATENCY,BANDWIDTH says how they are linked",
            s->hosts, s->workers / s->hosts);
    GS_TRY(gs_layout_settle(&s->settings));
    GS_TRY(gs_layout_check_workers(&s->settings, s->workers, "--workers"));
    GS_TRY(check_settings(&s->settings));
    if (s->settings.batch == 0) s->settings.batch = (size_t)GS_SIMULATED_BATCH * (size_t)s->workers;
    if (s->settings.batch < (size_t)s->workers)
        return gs_fail(GS_E_USAGE, "--batch %zu is less than a sample for each of %d workers",
                       s->settings.batch, s->workers);
    return GS_OK;
}

/* ---- a worker's computation, layer by layer: from FLOPs, or measured ---- */

static gs_status from_flops(const gs_simulation *s, gs_simulated_work *w) {
    gs_shape in = s->input;
    const char *model = s->settings.model ? s->settings.model : "mlp";
    if (in.c == 0) in = gs_model_is_language(model) ? gs_model_named(model)->in : (gs_shape){1, 28, 28, 0};
    GS_TRY(gs_model_create(NULL, &(gs_model_config){.text = model, .in = in}, &w->plan));
    GS_TRY(gs_layer_times_create(w->plan->net->children, &w->times));
    for (int i = 0; i < w->times.layers; i++) {
        const gs_layer_flops flops = gs_layer_flops_of(w->plan->net->child[i]);
        w->times.forward[i] = flops.forward * (w->samples / s->flops);
        w->times.backward[i] = flops.backward * (w->samples / s->flops);
    }
    w->gamma = s->gamma > 0 ? s->gamma : 0;
    return GS_OK;
}

/* Seconds per byte to add one array to another. */
static double measure_gamma(void) {
    enum { FLOATS = 1 << 20, TIMES = 5 };
    float *sum = calloc(FLOATS, sizeof *sum), *x = calloc(FLOATS, sizeof *x);
    double best = 1;
    for (int i = 0; i < TIMES && sum && x; i++) {
        const double start = gs_seconds();
        for (int k = 0; k < FLOATS; k++) sum[k] += x[k] + (float)i;
        best = fmin(best, gs_seconds() - start);
    }
    const bool there = sum && x && sum[FLOATS / 2] >= 0;
    free(sum);
    free(x);
    return there ? best / (FLOATS * sizeof(float)) : 0;
}

static gs_status measure(const gs_settings *s, gs_simulated_work *w) {
    enum { MOST = 64, LEAST = 4 /* samples */ };
    static const double FLOPS = 4e9; /* in a step: about a tenth of a second on a core */
    const double enough =
        fmin(MOST, fmax(LEAST, FLOPS / (w->plan->flops_forward + w->plan->flops_backward + 1)));
    gs_layer_times *t = &w->times;
    GS_TRY(gs_layer_times_of(&(gs_layer_bench){.settings = s,
                                               .data = s->train_set,
                                               .device = s->devices,
                                               .threads = 1,
                                               .samples = (size_t)ceil(fmin(w->samples, enough)),
                                               .updates = true},
                             t));
    for (int i = 0; i < t->layers; i++) {
        t->forward[i] *= w->samples / (double)t->samples;
        t->backward[i] *= w->samples / (double)t->samples;
    }
    return GS_OK;
}

static gs_status measured(const gs_simulation *sim, gs_simulated_work *w) {
    gs_memory_plan memory = {0};
    char device[48];
    const gs_settings *s = &memory.settings;
    gs_settings one = sim->settings;
    GS_TRY(gs_settings_alone(&one, device));
    one.bucket = 0;
    one.wire = GS_WIRE_F32;
    one.jitter.count = 0;
    one.sync = "allreduce";
    one.batch = 1;
    gs_status status = gs_memory_plan_create(&one, &memory);
    if (status == GS_OK)
        status =
            gs_model_create(NULL, &(gs_model_config){.text = s->model, .in = s->train_set->shape}, &w->plan);
    if (status == GS_OK) status = measure(s, w);
    gs_memory_plan_free(&memory);
    w->gamma = sim->gamma >= 0 ? sim->gamma : measure_gamma();
    w->measured = true;
    return status;
}

gs_status gs_simulated_work_create(const gs_simulation *s, gs_simulated_work *w) {
    *w = (gs_simulated_work){.samples = (double)s->settings.batch / s->workers};
    GS_TRY(s->flops > 0 ? from_flops(s, w) : measured(s, w));
    gs_settings named = s->settings;
    named.model = w->plan->text;
    return gs_tensor_check_workers(&named, w->plan->in);
}

void gs_simulated_work_free(gs_simulated_work *w) {
    gs_model_free(w->plan);
    gs_layer_times_free(&w->times);
    *w = (gs_simulated_work){0};
}

/* Seconds for forward, backward and update. */
static double compute_of(const gs_simulated_work *w) {
    double all = w->times.update;
    for (int i = 0; i < w->times.layers; i++) all += w->times.forward[i] + w->times.backward[i];
    return all;
}

/* ---- the workers' actions ---- */

/* The items of a dry run of one stage and shard, with their seconds. Replicas share them. */
typedef struct role {
    int rank;              /* of the first replica */
    gs_dry_run dry_run;    /* of this rank */
    gs_virtual_item *item; /* consecutive layers form one item */
    int items;
    double compute; /* seconds */
} role;

/* The state of a simulation. */
typedef struct run {
    const gs_simulation *sim;
    const gs_simulated_work *work;
    gs_simulated *out;
    gs_layout layout;
    gs_virtual_script *script; /* [workers] */
    role *role;                /* [stage][shard] */
    int roles;
    gs_message_lists lists;
    gs_virtual *virtual;
    int made; /* number of steps */
    size_t room;
    gs_status failed;
    double last; /* when worker 0 finished the previous step */
    double step[GS_SIMULATED_STEPS + STEPS_MOST];
} run;

static double seconds_of_layers(const gs_simulated_work *w, const gs_dry_run_item *i) {
    double seconds = 0, flops = 0;
    for (int k = i->first; k < i->end; k++) {
        seconds += (i->backward ? w->times.backward : w->times.forward)[k];
        flops += gs_dry_run_flops(w->plan->net->child[k]);
    }
    return seconds * ((double)i->samples / w->samples) * (flops > 0 ? i->flops / flops : 1);
}

static gs_status price(run *w, const role *o, const gs_dry_run_item *i, gs_virtual_item *out) {
    const gs_layout *l = &w->layout;
    *out = (gs_virtual_item){.op = i->op, .slot = (int)(i->ticket % GS_VIRTUAL_SLOTS)};
    if (i->op == GS_VIRTUAL_LAYERS) {
        out->seconds = seconds_of_layers(w->work, i);
        out->kind = i->backward ? GS_SIM_BACKWARD : GS_SIM_FORWARD;
    } else if (i->op == GS_VIRTUAL_UPDATE) {
        out->seconds = w->work->times.update * ((double)i->params / (double)w->work->plan->params);
        out->kind = GS_SIM_UPDATE;
    } else if (i->op > GS_VIRTUAL_LIST) { /* the peer is in the rank's own replica */
        out->peer = i->key.call.root - o->rank;
        out->bytes = i->key.call.count;
        out->kind = GS_SIM_MESSAGE;
    } else if (i->op == GS_VIRTUAL_LIST) {
        out->stride = i->axis == GS_DP ? l->tp : i->axis == GS_PP ? l->dp * l->tp : 1;
        out->kind = GS_SIM_SUM;
        return gs_message_lists_of(&w->lists, &i->key, &out->list);
    }
    return GS_OK;
}

static gs_status write_role(run *w, role *o) {
    const gs_dry_run *r = &o->dry_run;
    GS_TRY(GS_NEW(o->item, r->items + 1, "the steps of %d workers", w->sim->workers));
    for (size_t i = 0; i < r->items; i++) {
        gs_virtual_item item, *last = o->items > 0 ? &o->item[o->items - 1] : NULL;
        GS_TRY(price(w, o, &r->item[i], &item));
        o->compute += item.seconds;
        if (last && item.op == GS_VIRTUAL_LAYERS && last->op == item.op && last->kind == item.kind)
            last->seconds += item.seconds;
        else
            o->item[o->items++] = item;
    }
    return GS_OK;
}

/* ---- the run's sums ---- */

/* Seconds by the scheme's formula, with the links between hosts if there are several; NAN: there is no formula. */
static double formula_of(const gs_simulation *sim, const gs_simulated_work *w,
                         const gs_message_lists_key *key) {
    const gs_link *l = sim->hosts > 1 ? &sim->settings.link : &sim->inside;
    const gs_sync_model m = {l->latency, l->bandwidth > 0 ? 1 / l->bandwidth : 0, w->gamma};
    if (!key->scheme || !key->scheme->time || key->array.wire != GS_WIRE_F32) return NAN;
    return key->scheme->time(key->ranks, (double)key->array.count * sizeof(float), &m);
}

static void describe_sums(run *w) {
    const gs_dry_run *r = &w->role[0].dry_run;
    const gs_layout *l = &w->layout;
    gs_simulated *o = w->out;
    for (size_t i = 0; i < r->items; i++) {
        const gs_dry_run_item *item = &r->item[i];
        if (item->op != GS_VIRTUAL_LIST || item->axis != GS_DP) continue;
        if (l->zero ? item->key.call.operation == GS_REDUCE_SCATTER : item->key.scheme != NULL) o->buckets++;
        o->formula += formula_of(w->sim, w->work, &item->key);
    }
    if (l->pp > 1 || (l->tp > 1 && !l->zero) || o->buckets == 0) o->buckets = 1;
    if (l->pp > 1 || l->tp > 1 || l->zero) o->formula = NAN;
}

/* ---- all workers ---- */

static gs_status dry_runs(run *w) {
    const gs_layout *l = &w->layout;
    const gs_model *plan = w->work->plan;
    gs_settings s = w->sim->settings;
    s.model = plan->text;
    if (s.micro_batch == 0) s.micro_batch = s.batch; /* a worker computes all its samples at once */
    s.batch_norm.over = GS_BATCH_NORM_LOCAL;
    if (l->pp > 1) s.pipeline_cut = "flops";
    for (int i = 0; i < w->roles; i++) {
        role *o = &w->role[i];
        o->rank = gs_rank_at(l, (gs_coordinates){0, i % l->tp, i / l->tp});
        GS_TRY(
            gs_dry_run_create(&s, plan->in, gs_model_targets(plan), w->sim->workers, o->rank, &o->dry_run));
    }
    return GS_OK;
}

static gs_status write_scripts(run *w) {
    GS_TRY(dry_runs(w));
    describe_sums(w);
    for (int i = 0; i < w->roles; i++) GS_TRY(write_role(w, &w->role[i]));
    for (int r = 0; r < w->sim->workers; r++) {
        const gs_coordinates at = gs_coordinates_of(&w->layout, r);
        const role *o = &w->role[at.pp * w->layout.tp + at.tp];
        w->script[r] = (gs_virtual_script){o->item, o->items, 0};
    }
    return GS_OK;
}

/* GS_E_USAGE: the layout does not fit the model. */
static gs_status create_scripts(run *w) {
    w->layout = gs_layout_of(&w->sim->settings, w->sim->workers);
    w->roles = w->layout.pp * w->layout.tp;
    GS_TRY(GS_NEW(w->script, w->sim->workers, "the steps of %d workers", w->sim->workers));
    GS_TRY(GS_NEW(w->role, w->roles, "the steps of %d workers", w->roles));
    const gs_status status = write_scripts(w);
    return status == GS_E_SHAPE ? gs_fail(GS_E_USAGE, "%s", gs_message()) : status;
}

static void free_run(run *w) {
    for (int i = 0; w->role && i < w->roles; i++) {
        gs_dry_run_free(&w->role[i].dry_run);
        free(w->role[i].item);
    }
    free(w->script);
    free(w->role);
    gs_message_lists_free(&w->lists);
    gs_virtual_free(w->virtual);
}

/* ---- the timeline ---- */

/* The timeline shows all workers, or evenly spaced ones. */
static void watch(void *context, int rank, const gs_virtual_item *item, double from, double to) {
    run *r = context;
    gs_simulated *o = r->out;
    if (rank % ((r->sim->workers + GS_SIM_SHOWN - 1) / GS_SIM_SHOWN) != 0) return;
    if (gs_grow(&o->span, (size_t)o->spans, &r->room, sizeof *o->span))
        o->span[o->spans++] =
            (gs_simulated_span){rank, item ? (gs_simulated_kind)item->kind : GS_SIM_PAUSE, from, to};
    else
        r->failed = GS_E_MEMORY;
}

static void begin_at_0(gs_simulated *o) {
    double first = INFINITY;
    for (int i = 0; i < o->spans; i++) first = fmin(first, o->span[i].from);
    for (int i = 0; i < o->spans; i++) {
        o->span[i].from -= first;
        o->span[i].to -= first;
    }
}

/* ---- steps ---- */

static void tell(void *context, double share) {
    const run *r = context;
    r->sim->progress(r->sim->context, r->sim->workers, r->made + 1, share);
}

static gs_status make_step(run *r, int step) {
    const gs_settings *s = &r->sim->settings;
    for (int i = 0; i < s->jitter.count; i++) {
        const int rank = s->jitter.pause[i].rank;
        r->script[rank].pause = gs_jitter_seconds(&s->jitter, s->seed, rank, (uint64_t)step);
    }
    r->out->spans = 0;
    GS_TRY(gs_virtual_play(r->virtual, r->script));
    const gs_virtual_account *a = gs_virtual_accounts(r->virtual);
    r->made++;
    r->step[step] = a[0].ended - r->last;
    r->last = a[0].ended;
    return GS_OK;
}

/* True if all workers end this step at the same time, so that the next step begins like this one. */
static bool ended_together(const run *r) {
    const gs_virtual_account *a = gs_virtual_accounts(r->virtual);
    double first = INFINITY, last = 0;
    for (int w = 0; w < r->sim->workers; w++) {
        first = fmin(first, a[w].ended);
        last = fmax(last, a[w].ended);
    }
    return last - first <= 1e-3 * r->step[0];
}

static gs_status make_steps(run *r) {
    const gs_settings *s = &r->sim->settings;
    const int most = s->steps > 0          ? (int)fmin((double)s->steps, GS_SIMULATED_STEPS)
                     : s->jitter.count > 0 ? GS_SIMULATED_STEPS
                                           : STEPS_MOST;
    for (int i = 0; i < most; i++) {
        GS_TRY(make_step(r, i));
        r->out->steps = i + 1;
        if (s->steps > 0 || s->jitter.count > 0) continue;
        if (i == 0 ? ended_together(r) : fabs(r->step[i] - r->step[i - 1]) <= SAME * r->step[i]) break;
    }
    return r->failed == GS_OK ? GS_OK : gs_fail(r->failed, "no memory for a timeline");
}

static void summarise_steps(run *r) {
    gs_simulated *o = r->out;
    /* All workers begin the first step together, so its time may differ. With pauses, it counts nevertheless. */
    const int skip = o->steps > 1 && r->sim->settings.jitter.count == 0;
    double *times = r->step + skip;
    const int count = o->steps - skip;
    for (int i = 0; i < count; i++) o->mean += times[i] / count;
    o->step = gs_median(times, count);
}

/* ---- results ---- */

static void find_busiest(run *r, double from, double to) {
    gs_simulated *o = r->out;
    const gs_virtual_line *line = gs_virtual_lines(r->virtual);
    double most = 0;
    for (int h = 0; h < r->sim->hosts; h++)
        for (int in = 0; in < 2; in++) {
            if (!(line[h].busy[in] > most)) continue;
            most = line[h].busy[in];
            o->busiest = h;
            o->busiest_in = in;
        }
    /* If the sums of consecutive steps overlap, a line has only the duration of one step for each step's sums. */
    const double time = fmin(to - from, o->step);
    o->busy = time > 0 ? fmin(1, most / time) : 0;
}

/* Writes at most 65 columns. */
static void name_bottleneck(run *r) {
    gs_simulated *o = r->out;
    const char *host = r->sim->hosts < r->sim->workers ? "host" : "worker",
               *way = o->busiest_in ? "into" : "out of";
    if (r->sim->workers == 1 || !(o->exposed > 0.05 * o->step))
        snprintf(o->bottleneck, sizeof o->bottleneck, "compute: a worker waits for %.1f %% of the step",
                 100 * o->exposed / o->step);
    else if (o->busy > 0.5)
        snprintf(o->bottleneck, sizeof o->bottleneck, "the line %s %s %d, busy %.0f %% of the sums' time",
                 way, host, o->busiest, 100 * o->busy);
    else
        snprintf(o->bottleneck, sizeof o->bottleneck,
                 "latency and waits: no line is busy for more than %.0f %%", 100 * o->busy);
}

static void summarise(run *r) {
    gs_simulated *o = r->out;
    const gs_virtual_account *a = gs_virtual_accounts(r->virtual);
    double from = INFINITY, to = 0;
    summarise_steps(r);
    for (int i = 0; i < r->roles; i++) o->compute = fmax(o->compute, r->role[i].compute);
    for (int w = 0; w < o->workers; w++) {
        o->communication = fmax(o->communication, a[w].communicating);
        o->sent_most = fmax(o->sent_most, a[w].sent[0] + a[w].sent[1]);
        o->between += a[w].sent[0];
        o->inside += a[w].sent[1];
        from = fmin(from, a[w].first_sum);
        to = fmax(to, a[w].ended);
    }
    const double alone = compute_of(r->work);
    o->exposed = fmax(0, o->step - o->compute);
    o->speed_up = o->step > 0 ? o->workers * alone / o->step : o->workers;
    o->efficiency = o->speed_up / o->workers;
    find_busiest(r, from, to);
    name_bottleneck(r);
    begin_at_0(o);
}

gs_status gs_simulate(const gs_simulation *s, const gs_simulated_work *w, gs_simulated *out) {
    *out = (gs_simulated){.workers = s->workers, .hosts = s->hosts};
    run r = {.sim = s, .work = w, .out = out};
    const gs_virtual_cluster cluster = {.ranks = s->workers,
                                        .hosts = s->hosts,
                                        .between = s->settings.link,
                                        .inside = s->inside,
                                        .gamma = w->gamma};
    const gs_virtual_watch watcher = {watch, s->progress ? tell : NULL, &r};
    gs_status status = gs_virtual_create(&cluster, watcher, &r.virtual);
    if (status == GS_OK) status = create_scripts(&r);
    if (status == GS_OK) status = make_steps(&r);
    if (status == GS_OK) summarise(&r);
    free_run(&r);
    return status;
}

void gs_simulated_free(gs_simulated *s) {
    free(s->span);
    s->span = NULL;
    s->spans = 0;
}
