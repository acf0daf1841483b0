#include "predict/memory.h"

#include <math.h>
#include <stdlib.h>

#include "core/text.h"
#include "core/usable.h"
#include "layer/memory/recompute.h"
#include "train/settings.h"
#include "train/strategy.h"
#include "train/offload.h"
#include "train/run.h"

/* ---- plans ---- */

gs_status gs_memory_plan_create(const gs_settings *settings, gs_memory_plan *plan) {
    *plan = (gs_memory_plan){0};
    gs_run *run;
    GS_TRY(GS_NEW(run, 1, "a plan"));
    *run = (gs_run){.kind = GS_RUN_TRAIN, .settings = *settings};
    gs_status status = gs_run_prepare(run);
    if (status == GS_OK) status = gs_run_dry(run, &run->settings, true, plan);
    plan->run = run;
    plan->owns_run = true;
    return status;
}

gs_status gs_settings_alone(gs_settings *s, char device[48]) {
    GS_TRY(gs_devices_name(s->devices, 0, device));
    s->devices = device;
    s->layout = s->pipeline_schedule = s->pipeline_cut = NULL;
    s->pipeline = s->tensor = s->zero = s->micro_batches = s->max_memory = 0;
    s->exact = s->sequence = false;
    return GS_OK;
}

void gs_memory_plan_free(gs_memory_plan *p) {
    if (p->owns_run) {
        gs_run_free(p->run);
        free(p->run);
    }
    free(p->worker);
    free(p->layer);
    *p = (gs_memory_plan){0};
}

double gs_memory_most(const gs_memory_plan *p, int *worker) {
    double most = 0;
    for (int i = 0; i < p->workers; i++) {
        const double total = gs_memory_total(&p->worker[i].use[GS_ON_DEVICE]);
        if (total <= most) continue;
        most = total;
        if (worker) *worker = i;
    }
    return most;
}

/* ---- which settings need less memory ----
 *
 * One table lists the options in increasing order of the time they cost. `gradsum memory` lists what each would save,
 * --fit tries them in this order, and a run that --max-memory refuses names those that suffice. A row is a lever, which
 * changes a copy of the settings, from which another plan is made. To add an option, add a row. */

static const double MB = 1e6;

typedef struct lever {
    int listed; /* the number of degrees that gs_memory_options_find tries */
    /* Set degree 0, 1, ... in *s, and fill in option, formula and costs. Each degree uses less memory than the one
     * before. False: there is no such degree. */
    bool (*set)(const gs_memory_plan *, int degree, gs_settings *s, gs_memory_option *);
} lever;

enum { ALL = 100 };

static const char smaller[] = "smaller products";

/* Compute half of the samples at once, a quarter, and so on. A pipeline cuts the batch into more micro-batches instead.
 * With --exact a virtual shard is not cut, because that would give different bits. */
static bool set_micro_batch(const gs_memory_plan *p, int degree, gs_settings *s, gs_memory_option *o) {
    size_t all = 0;
    for (int i = 0; i < p->workers; i++)
        all = p->worker[i].micro_batch > all ? p->worker[i].micro_batch : all;
    size_t m = all;
    for (int i = 0; i < degree; i++) m = (m + 1) / 2;
    const size_t together = gs_together(&s->batch_norm),
                 least = s->exact ? gs_schedule_cut(p->batch, 0, GS_EXACT_SHARDS, together).count : 1;
    if (p->layout.pp > 1 || m <= least) return false;
    m = (m + 1) / 2 > least ? (m + 1) / 2 : least;
    s->micro_batch = m;
    o->costs = smaller;
    snprintf(o->option, sizeof o->option, "--micro-batch %zu", m);
    snprintf(o->formula, sizeof o->formula, "%zu sample%s at once instead of %zu", m, gs_s((unsigned)m), all);
    return true;
}

/* In a pipeline, make two, four or eight times as many micro-batches; at most one per sample. */
static bool set_micro_batches(const gs_memory_plan *p, int degree, gs_settings *s, gs_memory_option *o) {
    const int now = gs_passes(&p->settings), share = (int)(p->batch / (size_t)p->layout.dp);
    if (p->layout.pp == 1 || p->settings.exact || degree > 2 || now << degree >= share) return false;
    s->micro_batches = now << (degree + 1) < share ? now << (degree + 1) : share;
    o->costs = smaller;
    snprintf(o->option, sizeof o->option, "--micro-batches %d", s->micro_batches);
    snprintf(o->formula, sizeof o->formula, "a batch in %d parts instead of %d", s->micro_batches, now);
    return true;
}

static bool set_zero(const gs_memory_plan *p, int degree, gs_settings *s, gs_memory_option *o) {
    const bool stages = p->layout.pp > 1;
    const char *const what[] = {stages ? "vectors" : "vectors; no copy for sums", "gradients too; windows",
                                "weights too; windows"};
    const char *const costs[] = {"sum, update and gathering of weights one after the other",
                                 stages ? "sums in each micro-batch" : "sums of few layers at a time",
                                 stages ? "weights come twice in each micro-batch"
                                        : "half as many bytes again between workers"};
    const char *usual = gs_settings_default().sync;
    const int dp = p->layout.dp, zero = p->layout.zero + 1 + degree;
    if (dp == 1 || gs_strategy_of(&p->settings)->apart || zero > 3) return false;
    s->zero = zero;
    s->sync = usual;
    snprintf(o->option, sizeof o->option, "--zero %d%s%.20s", s->zero,
             strcmp(p->settings.sync, usual) ? ", no --sync " : "",
             strcmp(p->settings.sync, usual) ? p->settings.sync : "");
    if (s->layout) { /* the layout's text also names the ZeRO stage */
        s->pipeline = p->settings.pipeline;
        const gs_layout l = gs_layout_of(s, p->all_workers);
        char text[GS_LAYOUT_TEXT];
        snprintf(o->option, sizeof o->option, "--layout %.50s", gs_layout_text(&l, text));
        s->layout = NULL;
    }
    snprintf(o->formula, sizeof o->formula, "1/%d of %s", dp, what[s->zero - 1]);
    o->costs = costs[s->zero - 1];
    return true;
}

/* Each degree offloads another set of kinds of data, cheapest first (README.md); skips kinds set or refused. */
static bool set_offload(const gs_memory_plan *p, int degree, gs_settings *s, gs_memory_option *o) {
    static const char several[] = "these, except what is there for a moment";
    static const struct {
        unsigned what;
        const char *formula;
    } sets[] = {{GS_OFFLOAD_ACTIVATIONS, "y of all layers except the three in use"},
                {GS_OFFLOAD_OPTIMIZER, "vectors x 4 bytes x parameters, except blocks of 1 MB"},
                {GS_OFFLOAD_WEIGHTS, "4 bytes x parameters, except the largest layers"},
                {GS_OFFLOAD_ACTIVATIONS | GS_OFFLOAD_OPTIMIZER, several},
                {GS_OFFLOAD_ACTIVATIONS | GS_OFFLOAD_WEIGHTS, several},
                {GS_OFFLOAD_OPTIMIZER | GS_OFFLOAD_WEIGHTS, several},
                {GS_OFFLOADS, several}};
    char text[GS_OFFLOAD_TEXT];
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        gs_settings alone = p->settings;
        alone.offload |= sets[i].what;
        if (p->settings.offload & sets[i].what || gs_check_pairs(&alone) != GS_OK || degree-- > 0) continue;
        s->offload = alone.offload;
        snprintf(o->option, sizeof o->option, "--offload %s", gs_offload_text(s->offload, text, sizeof text));
        snprintf(o->formula, sizeof o->formula, "%s", sets[i].formula);
        o->costs = "what is brought from a disk, or from the host";
        return true;
    }
    return false;
}

static bool set_recompute(const gs_memory_plan *p, int degree, gs_settings *s, gs_memory_option *o) {
    static const int which[] = {GS_RECOMPUTE_BLOCKS, GS_RECOMPUTE_ALL, 2, 4, 8};
    char text[16];
    if (p->settings.recompute || degree >= (int)(sizeof which / sizeof *which)) return false;
    s->recompute = which[degree];
    snprintf(o->option, sizeof o->option, "--recompute %s",
             gs_recompute_text(which[degree], text, sizeof text));
    snprintf(o->formula, sizeof o->formula, "y inside of segments, which backward computes again");
    o->costs = "a part of forward twice";
    return true;
}

static bool set_vectors(const gs_memory_plan *p, int degree, gs_settings *s, gs_memory_option *o) {
    const int keeps = p->vectors - 1 - degree;
    if (keeps < 0) return false;
    s->resume = s->load = NULL;
    s->save_state = false;
    s->optimizer = gs_settings_default().optimizer;
    s->beta1 = s->beta2 = s->epsilon = (float)NAN;
    s->momentum = keeps == 0 ? 0.0f : (float)NAN;
    snprintf(o->option, sizeof o->option, "%s%s%s", p->vectors > 1 ? "--optimizer sgd" : "",
             p->vectors > 1 && keeps == 0 ? " " : "", keeps == 0 ? "--momentum 0" : "");
    snprintf(o->formula, sizeof o->formula, "%d x 4 bytes x parameters%s", degree + 1,
             p->layout.zero > 0 || p->layout.tp > 1 ? ", a part of them" : "");
    return true;
}

/* ---- the table ---- */

/* Sorted by their cost in time, cheapest first. Smaller micro-batches send no more messages. ZeRO's stages 1 and 2 send
 * as much as an all-reduce, in more messages; stage 3 half as much again. Fetching offloaded memory is mostly hidden
 * behind operators. Recomputing takes up to a third more operations. Offloading and recomputing keep every bit. */
static const lever levers[] = {
    {4, set_micro_batch}, {ALL, set_micro_batches}, {ALL, set_zero},
    {3, set_offload},     {ALL, set_recompute},     {ALL, set_vectors},
};
enum { LEVERS = sizeof levers / sizeof *levers, FITS = LEVERS - 1 /* --fit never changes the optimiser */ };

/* The most bytes that a worker needs with these settings; INFINITY: refused. again: as in gs_memory_plan; or NULL. */
static double peak_with(const gs_memory_plan *plan, const gs_settings *changed, double *again) {
    gs_memory_plan other;
    double most = INFINITY;
    if (gs_run_dry(plan->run, changed, plan->workers == plan->all_workers, &other) == GS_OK)
        most = gs_memory_most(&other, NULL);
    if (again) *again = other.again;
    gs_memory_plan_free(&other);
    return most;
}

static void try_lever(const gs_memory_plan *plan, const lever *l, gs_memory_options *list) {
    const double most = gs_memory_most(plan, NULL);
    double before = 0, again;
    for (int degree = 0; degree < l->listed && list->count < GS_MEMORY_OPTIONS; degree++) {
        gs_memory_option o = {.costs = NULL};
        gs_settings s = plan->settings;
        if (!l->set(plan, degree, &s, &o)) break;
        o.peak = peak_with(plan, &s, &again);
        o.saves = most - o.peak;
        const bool kinds =
            l->set == set_offload; /* its degrees differ in kind; other levers' degrees need less and less */
        if (o.saves < 1 || (kinds ? fabs(o.saves - before) < 1 : o.saves < before + 1)) continue;
        before = o.saves;
        if (again > plan->again)
            snprintf(o.formula, sizeof o.formula, "y inside of segments; backward repeats %.0f %% of forward",
                     100 * again);
        list->of[list->count++] = o;
    }
}

void gs_memory_options_find(const gs_memory_plan *plan, gs_memory_options *list) {
    *list = (gs_memory_options){.count = 0};
    for (int i = 0; i < LEVERS; i++) try_lever(plan, &levers[i], list);
}

double gs_memory_bytes_each(const gs_memory_plan *plan, char *text, size_t size) {
    const int stage = plan->layout.zero, n = plan->layout.dp,
              parts = 4 * ((stage > 0 ? plan->vectors : 0) + (stage > 1) + (stage > 2)),
              all = 4 * (plan->vectors + 2) - parts;
    if (parts == 0) snprintf(text, size, "%d", all);
    if (parts > 0 && all == 0) snprintf(text, size, "%d/%d", parts, n);
    if (parts > 0 && all > 0) snprintf(text, size, "%d + %d/%d", all, parts, n);
    return all + (double)parts / n;
}

/* ---- --fit ---- */

/* The degree of each lever; -1: unused. */
typedef struct choice {
    const gs_memory_plan *plan; /* for the given settings */
    double limit;
    int degree[FITS];
    char text[200];  /* "--micro-batch 8 --zero 1" */
    char costs[200]; /* their costs in time */
} choice;

/* Set all chosen degrees in *s, and write c->text and c->costs. False: a lever has no such degree. */
static bool apply(choice *c, gs_settings *s) {
    *c->text = *c->costs = '\0';
    for (int i = 0; i < FITS; i++) {
        gs_memory_option o = {.costs = NULL};
        if (c->degree[i] < 0) continue;
        if (!levers[i].set(c->plan, c->degree[i], s, &o)) return false;
        gs_append(c->text, sizeof c->text, "%s%s", *c->text ? " " : "", o.option);
        gs_append(c->costs, sizeof c->costs, "%s%s", *c->costs ? ", " : "", o.costs);
    }
    return true;
}

/* Raise a lever from degree `from` until the run fits (true). Else set the degree that needs least, if below *now. */
static bool move(choice *c, int lever, int from, double *now) {
    int best = -1;
    for (int degree = from;; degree++) {
        gs_settings s = c->plan->settings;
        c->degree[lever] = degree;
        if (!apply(c, &s)) break;
        const double peak = peak_with(c->plan, &s, NULL);
        if (peak <= c->limit) return true;
        if (peak < *now) best = degree;
        *now = fmin(*now, peak);
    }
    c->degree[lever] = best;
    gs_settings s = c->plan->settings;
    (void)apply(c, &s); /* for c->text */
    return false;
}

/* Move the levers in order, cheapest first, each as far as necessary or as far as it helps. Then move the levers before
 * the last one back as far as the run still fits. `before`: the last combination that failed. False: nothing fits. */
static bool choose(choice *c, char *before, size_t size) {
    double now = gs_memory_most(c->plan, NULL);
    int last = 0;
    *before = '\0';
    for (int i = 0; i < FITS; i++) c->degree[i] = -1;
    for (; last < FITS && !move(c, last, 0, &now); last++)
        if (c->degree[last] >= 0)
            gs_append(before, size, "%s%s would take %.1f MB", *before ? ", " : "", c->text, now / MB);
    for (int i = last - 1; i >= 0 && last < FITS; i--)
        if (c->degree[i] >= 0) (void)move(c, i, -1, &now);
    return last < FITS;
}

/* ---- refusal ---- */

/* "activations 80.1, weights 3.2, gradients 3.2": the three largest kinds, largest first. */
static void list_largest(const gs_memory_use *use, char *text, size_t size) {
    bool told[GS_MEMORY_KINDS] = {false};
    *text = '\0';
    for (int i = 0; i < 3; i++) {
        int best = 0;
        for (int k = 1; k < GS_MEMORY_KINDS; k++)
            if (told[best] || (!told[k] && use->bytes[k] > use->bytes[best])) best = k;
        told[best] = true;
        gs_append(text, size, "%s%s %.1f", i ? ", " : "", gs_memory_word((gs_memory_kind)best),
                  use->bytes[best] / MB);
    }
}

/* List the options that suffice on their own; if none does, list those that --fit would combine. */
static void list_help(choice *c, char *help, size_t size) {
    gs_memory_options list;
    char before[GS_FIT_TEXT];
    *help = '\0';
    gs_memory_options_find(c->plan, &list);
    for (int i = 0; i < list.count; i++)
        if (list.of[i].peak <= c->limit)
            gs_append(help, size, "%s%s (%.1f MB)", *help ? ", " : "it would fit with ", list.of[i].option,
                      list.of[i].peak / MB);
    if (*help) return;
    const bool together = choose(c, before, sizeof before);
    gs_settings s = c->plan->settings;
    (void)apply(c, &s);
    gs_append(help, size,
              c->plan->settings.fit ? "--fit finds nothing that makes it fit"
                                    : "no single option makes it fit");
    if (*c->text)
        gs_append(help, size, "%s%s %s %.1f MB", together ? ", but " : "; even ", c->text,
                  together ? "do together, with" : "would take", peak_with(c->plan, &s, NULL) / MB);
    gs_append(help, size, " (gradsum memory shows all)");
}

static gs_status refuse(choice *c) {
    const gs_memory_plan *plan = c->plan;
    int worker = 0;
    char largest[200], help[400];
    const double most = gs_memory_most(plan, &worker);
    list_largest(&plan->worker[worker].use[GS_ON_DEVICE], largest, sizeof largest);
    list_help(c, help, sizeof help);
    return gs_fail(GS_E_MEMORY, "--max-memory %d: worker %d (%s) would take %.1f MB (%s MB, ...); %s",
                   plan->settings.max_memory, plan->worker[worker].rank, plan->worker[worker].device,
                   most / MB, largest, help);
}

gs_status gs_memory_limit(gs_settings *s) {
    /* the rest is for what plans do not count: programs, libraries and data sets */
    const double share = 0.8;
    const gs_rendezvous *p = s->processes;
    const int processes_here =
        p && p->size > 1 ? (p->size + p->nodes - (p->nodes > 0)) / (p->nodes > 0 ? p->nodes : 1) : 1;
    const double most = share * gs_usable_here().bytes / (processes_here * gs_devices_count(s->devices)) / MB;
    if (!s->fit) return GS_OK;
    if (gs_devices_are_cpu(s->devices) && most >= 1 && (!s->max_memory || most < s->max_memory))
        s->max_memory = (int)fmin(most, 1e9);
    if (s->max_memory) return GS_OK;
    return gs_fail(GS_E_USAGE,
                   "--fit says what to do at a limit: it needs --max-memory MB, since only the memory "
                   "for workers on cpu is known");
}

gs_status gs_memory_check(gs_settings *s, gs_memory_plan *plan, char *why, size_t size) {
    choice c = {.plan = plan, .limit = s->max_memory * MB};
    char before[GS_FIT_TEXT];
    *why = '\0';
    if (!s->max_memory || gs_memory_most(plan, NULL) <= c.limit) return GS_OK;
    if (!s->fit || !choose(&c, before, sizeof before)) return refuse(&c);
    gs_memory_plan fitted;
    gs_settings chosen = plan->settings;
    (void)apply(&c, &chosen);
    const gs_status status = gs_run_dry(plan->run, &chosen, plan->workers == plan->all_workers, &fitted);
    if (status != GS_OK) {
        gs_memory_plan_free(&fitted);
        return status;
    }
    gs_append(why, size, "%s, with %.1f MB instead of %.1f; the cost: %s", c.text,
              gs_memory_most(&fitted, NULL) / MB, gs_memory_most(plan, NULL) / MB, c.costs);
    if (*before) gs_append(why, size, "; what is cheaper does not suffice: %s", before);
    (void)apply(&c, s);
    fitted.owns_run = plan->owns_run;
    plan->owns_run = false;
    gs_memory_plan_free(plan);
    *plan = fitted;
    return GS_OK;
}
