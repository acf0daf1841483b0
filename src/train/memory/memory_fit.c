/* A limit of memory: what is chosen to stay below it, or why a run is refused. */
#include <math.h>
#include <stdio.h>

#include "core/text.h"
#include "core/usable.h"
#include "train/internal.h"
#include "train/memory/memory_levers.h"

static const double MB = 1e6;
enum { FEW = 8 }; /* degrees of a lever that are all tried; of more, some */

/* ---- choosing ---- */

/* How far each lever is moved; -1: not at all. */
typedef struct choice {
    const gs_memory_plan *plan; /* of the run as it was given */
    double limit;
    int degree[GS_MEMORY_LEVERS];
} choice;

typedef struct text_of_options {
    char text[200];
} text_of_options;

/* All that is chosen, in *s; text: "--micro-batch 8 --zero 1". */
static void apply(const choice *c, gs_settings *s, char *text, size_t size) {
    *text = '\0';
    for (int i = 0; i < GS_MEMORY_LEVERS; i++) {
        gs_memory_option o = {.in_theory = false};
        if (c->degree[i] < 0) continue;
        gs_memory_levers[i].set(c->plan, c->degree[i], s, &o);
        gs_append(text, size, "%s%s", *text ? " " : "", o.option);
    }
}

static gs_settings chosen_settings(const choice *c, text_of_options *text) {
    gs_settings s = c->plan->settings;
    apply(c, &s, text->text, sizeof text->text);
    return s;
}

static double peak_of(const choice *c) {
    text_of_options unused;
    const gs_settings s = chosen_settings(c, &unused);
    return gs_memory_with(c->plan, &s, NULL);
}

static bool fits(choice *c, int lever, int degree) {
    c->degree[lever] = degree;
    return peak_of(c) <= c->limit;
}

/* The first degree from `from` on with which it fits; `degrees`: none. Many degrees, of samples at once, take less and
 * less: they are bisected. Where the last of them is refused (--batch-norm ghost), those of the list are tried. */
static int first_that_fits(choice *c, int lever, int from, int degrees) {
    int bad = from - 1, good = degrees - 1;
    if (degrees - from <= FEW) {
        while (from < degrees && !fits(c, lever, from)) from++;
        return from;
    }
    if (!fits(c, lever, good)) {
        const gs_memory_lever *l = &gs_memory_levers[lever];
        for (int i = 0; l->listed && (good = l->listed(c->plan, i)) >= 0 && good < degrees; i++)
            if (fits(c, lever, good)) return good;
        return degrees;
    }
    while (good - bad > 1) {
        const int middle = bad + (good - bad) / 2;
        if (fits(c, lever, middle))
            good = middle;
        else
            bad = middle;
    }
    return good;
}

/* The degree that takes least, of few; of many the last one. -1: none takes less than `now`. */
static int least(choice *c, int lever, int degrees, double *now) {
    int best = -1;
    for (int d = degrees > FEW ? degrees - 1 : 0; d < degrees; d++) {
        c->degree[lever] = d;
        const double peak = peak_of(c);
        if (peak < *now) best = d;
        if (peak < *now) *now = peak;
    }
    return best;
}

/* One lever after the other, cheapest first: as far as it must be moved, or as far as it helps. Then those before the
 * last one are moved back as far as it still fits. `before`: what did not suffice. False: nothing fits. */
static bool choose(choice *c, char *before, size_t size) {
    double now = gs_memory_most(c->plan, NULL);
    int last = -1;
    *before = '\0';
    for (int i = 0; i < GS_MEMORY_LEVERS; i++) c->degree[i] = -1;
    for (int i = 0; i < GS_MEMORY_LEVERS && last < 0; i++) {
        const int degrees = gs_memory_levers[i].asked_for ? 0 : gs_memory_levers[i].degrees(c->plan);
        if (degrees <= 0) continue;
        c->degree[i] = first_that_fits(c, i, 0, degrees);
        if (c->degree[i] < degrees) last = i;
        if (last >= 0) break;
        c->degree[i] = least(c, i, degrees, &now);
        if (c->degree[i] < 0) continue;
        text_of_options o;
        (void)chosen_settings(c, &o);
        gs_append(before, size, "%s%s would take %.1f MB", *before ? ", " : "", o.text, now / MB);
    }
    for (int i = last - 1; i >= 0; i--)
        if (c->degree[i] >= 0) c->degree[i] = first_that_fits(c, i, -1, c->degree[i] + 1);
    return last >= 0;
}

/* "--micro-batch 8, with 20.1 MB instead of 80.2; it costs smaller products" */
static void tell(const choice *c, const char *before, double peak, char *why, size_t size) {
    text_of_options o;
    int count = 0;
    (void)chosen_settings(c, &o);
    *why = '\0';
    gs_append(why, size, "%s, with %.1f MB instead of %.1f", o.text, peak / MB,
              gs_memory_most(c->plan, NULL) / MB);
    for (int i = 0; i < GS_MEMORY_LEVERS; i++) {
        gs_settings s = c->plan->settings;
        gs_memory_option one = {.in_theory = false};
        if (c->degree[i] < 0) continue;
        gs_memory_levers[i].set(c->plan, c->degree[i], &s, &one);
        gs_append(why, size, "%s%s", count++ ? ", " : "; the cost: ", one.costs ? one.costs : "none");
    }
    if (*before) gs_append(why, size, "; what is cheaper does not suffice: %s", before);
}

/* ---- refusing ---- */

/* "activations 80.1, weights 3.2, gradients 3.2": the largest first. */
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

/* What would help: options alone, or else what --fit would take together. */
static void list_help(choice *c, char *help, size_t size) {
    gs_memory_options list;
    text_of_options o;
    char before[GS_FIT_TEXT];
    *help = '\0';
    gs_memory_options_find(c->plan, &list);
    for (int i = 0; i < list.count; i++)
        if (!list.of[i].in_theory && list.of[i].peak <= c->limit)
            gs_append(help, size, "%s%s (%.1f MB)", *help ? ", " : "it would fit with ", list.of[i].option,
                      list.of[i].peak / MB);
    if (*help) return;
    const bool together = choose(c, before, sizeof before);
    (void)chosen_settings(c, &o);
    gs_append(help, size,
              c->plan->settings.fit ? "--fit finds nothing that makes it fit"
                                    : "no single option makes it fit");
    if (*o.text)
        gs_append(help, size, "%s%s %s %.1f MB", together ? ", but " : "; even ", o.text,
                  together ? "do together, with" : "would take", peak_of(c) / MB);
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
    const double share = 0.8; /* the rest is for programs, libraries and data sets, which no plan counts */
    const gs_rendezvous *p = s->processes;
    const int beside =
        p && p->size > 1 ? (p->size + p->nodes - (p->nodes > 0)) / (p->nodes > 0 ? p->nodes : 1) : 1;
    const double most = share * gs_usable_here().bytes / (beside * gs_devices_count(s->devices)) / MB;
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
    text_of_options unused;
    const gs_settings chosen = chosen_settings(&c, &unused);
    gs_status status = gs_memory_plan_again(plan, &chosen, &fitted);
    if (status != GS_OK) {
        gs_memory_plan_free(&fitted);
        return status;
    }
    tell(&c, before, gs_memory_most(&fitted, NULL), why, size);
    apply(&c, s, unused.text, sizeof unused.text);
    fitted.owns_run = plan->owns_run;
    plan->owns_run = false;
    gs_memory_plan_free(plan);
    *plan = fitted;
    return GS_OK;
}
