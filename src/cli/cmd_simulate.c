/* gradsum simulate: simulates a training step on a cluster in virtual time. */
#include "cli/cli.h"
#include "core/units.h"
#include "io/json.h"
#include "model/model_text.h"
#include "page/page.h"
#include "predict/failures.h"
#include "predict/simulate.h"

#include <math.h>

enum { CURVE = 40 /* maximum number of points */ };

typedef struct question {
    gs_simulation sim; /* resolved: every field has its final value */
    int argc;
    char **argv;
    bool json, wants_curve;
    const char *flops, *add, *mtbf, *checkpoint, *restart, *every, *whole, *out; /* NULL: not given */

    gs_activity shown; /* progress of a step: */
    int shown_workers, shown_step;

    gs_simulated_work work; /* the answer */
    gs_simulated result;
    gs_simulated curve[CURVE];
    int points;
    bool has_failures;
    gs_failures failures;
    gs_failures_cost cost;
} question;

/* ---- numbers with units ---- */

static const gs_unit units_time[] = {{"us", 1, 1e6}, {"ms", 1, 1e3},  {"s", 1, 1},        {"min", 60, 1},
                                     {"h", 3600, 1}, {"d", 86400, 1}, {"y", 31557600, 1}, {0}};
static const gs_unit units_bytes[] = {
    {"B", 1, 1}, {"kB", 1e3, 1}, {"MB", 1e6, 1}, {"GB", 1e9, 1}, {"TB", 1e12, 1}, {"PB", 1e15, 1}, {0}};
static const gs_unit units_flops[] = {
    {"GFLOP/s", 1e9, 1}, {"TFLOP/s", 1e12, 1}, {"PFLOP/s", 1e15, 1}, {"MFLOP/s", 1e6, 1}, {0}};

static gs_status read_number(const char *option, const char *text, const gs_unit *units, double least,
                             double most, const char *wanted, double *out) {
    const char *end = text;
    double value;
    if (!text) return GS_OK;
    if (gs_unit_read(&end, units, &value) && !*end && value >= least && value <= most) {
        *out = value;
        return GS_OK;
    }
    return gs_fail(GS_E_USAGE, "--%s: '%s' is not %s", option, text, wanted);
}

static gs_status read_time(const char *option, const char *text, double least, double *out) {
    return read_number(option, text, units_time, least, 1e13,
                       "a number with us, ms, s, min, h, d or y right behind it, such as 90s or 30d", out);
}

/* "3.2 h": in the largest unit in which the value is at least 1. The last four results of this thread stay valid. */
static const char *with_unit(double value, const gs_unit *u) {
    static _Thread_local char texts[4][40];
    static _Thread_local unsigned turn;
    char *text = texts[turn++ % 4];
    while (u[1].name && value >= u[1].times / u[1].per) u++;
    snprintf(text, sizeof texts[0], "%.4g %s", value * u->per / u->times, u->name);
    return text;
}

static const char *time_text(double seconds) {
    return with_unit(seconds, units_time);
}

static const char *bytes_text(double bytes) {
    return with_unit(bytes, units_bytes);
}

/* ---- the answer as a table in 80 columns, and as JSON ---- */

static const char *model_of(const gs_settings *s) {
    const char *name = s->model ? s->model : "mlp";
    return gs_model_named(name) ? name : "layers";
}

static void print_cluster(const question *q) {
    const gs_simulation *s = &q->sim;
    char between[80], inside[80], samples[32];
    snprintf(samples, sizeof samples, "%.4g", q->work.samples);
    printf("model          %s, %s parameters; %s samples a worker\n", model_of(&s->settings),
           gs_thousands((double)q->work.plan->params), samples);
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
    printf("by formula     %s for the sums: alpha-beta model, as if no workers\n"
           "               shared a host (src/sync has each scheme's formula and its source)\n",
           time_text(r->formula));
}

static void print_result(const question *q) {
    const gs_simulated *r = &q->result;
    const gs_settings *s = &q->sim.settings;
    printf("compute        %s a step, ", time_text(r->compute));
    if (q->work.measured)
        printf("measured here on one core\n");
    else
        printf("a worker makes %.4g %sFLOP/s\n", q->sim.flops * (q->sim.flops < 1e12 ? 1e-9 : 1e-12),
               q->sim.flops < 1e12 ? "G" : "T");
    printf("sums           %s", s->layout ? s->layout : s->sync);
    if (s->layout) printf(", gradients by %s", s->zero ? "reduce-scatter and all-gather" : s->sync);
    if (r->buckets > 1) printf("%s%d buckets", s->layout ? ",\n               in " : ", ", r->buckets);
    printf("\n\nstep           %s\n", time_text(r->step));
    if (s->jitter.count > 0) printf("               the median; the mean is %s\n", time_text(r->mean));
    printf("speed-up       %.4g with %s worker%s: efficiency %.1f %%\n", r->speed_up,
           gs_thousands(r->workers), gs_s((unsigned)r->workers), 100 * r->efficiency);
    printf("sent           %s by the worker that sends most\n", bytes_text(r->sent_most));
    printf("               %s in all: %s between hosts, %s inside\n", bytes_text(r->between + r->inside),
           bytes_text(r->between), bytes_text(r->inside));
    printf("communication  %s, %.0f %% of it hidden behind compute\n", time_text(r->communication),
           100 * gs_simulated_hidden(r));
    print_formula(r);
    printf("bottleneck     %s\n", r->bottleneck);
}

static void print_curve(const question *q) {
    if (q->points == 0) return;
    printf("\n%8s %6s %11s %9s %6s %11s %7s %10s\n", "workers", "hosts", "step", "speed-up", "eff.",
           "communic.", "hidden", "by formula");
    for (int i = 0; i < q->points; i++) {
        const gs_simulated *r = &q->curve[i];
        printf("%8d %6d %11s %9.4g %4.0f %% %11s %5.0f %% %10s\n", r->workers, r->hosts, time_text(r->step),
               r->speed_up, 100 * r->efficiency, time_text(r->communication), 100 * gs_simulated_hidden(r),
               isnan(r->formula) ? "-" : time_text(r->formula));
    }
}

static void print_interval(const char *name, double every, double time, double work) {
    printf("%-14s %-20s %-16s %.2f %%\n", name, every > 0 ? time_text(every) : "", time_text(time),
           100 * (time / work - 1));
}

static void print_failures(const question *q) {
    const gs_failures *f = &q->failures;
    const gs_failures_cost *c = &q->cost;
    if (!q->has_failures) return;
    printf("\nfailures       one in %s of the cluster, %s of a host\n", time_text(c->mtbf),
           time_text(f->mtbf));
    printf("               a checkpoint takes %s, a restart %s\n", time_text(f->checkpoint),
           time_text(f->restart));
    printf("\n%-14s %-20s %-16s %s\n", "", "a checkpoint every", "expected time", "more");
    print_interval("no failures", 0, f->work, f->work);
    if (f->every > 0) print_interval("as given", c->every, c->expected, f->work);
    print_interval("Young (1974)", c->young, c->expected_young, f->work);
    print_interval("Daly (2006)", c->daly, c->expected_daly, f->work);
    if (c->runs == 0) return;
    print_interval("drawn", c->every, c->drawn, f->work);
    printf("drawn: the mean of %s runs, which took %s to %s;\n", gs_thousands(c->runs), time_text(c->least),
           time_text(c->most));
    printf("the others by Daly's formula (src/predict/failures.h)\n");
}

static void print_answer(const question *q) {
    print_cluster(q);
    print_result(q);
    print_curve(q);
    print_failures(q);
}

/* ---- JSON ---- */

static cJSON *json_point(const gs_simulated *r) {
    return GS_JSON_OBJECT(
        GS_FIELD("workers", r->workers), GS_FIELD("hosts", r->hosts), GS_FIELD("step", r->step),
        GS_FIELD("step_mean", r->mean), GS_FIELD("steps", r->steps), GS_FIELD("compute", r->compute),
        GS_FIELD("communication", r->communication), GS_FIELD("exposed", r->exposed),
        GS_FIELD("hidden", gs_simulated_hidden(r)), GS_FIELD("speed_up", r->speed_up),
        GS_FIELD("efficiency", r->efficiency), GS_FIELD("sent_most", r->sent_most),
        GS_FIELD("sent_between", r->between), GS_FIELD("sent_inside", r->inside),
        GS_FIELD("buckets", r->buckets), GS_FIELD("formula", r->formula), GS_FIELD("busiest_line", r->busy),
        GS_FIELD("bottleneck", (const char *)r->bottleneck));
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

static cJSON *json_failures(const question *q) {
    const gs_failures *f = &q->failures;
    const gs_failures_cost *c = &q->cost;
    return GS_JSON_OBJECT(
        GS_FIELD("mtbf_host", f->mtbf), GS_FIELD("mtbf", c->mtbf), GS_FIELD("work", f->work),
        GS_FIELD("checkpoint_cost", f->checkpoint), GS_FIELD("restart_cost", f->restart),
        GS_FIELD("checkpoint_every", c->every), GS_FIELD("expected", c->expected),
        GS_FIELD("young", c->young), GS_FIELD("expected_young", c->expected_young), GS_FIELD("daly", c->daly),
        GS_FIELD("expected_daly", c->expected_daly), GS_FIELD("drawn", c->drawn), GS_FIELD("runs", c->runs));
}

static cJSON *json_answer(const question *q) {
    const gs_settings *s = &q->sim.settings;
    char between[80], inside[80];
    cJSON *o = json_point(&q->result);
    GS_JSON_ADD(o, GS_FIELD("model", model_of(s)), GS_FIELD("parameters", q->work.plan->params),
                GS_FIELD("samples", q->work.samples), GS_FIELD("measured", q->work.measured),
                GS_FIELD("flops", q->work.measured ? NAN : q->sim.flops), GS_FIELD("add", 1 / q->work.gamma),
                GS_FIELD("sync", s->sync), GS_FIELD("layout", s->layout ? s->layout : ""),
                GS_FIELD("link", gs_link_text(&s->link, between, sizeof between)),
                GS_FIELD("inside", gs_link_text(&q->sim.inside, inside, sizeof inside)));
    if (q->points > 0) {
        cJSON *curve = cJSON_AddArrayToObject(o, "curve");
        for (int i = 0; i < q->points; i++) cJSON_AddItemToArray(curve, json_point(&q->curve[i]));
    }
    cJSON_AddItemToObject(o, "timeline", json_timeline(&q->result));
    if (q->has_failures) cJSON_AddItemToObject(o, "failures", json_failures(q));
    return o;
}

/* `gradsum simulate -o FILE`: simulate.js draws the data that --json prints. GS_E_FILE. */
static gs_status write_page(const question *q, const char *path) {
    cJSON *data = json_answer(q);
    const gs_page page = {.title = "gradsum: a cluster in virtual time",
                          .style = {gs_page_report_css, gs_page_simulate_css},
                          .body = gs_page_simulate_html,
                          .has_charts = true,
                          .script = {gs_page_simulate_js}};
    const gs_status status = gs_page_write(path, &page, data);
    cJSON_Delete(data);
    return status;
}

static void show(void *context, int workers, int step, double share) {
    question *q = context;
    if (workers != q->shown_workers || step != q->shown_step)
        q->shown = (gs_activity){.tells = q->shown.tells};
    q->shown_workers = workers;
    q->shown_step = step;
    gs_show_activity(&q->shown, share, "%s worker%s, step %d", gs_thousands(workers), gs_s((unsigned)workers),
                     step);
}

/* ---- the answer ---- */

/* The same simulation for another number of workers, with as many workers per host and samples per worker as before. */
static gs_status point(const question *q, int workers, gs_simulated *out) {
    gs_simulation s = q->sim;
    const int each = s.workers / s.hosts;
    s.workers = workers;
    s.hosts = workers > each ? workers / each : 1;
    s.settings.layout = NULL;
    s.settings.batch = (size_t)ceil(q->work.samples * workers);
    int pauses = 0;
    for (int i = 0; i < q->sim.settings.jitter.count; i++)
        if (q->sim.settings.jitter.pause[i].rank < workers)
            s.settings.jitter.pause[pauses++] = q->sim.settings.jitter.pause[i];
    s.settings.jitter.count = pauses;
    return gs_simulate(&s, &q->work, out);
}

/* Simulate 1, 2, 4, ... workers on one host, then 1, 2, 4, ... full hosts, and finally all workers. */
static gs_status make_curve(question *q) {
    const int each = q->sim.workers / q->sim.hosts;
    if (q->sim.settings.pipeline > 1 || q->sim.settings.tensor > 1)
        return gs_fail(GS_E_USAGE,
                       "--curve is for replicas: with pp or tp give each number of workers its layout");
    for (int n = 1; n < q->sim.workers && q->points < CURVE - 1;) {
        GS_TRY(point(q, n, &q->curve[q->points++]));
        n = n < each && 2 * n > each ? each : 2 * n;
    }
    return point(q, q->sim.workers, &q->curve[q->points++]);
}

static gs_status expect_failures(question *q) {
    gs_failures *f = &q->failures;
    *f = (gs_failures){.hosts = q->sim.hosts, .work = 86400, .seed = q->sim.settings.seed};
    const char *extra = q->checkpoint ? "checkpoint-cost"
                        : q->every    ? "checkpoint-every"
                        : q->restart  ? "restart-cost"
                        : q->whole    ? "work"
                                      : NULL;
    if (!q->mtbf && extra)
        return gs_fail(GS_E_USAGE, "--%s goes with --mtbf TIME, the mean time between two failures of a host",
                       extra);
    if (!q->mtbf) return GS_OK;
    if (!q->checkpoint)
        return gs_fail(GS_E_USAGE, "--mtbf needs --checkpoint-cost TIME: what writing a checkpoint takes");
    GS_TRY(read_time("mtbf", q->mtbf, 1e-3, &f->mtbf));
    GS_TRY(read_time("checkpoint-cost", q->checkpoint, 1e-6, &f->checkpoint));
    f->restart = f->checkpoint;
    GS_TRY(read_time("restart-cost", q->restart, 0, &f->restart));
    GS_TRY(read_time("checkpoint-every", q->every, 1e-6, &f->every));
    GS_TRY(read_time("work", q->whole, 1e-6, &f->work));
    q->has_failures = true;
    return gs_failures_expect(f, &q->cost);
}

/* With --flops nothing is measured, so options of the measurement are rejected. A pipeline still uses --device and
 * --precision, which determine what it sends. */
static gs_status check_unmeasured(const question *q) {
    static const char *const measured[] = {"data",    "labels", "tokens",    "tokenizer",
                                           "context", "size",   "loaders",   "load",
                                           "mean",    "std",    "threads",   "skip-broken",
                                           "bind",    "loss",   "recompute", "optimizer"},
                             *const sent[] = {"device", "devices", "precision"};
    const char *given = NULL;
    if (!q->flops) return GS_OK;
    for (size_t i = 0; i < sizeof measured / sizeof *measured; i++)
        if (gs_option_is_given(measured[i], q->argc, q->argv)) given = measured[i];
    for (size_t i = 0; i < sizeof sent / sizeof *sent && q->sim.settings.pipeline <= 1; i++)
        if (gs_option_is_given(sent[i], q->argc, q->argv)) given = sent[i];
    if (!given) return GS_OK;
    return gs_fail(GS_E_USAGE,
                   "--%s says what is measured, and with --flops nothing is: leave one of them out", given);
}

static gs_status settle(question *q) {
    gs_simulation *s = &q->sim;
    if (s->workers < 1)
        return gs_fail(GS_E_USAGE, "--workers N is required: how many there are in the cluster");
    GS_TRY(read_number("flops", q->flops, units_flops, 1e6, 1e18,
                       "1MFLOP/s to 1000PFLOP/s, such as 20TFLOP/s", &s->flops));
    double rate = 0;
    GS_TRY(read_number("add", q->add, gs_units_rate, 1e3, 1e15, "1kB/s or more, such as 10GB/s", &rate));
    s->gamma = q->add ? 1 / rate : -1;
    if (s->input.c > 0 && !q->flops)
        return gs_fail(GS_E_USAGE, "--input goes with --flops: what is measured takes the shape of the data");
    if (s->workers > 1 && !gs_link_is_there(&s->settings.link))
        return gs_fail(GS_E_USAGE,
                       "--link LATENCY,BANDWIDTH is required, such as 5us,12.5GB/s: what links the workers");
    if (q->out) GS_TRY(gs_file_check_target(q->out, GS_FILE_PAGE));
    GS_TRY(gs_simulation_settle(s));
    return check_unmeasured(q);
}

static gs_status answer(question *q) {
    GS_TRY(settle(q));
    GS_TRY(expect_failures(q));
    GS_TRY(gs_simulated_work_create(&q->sim, &q->work));
    GS_TRY(gs_simulate(&q->sim, &q->work, &q->result));
    const bool replicas = q->sim.settings.pipeline <= 1 && q->sim.settings.tensor <= 1;
    return q->wants_curve || (q->out && replicas) ? make_curve(q) : GS_OK;
}

static gs_status tell(const question *q) {
    if (q->json)
        gs_json_print(json_answer(q));
    else
        print_answer(q);
    if (q->out) GS_TRY(write_page(q, q->out));
    if (q->out && !q->json)
        gs_print_line("\n%s: a page with the curves and a timeline; open it in a browser", q->out);
    return GS_OK;
}

static void free_answer(question *q) {
    gs_simulated_free(&q->result);
    for (int i = 0; i < q->points; i++) gs_simulated_free(&q->curve[i]);
    gs_simulated_work_free(&q->work);
}

int gs_cmd_simulate(int argc, char **argv) {
    static question q;
    q = (question){.sim.settings = gs_settings_default()};
    gs_simulation *s = &q.sim;
    int exit_status;
    s->settings.batch = 0;
    s->settings.sync = "ring";
    const gs_option own[] = {
        {"workers", GS_OPTION_INT, &s->workers, 1, GS_SIMULATED_WORKERS, "N", "workers of the cluster"},
        {"hosts", GS_OPTION_INT, &s->hosts, 1, GS_SIMULATED_WORKERS, "N",
         "hosts, with the same number of workers each (default: one worker each)"},
        GS_RUN_OPTION("link", "between two hosts; the workers of a host share its line: 5us,12.5GB/s"),
        {"inside", GS_OPTION_LINK, &s->inside, 0, 0, "LATENCY,BANDWIDTH", "between two workers of a host"},
        {"flops", GS_OPTION_TEXT, &q.flops, 0, 0, "FLOP/s",
         "a worker's speed: 20TFLOP/s (default: measured here, one core)"},
        {"input", GS_OPTION_SHAPE, &s->input, 0, 0, "CxHxW",
         "with --flops: shape of a sample (default: the usual one of the model)"},
        {"add", GS_OPTION_TEXT, &q.add, 0, 0, "RATE",
         "how fast a worker adds two arrays: 10GB/s (default: measured; with --flops it takes no time)"},
        GS_RUN_OPTION("sync", "a scheme (step --help), but not auto"),
        GS_RUN_OPTION("batch", "the global batch (default: 32 samples for each worker)"),
        {"curve", GS_OPTION_FLAG, &q.wants_curve, 0, 0, NULL,
         "also 1, 2, 4, ... workers, with the same number of samples each"},
        {"mtbf", GS_OPTION_TEXT, &q.mtbf, 0, 0, "TIME", "mean time between two failures of a host: 1y"},
        {"checkpoint-cost", GS_OPTION_TEXT, &q.checkpoint, 0, 0, "TIME", "time to write a checkpoint"},
        {"checkpoint-every", GS_OPTION_TEXT, &q.every, 0, 0, "TIME",
         "work between two checkpoints (default: Daly's optimum)"},
        {"restart-cost", GS_OPTION_TEXT, &q.restart, 0, 0, "TIME",
         "time of a restart (default: that of a checkpoint)"},
        {"work", GS_OPTION_TEXT, &q.whole, 0, 0, "TIME", "time of the run without failures (default: 1d)"},
        {"out", GS_OPTION_TEXT, &q.out, 0, 0, "FILE", "a page (.html) with curves and a timeline"},
        {"json", GS_OPTION_FLAG, &q.json, 0, 0, NULL, "one JSON object, in seconds and bytes"},
        GS_REFUSED("exact", "simulate computes no weights"),
        GS_REFUSED("timeout", "simulate waits for nobody"),
        GS_REFUSED("save", "simulate computes no weights"),
        GS_REFUSED("accumulate", "simulate makes one pass a step"),
        {0},
    };
    const gs_option *options = gs_run_options(&s->settings, GS_TRAINING | GS_BY_SIMULATE, own);
    const gs_help help = {"simulate --workers N --link LATENCY,BANDWIDTH [options of train]",
                          "Predict the time of a training step on an imaginary cluster. Compute is\n"
                          "measured here, or follows from --flops. The schemes' own code sends the\n"
                          "messages, in virtual time over the links of --link and --inside.\n"
                          "src/predict/simulate.h lists what is counted. --mtbf also predicts the cost of\n"
                          "failures and checkpoints. Simulating 65,536 workers in a ring takes half a\n"
                          "minute, or 10 minutes if workers share the line of a host (--hosts).",
                          "gradsum simulate --workers 64 --link 5us,12.5GB/s --model resnet20 --sync ring",
                          NULL};
    if (!gs_options_taken(options, &help, argc, argv, NULL, &exit_status)) return exit_status;
    q.shown.tells = true;
    q.argc = argc;
    q.argv = argv;
    s->context = &q;
    s->progress = show;
    gs_status status = answer(&q);
    gs_show_activity(NULL, 0, NULL);
    if (status == GS_OK) status = tell(&q);
    free_answer(&q);
    return gs_exit_status("simulate", status);
}
