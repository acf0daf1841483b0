#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/median.h"
#include "train/internal.h"
#include "train/simulate/scripts.h"
#include "train/tensor/tensor.h"
#include "train/strategy.h"

const char *const gs_simulated_kinds[GS_SIM_KINDS] = {"pause", "forward", "backward",
                                                      "sum",   "message", "update"};

enum { STEPS_MOST = 8 /* until two take as long */ };
static const double SAME = 1e-6; /* as a share of a step */

/* ---- what is asked ---- */

static gs_status check_sync(const gs_settings *s) {
    const gs_sync_scheme *scheme;
    GS_TRY(gs_sync_find(s->sync, &scheme));
    if (scheme == &gs_sync_auto)
        return gs_fail(GS_E_USAGE,
                       "--sync auto chooses by measuring, and simulate measures no messages; name a scheme "
                       "(gradsum step --help lists them)");
    return GS_OK;
}

static gs_status check_layout(const gs_simulation *s) {
    const gs_layout l = gs_layout_of(&s->settings, s->workers);
    GS_TRY(gs_tensor_check(&s->settings));
    if (l.pp == 1) GS_TRY(gs_strategy_pipeline.check(&s->settings, false)); /* no options of stages */
    gs_settings any = s->settings;
    any.sync = gs_settings_default().sync; /* stages and groups have no scheme */
    return gs_check_pairs(&any);
}

static gs_status check_workers(const gs_simulation *s) {
    if (s->workers < 1 || s->workers > GS_SIMULATED_WORKERS)
        return gs_fail(GS_E_USAGE, "--workers %d: wanted 1 to %d", s->workers, GS_SIMULATED_WORKERS);
    if (s->hosts < 1 || s->hosts > s->workers || s->workers % s->hosts != 0)
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
    const int divides = (s->settings.pipeline > 1 ? s->settings.pipeline : 1) *
                        (s->settings.tensor > 1 ? s->settings.tensor : 1);
    if (s->workers % divides != 0)
        return gs_fail(GS_E_USAGE, "%d workers cannot be divided into groups of %d", s->workers, divides);
    GS_TRY(check_sync(&s->settings));
    GS_TRY(check_layout(s));
    if (s->settings.batch == 0) s->settings.batch = (size_t)GS_SIMULATED_BATCH * (size_t)s->workers;
    if (s->settings.batch < (size_t)s->workers)
        return gs_fail(GS_E_USAGE, "--batch %zu is less than a sample for each of %d workers",
                       s->settings.batch, s->workers);
    return GS_OK;
}

/* ---- the timeline ---- */

typedef struct run {
    const gs_simulation *sim;
    const gs_simulated_work *work;
    gs_simulated *out;
    gs_scripts scripts;
    gs_virtual *virtual;
    int made; /* steps */
    int room;
    gs_status failed;
    double last; /* when worker 0 ended the step before */
    double step[GS_SIMULATED_STEPS + STEPS_MOST];
} run;

/* The workers that are shown: all, or evenly spaced ones. */
static bool is_shown(const gs_simulation *s, int rank) {
    if (s->workers <= GS_SIM_SHOWN) return true;
    return rank % ((s->workers + GS_SIM_SHOWN - 1) / GS_SIM_SHOWN) == 0;
}

static void keep(run *r, int rank, gs_simulated_kind kind, double from, double to) {
    gs_simulated *o = r->out;
    if (!(to > from)) return;
    if (o->spans == r->room) {
        const int room = r->room ? 2 * r->room : 64;
        gs_simulated_span *more = realloc(o->span, (size_t)room * sizeof *more);
        if (!more) {
            r->failed = GS_E_MEMORY;
            return;
        }
        o->span = more;
        r->room = room;
    }
    o->span[o->spans++] = (gs_simulated_span){rank, kind, from, to};
}

static void watch(void *context, int rank, const gs_virtual_item *item, double from, double to) {
    run *r = context;
    if (!is_shown(r->sim, rank)) return;
    keep(r, rank, (gs_simulated_kind)item->kind, from, to);
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
        r->scripts.item[rank][0].seconds = gs_jitter_seconds(&s->jitter, s->seed, rank, (uint64_t)step);
    }
    r->out->spans = 0;
    GS_TRY(gs_virtual_play(r->virtual, r->scripts.script));
    const gs_virtual_account *a = gs_virtual_accounts(r->virtual);
    r->made++;
    r->step[step] = a[0].ended - r->last;
    r->last = a[0].ended;
    return GS_OK;
}

/* Do all workers end this step at one moment, so that the next begins as this one did? */
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
    /* All begin the first one at one moment, and so it takes another time. With pauses it is one of many. */
    const int skip = o->steps > 1 && r->sim->settings.jitter.count == 0;
    double *times = r->step + skip;
    const int count = o->steps - skip;
    for (int i = 0; i < count; i++) o->mean += times[i] / count;
    o->step = gs_median(times, count);
}

/* ---- what came out ---- */

static void find_busiest(run *r, double from, double to) {
    gs_simulated *o = r->out;
    const gs_virtual_line *line = gs_virtual_lines(r->virtual);
    double most = 0;
    for (int h = 0; h < r->sim->hosts; h++)
        for (int in = 0; in < 2; in++) {
            const double busy = in ? line[h].in : line[h].out;
            if (!(busy > most)) continue;
            most = busy;
            o->busiest = h;
            o->busiest_in = in;
        }
    /* Where the sums of two steps overlap, a line has no longer than a step for those of one. */
    const double time = fmin(to - from, o->step);
    o->busy = time > 0 ? fmin(1, most / time) : 0;
}

/* In at most 65 columns. */
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
    for (int w = 0; w < o->workers; w++) {
        o->compute = fmax(o->compute, r->scripts.compute[w]);
        o->communication = fmax(o->communication, a[w].communicating);
        o->sent_most = fmax(o->sent_most, a[w].sent[0] + a[w].sent[1]);
        o->between += a[w].sent[0];
        o->inside += a[w].sent[1];
        from = fmin(from, a[w].first_sum);
        to = fmax(to, a[w].ended);
    }
    const double alone = gs_simulated_compute(r->work);
    o->exposed = fmax(0, o->step - o->compute);
    o->speed_up = o->step > 0 ? o->workers * alone / o->step : o->workers;
    o->efficiency = o->speed_up / o->workers;
    o->formula = r->scripts.formula;
    o->buckets = r->scripts.buckets;
    find_busiest(r, from, to);
    name_bottleneck(r);
    begin_at_0(o);
}

gs_status gs_simulate(const gs_simulation *s, const gs_simulated_work *w, gs_simulated *out) {
    *out = (gs_simulated){.workers = s->workers, .hosts = s->hosts};
    run *r = calloc(1, sizeof *r);
    if (!r) return gs_fail(GS_E_MEMORY, "no memory to simulate %d workers", s->workers);
    r->sim = s;
    r->work = w;
    r->out = out;
    const gs_virtual_cluster cluster = {.ranks = s->workers,
                                        .hosts = s->hosts,
                                        .between = s->settings.link,
                                        .inside = s->inside,
                                        .gamma = w->gamma};
    gs_status status = gs_virtual_create(&cluster, &r->virtual);
    if (status == GS_OK) status = gs_scripts_create(s, w, &r->scripts);
    if (status == GS_OK) {
        gs_virtual_watched(r->virtual, watch, r);
        if (s->progress) gs_virtual_told(r->virtual, tell, r);
        status = make_steps(r);
    }
    if (status == GS_OK) summarise(r);
    gs_virtual_free(r->virtual);
    gs_scripts_free(&r->scripts);
    free(r);
    return status;
}

void gs_simulated_free(gs_simulated *s) {
    free(s->span);
    s->span = NULL;
    s->spans = 0;
}
