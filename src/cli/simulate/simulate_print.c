/* What `gradsum simulate` prints: a table in 80 columns, or JSON. */
#include "cli/cli.h"
#include "cli/simulate/simulate.h"
#include "io/json.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *bytes_text(double bytes) {
    static const char *const unit[] = {"B", "kB", "MB", "GB", "TB", "PB"};
    static _Thread_local char texts[4][24];
    static _Thread_local unsigned turn;
    char *text = texts[turn++ % 4];
    int u = 0;
    while (u < 5 && bytes >= 1000) {
        bytes /= 1000;
        u++;
    }
    snprintf(text, sizeof texts[0], "%.4g %s", bytes, unit[u]);
    return text;
}

static const char *model_of(const gs_settings *s) {
    const char *name = s->model ? s->model : "mlp";
    return gs_model_is_name(name) ? name : "layers";
}

static void print_cluster(const gs_simulate_answer *a) {
    const gs_simulation *s = &a->sim;
    char between[80], inside[80], samples[32];
    snprintf(samples, sizeof samples, "%.4g", a->work.samples);
    printf("model          %s, %s parameters; %s samples a worker\n", model_of(&s->settings),
           gs_thousands((double)a->work.plan->params), samples);
    gs_link_text(&s->settings.link, between, sizeof between);
    gs_link_text(&s->inside, inside, sizeof inside);
    printf("cluster        %s worker%s, ", gs_thousands(s->workers), gs_s((unsigned)s->workers));
    if (s->hosts == s->workers)
        printf("each on a host of its own: %s\n", between);
    else
        printf("%d on each of %s host%s\n               %s between hosts, %s inside\n", s->workers / s->hosts,
               gs_thousands(s->hosts), gs_s((unsigned)s->hosts), between, inside);
}

static void print_formula(const gs_simulated *r) {
    if (isnan(r->formula) || r->workers == 1) return;
    printf("by formula     %s for the sums: alpha-beta model, every worker on a host\n"
           "               of its own (src/sync has each scheme's formula and its source)\n",
           gs_simulate_time(r->formula));
}

static void print_result(const gs_simulate_answer *a) {
    const gs_simulated *r = &a->result;
    const gs_settings *s = &a->sim.settings;
    printf("compute        %s a step, ", gs_simulate_time(r->compute));
    if (a->work.measured)
        printf("measured here on one core\n");
    else
        printf("a worker makes %.4g %sFLOP/s\n", a->sim.flops * (a->sim.flops < 1e12 ? 1e-9 : 1e-12),
               a->sim.flops < 1e12 ? "G" : "T");
    printf("sums           %s", s->layout ? s->layout : s->sync);
    if (s->layout) printf(", gradients by %s", s->zero ? "reduce-scatter and all-gather" : s->sync);
    if (r->buckets > 1) printf("%s%d buckets", s->layout ? ",\n               in " : ", ", r->buckets);
    printf("\n\nstep           %s\n", gs_simulate_time(r->step));
    if (s->jitter.count > 0) printf("               the median; the mean is %s\n", gs_simulate_time(r->mean));
    printf("speed-up       %.4g with %s workers: efficiency %.1f %%\n", r->speed_up, gs_thousands(r->workers),
           100 * r->efficiency);
    printf("sent           %s by the worker with most\n", bytes_text(r->sent_most));
    printf("               %s in all: %s between hosts, %s inside\n", bytes_text(r->between + r->inside),
           bytes_text(r->between), bytes_text(r->inside));
    printf("communication  %s, %.0f %% of it hidden behind compute\n", gs_simulate_time(r->communication),
           100 * gs_simulated_hidden(r));
    print_formula(r);
    printf("bottleneck     %s\n", r->bottleneck);
}

static void print_curve(const gs_simulate_answer *a) {
    if (a->points == 0) return;
    printf("\n%8s %6s %11s %9s %6s %11s %7s %10s\n", "workers", "hosts", "step", "speed-up", "eff.",
           "communic.", "hidden", "by formula");
    for (int i = 0; i < a->points; i++) {
        const gs_simulated *r = &a->curve[i];
        printf("%8d %6d %11s %9.4g %4.0f %% %11s %5.0f %% %10s\n", r->workers, r->hosts,
               gs_simulate_time(r->step), r->speed_up, 100 * r->efficiency,
               gs_simulate_time(r->communication), 100 * gs_simulated_hidden(r),
               isnan(r->formula) ? "-" : gs_simulate_time(r->formula));
    }
}

static void print_interval(const char *name, double every, double time, double work) {
    printf("%-14s %-20s %-16s %.2f %%\n", name, every > 0 ? gs_simulate_time(every) : "",
           gs_simulate_time(time), 100 * (time / work - 1));
}

static void print_failures(const gs_simulate_answer *a) {
    const gs_failures *f = &a->failures;
    const gs_failures_cost *c = &a->cost;
    if (!a->has_failures) return;
    printf("\nfailures       one in %s of the cluster, %s of a host\n", gs_simulate_time(c->mtbf),
           gs_simulate_time(f->mtbf));
    printf("               a checkpoint takes %s, a restart %s\n", gs_simulate_time(f->checkpoint),
           gs_simulate_time(f->restart));
    printf("\n%-14s %-20s %-16s %s\n", "", "a checkpoint every", "expected time", "more");
    print_interval("without", 0, f->work, f->work);
    if (f->every > 0) print_interval("as given", c->every, c->expected, f->work);
    print_interval("Young (1974)", c->young, c->expected_young, f->work);
    print_interval("Daly (2006)", c->daly, c->expected_daly, f->work);
    if (c->runs == 0) return;
    print_interval("drawn", c->every, c->drawn, f->work);
    printf("drawn: the mean of %s runs, which took %s to %s;\n", gs_thousands(c->runs),
           gs_simulate_time(c->least), gs_simulate_time(c->most));
    printf("the others by Daly's formula (src/train/simulate/failures.h)\n");
}

void gs_simulate_print(const gs_simulate_answer *a) {
    print_cluster(a);
    print_result(a);
    print_curve(a);
    print_failures(a);
}

/* ---- JSON ---- */

static cJSON *number_or_null(double x) {
    return isfinite(x) ? cJSON_CreateNumber(x) : cJSON_CreateNull();
}

static cJSON *json_point(const gs_simulated *r) {
    return GS_JSON_OBJECT(
        GS_FIELD("workers", r->workers), GS_FIELD("hosts", r->hosts), GS_FIELD("step", r->step),
        GS_FIELD("step_mean", r->mean), GS_FIELD("steps", r->steps), GS_FIELD("compute", r->compute),
        GS_FIELD("communication", r->communication), GS_FIELD("exposed", r->exposed),
        GS_FIELD("hidden", gs_simulated_hidden(r)), GS_FIELD("speed_up", r->speed_up),
        GS_FIELD("efficiency", r->efficiency), GS_FIELD("sent_most", r->sent_most),
        GS_FIELD("sent_between", r->between), GS_FIELD("sent_inside", r->inside),
        GS_FIELD("buckets", r->buckets), GS_FIELD("formula", number_or_null(r->formula)),
        GS_FIELD("busiest_line", r->busy), GS_FIELD("bottleneck", (const char *)r->bottleneck));
}

static cJSON *json_timeline(const gs_simulated *r) {
    cJSON *spans = cJSON_CreateArray();
    for (int i = 0; i < r->spans; i++) {
        const gs_simulated_span *x = &r->span[i];
        cJSON_AddItemToArray(spans, GS_JSON_OBJECT(GS_FIELD("worker", x->rank),
                                                   GS_FIELD("what", gs_simulated_kinds[x->kind]),
                                                   GS_FIELD("from", x->from), GS_FIELD("to", x->to)));
    }
    return spans;
}

static cJSON *json_failures(const gs_simulate_answer *a) {
    const gs_failures *f = &a->failures;
    const gs_failures_cost *c = &a->cost;
    return GS_JSON_OBJECT(GS_FIELD("mtbf_host", f->mtbf), GS_FIELD("mtbf", c->mtbf),
                          GS_FIELD("work", f->work), GS_FIELD("checkpoint_cost", f->checkpoint),
                          GS_FIELD("restart_cost", f->restart), GS_FIELD("checkpoint_every", c->every),
                          GS_FIELD("expected", c->expected), GS_FIELD("young", c->young),
                          GS_FIELD("expected_young", c->expected_young), GS_FIELD("daly", c->daly),
                          GS_FIELD("expected_daly", c->expected_daly),
                          GS_FIELD("drawn", number_or_null(c->drawn)), GS_FIELD("runs", c->runs));
}

cJSON *gs_simulate_json(const gs_simulate_answer *a, bool timeline) {
    const gs_settings *s = &a->sim.settings;
    char between[80], inside[80];
    cJSON *o = json_point(&a->result);
    GS_JSON_ADD(o, GS_FIELD("model", model_of(s)), GS_FIELD("parameters", a->work.plan->params),
                GS_FIELD("samples", a->work.samples), GS_FIELD("measured", a->work.measured),
                GS_FIELD("flops", a->work.measured ? cJSON_CreateNull() : cJSON_CreateNumber(a->sim.flops)),
                GS_FIELD("add", number_or_null(1 / a->work.gamma)), GS_FIELD("sync", s->sync),
                GS_FIELD("layout", s->layout ? s->layout : ""),
                GS_FIELD("link", gs_link_text(&s->link, between, sizeof between)),
                GS_FIELD("inside", gs_link_text(&a->sim.inside, inside, sizeof inside)));
    if (a->points > 0) {
        cJSON *curve = cJSON_AddArrayToObject(o, "curve");
        for (int i = 0; i < a->points; i++) cJSON_AddItemToArray(curve, json_point(&a->curve[i]));
    }
    if (timeline) cJSON_AddItemToObject(o, "timeline", json_timeline(&a->result));
    if (a->has_failures) cJSON_AddItemToObject(o, "failures", json_failures(a));
    return o;
}
