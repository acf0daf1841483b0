/* gradsum layout: the ways to divide a run among N workers, and the cost of each. */
#include "cli/cli.h"
#include "io/json.h"
#include "model/model_text.h"
#include "predict/layout_plan.h"
#include "train/settings.h"

#include <math.h>
#include <stdlib.h>

static const double MB = 1e6;
enum { MEASURED = 3, STEPS = 6, WORKERS_MOST = 64, NAME = GS_LAYOUT_TEXT + 12 };

typedef struct question {
    gs_settings settings;
    gs_activity work; /* progress of the predictions */
    int workers;
    bool run, json;
    char *devices; /* a list with one device per worker */
} question;

enum { DEVICE = 48 }; /* bytes of a device name */

gs_status gs_devices_for(const gs_settings *s, int workers, int most, char **list) {
    const int given = gs_devices_count(s->devices);
    const size_t size = (size_t)workers * DEVICE + 1;
    gs_status status = GS_OK;
    *list = NULL;
    if (workers > most)
        return gs_fail(GS_E_USAGE, "the layout has %d workers; wanted at most %d here", workers, most);
    if (given != 1 && given != workers)
        return gs_fail(GS_E_USAGE, "--devices names %d devices for %d worker%s; wanted one, or %d", given,
                       workers, gs_s((unsigned)workers), workers);
    GS_TRY(GS_NEW(*list, size, "the names of %d devices", workers));
    for (int i = 0; i < workers && status == GS_OK; i++) {
        char one[DEVICE] = "";
        status = gs_devices_name(s->devices, given > 1 ? i : 0, one);
        gs_append(*list, size, "%s%s", i > 0 ? "," : "", one);
    }
    if (status == GS_OK) return GS_OK;
    free(*list);
    *list = NULL;
    return status;
}

/* The measured run of one layout. */
typedef struct measured {
    bool there;
    double seconds, memory, sent;
} measured;

/* The layout's name as typed after --layout. */
static const char *name_of(const gs_layout_cost *c, char name[NAME]) {
    char layout[GS_LAYOUT_TEXT];
    snprintf(name, NAME, "%s%s", gs_layout_text(&c->layout, layout), c->sequence ? " --sequence" : "");
    return name;
}

static void on_layout(void *question_, int done, int of) {
    question *q = question_;
    gs_show_activity(&q->work, (double)done / of, "measuring and predicting layout %d of %d", done + 1, of);
}

static gs_status run(gs_shown_run *now, const gs_layout_plan *p, const char *name, measured *out) {
    gs_result r;
    const gs_observer observer = {.context = now, .step = gs_show_run};
    GS_TRY(gs_context(gs_layout_plan_run(p, &p->cost[now->run], STEPS, &observer, &r), "--layout %s", name));
    *out = (measured){.there = true, .seconds = r.step_median, .sent = r.sent_most};
    for (int w = 0; w < r.workers && r.worker; w++)
        out->memory = fmax(out->memory, gs_memory_total(&r.worker[w].memory[GS_ON_DEVICE]));
    gs_result_free(&r);
    return GS_OK;
}

static gs_status run_best(const question *q, const gs_layout_plan *p, measured *all) {
    const gs_settings short_run = {.steps = STEPS, .epochs = STEPS};
    char name[NAME], what[NAME + 20];
    gs_shown_run now = {.work.tells = !q->json, .settings = &short_run, .what = what};
    now.runs = !q->run ? 0 : p->costs < MEASURED ? p->costs : MEASURED;
    for (; now.run < now.runs; now.run++) {
        snprintf(what, sizeof what, "running %s", name_of(&p->cost[now.run], name));
        gs_show_activity(NULL, 0, "%s (%d of %d)", what, now.run + 1, now.runs);
        GS_TRY(run(&now, p, name, &all[now.run]));
    }
    return GS_OK;
}

/* Measured values go below the predicted ones: side by side they would exceed 80 columns. */
static void print_row(const gs_layout_cost *c, const measured *took, int width) {
    char name[NAME];
    printf("%-*s %9.2f %9.1f %9.3f %6.1f %%\n", width, name_of(c, name), 1e3 * c->seconds, c->memory / MB,
           c->sent / MB, 100 * c->bubble);
    if (took->there)
        printf("%-*s %9.2f %9.1f %9.3f\n", width, "  measured", 1e3 * took->seconds, took->memory / MB,
               took->sent / MB);
}

static void print_text(const question *q, const gs_layout_plan *p, const measured *took) {
    const gs_settings *s = &p->memory.settings;
    const char *model = q->settings.model ? q->settings.model : s->model; /* as typed: gpt, not gpt 155 */
    char name[NAME];
    int width = 16;
    for (int i = 0; i < p->costs; i++) width = (int)fmax(width, (double)strlen(name_of(&p->cost[i], name)));
    gs_print_fact("model", "%s, %s parameters, global batch %zu, %d worker%s",
                  gs_model_named(model) ? model : "layers", gs_thousands((double)p->memory.params),
                  p->memory.batch, q->workers, gs_s((unsigned)q->workers));
    gs_print_fact("measured", "%s samples/s of one worker alone on a core",
                  gs_thousands(p->measured->samples_per_s));
    if (q->workers > 1) gs_print_fact("", "%.1f GB/s from one to the next", p->measured->bandwidth / 1e9);
    printf("\n");
    printf("%-*s %9s %9s %9s %8s\n", width, "layout", "ms a step", "MB memory", "MB sent", "bubble");
    for (int i = 0; i < p->costs; i++)
        print_row(&p->cost[i], i < MEASURED ? &took[i] : &(measured){.there = false}, width);
    if (p->too_large > 0)
        printf("%d layout%s more than the %d MB of --max-memory\n", p->too_large,
               p->too_large == 1 ? " needs" : "s need", s->max_memory);
    if (p->refused > 0) gs_print_fact("refused", "%d, the first of them %s", p->refused, p->why);
    printf("memory and bytes: of the worker that has the most; formulas:\n"
           "src/predict/layout_plan.h\n");
}

static void print_json(const question *q, const gs_layout_plan *p, const measured *took) {
    cJSON *all =
        GS_JSON_OBJECT(GS_FIELD("workers", q->workers), GS_FIELD("samples_per_s", p->measured->samples_per_s),
                       GS_FIELD("bandwidth", p->measured->bandwidth), GS_FIELD("too_large", p->too_large),
                       GS_FIELD("refused", p->refused));
    cJSON *rows = cJSON_AddArrayToObject(all, "layouts");
    for (int i = 0; i < p->costs; i++) {
        const gs_layout_cost *c = &p->cost[i];
        char name[GS_LAYOUT_TEXT];
        cJSON *o = GS_JSON_OBJECT(GS_FIELD("layout", gs_layout_text(&c->layout, name)),
                                  GS_FIELD("sequence", c->sequence), GS_FIELD("step_ms", 1e3 * c->seconds),
                                  GS_FIELD("memory_bytes", c->memory), GS_FIELD("sent_bytes", c->sent),
                                  GS_FIELD("bubble", c->bubble));
        if (i < MEASURED && took[i].there)
            GS_JSON_ADD(o, GS_FIELD("measured_step_ms", 1e3 * took[i].seconds),
                        GS_FIELD("measured_memory_bytes", took[i].memory),
                        GS_FIELD("measured_sent_bytes", took[i].sent));
        cJSON_AddItemToArray(rows, o);
    }
    gs_json_print(all);
}

static int print_pairs(void) {
    gs_conflict r;
    for (int i = 0; gs_conflict_of(i, &r); i++) {
        printf("%-12s not with %-19s ", r.option, r.other);
        gs_print_wrapped(42, r.why);
    }
    return GS_EXIT_OK;
}

static gs_status answer(question *q) {
    gs_layout_plan plan = {0};
    measured took[MEASURED] = {{0}};
    if (q->workers < 1) return gs_fail(GS_E_USAGE, "--workers N is required: how many workers share the run");
    gs_status status = gs_devices_for(&q->settings, q->workers, WORKERS_MOST, &q->devices);
    gs_show_activity(NULL, 0, "measuring the parts of a step, then predicting every layout");
    if (status == GS_OK)
        status = gs_layout_plan_create(&q->settings, q->devices, q->workers, on_layout, q, &plan);
    if (status == GS_OK && plan.costs == 0 && plan.too_large)
        status = gs_fail(GS_E_MEMORY,
                         "no layout of %d workers fits --max-memory %d; the smallest needs %.1f MB%s%s",
                         q->workers, q->settings.max_memory, plan.least / MB,
                         plan.refused ? "; refused: " : "", plan.refused ? plan.why : "");
    else if (status == GS_OK && plan.costs == 0)
        status = gs_fail(GS_E_USAGE, "no layout of %d workers can run; %s", q->workers, plan.why);
    if (status == GS_OK) status = run_best(q, &plan, took);
    gs_show_activity(NULL, 0, NULL);
    if (status == GS_OK && q->json) print_json(q, &plan, took);
    if (status == GS_OK && !q->json) print_text(q, &plan, took);
    gs_layout_plan_free(&plan);
    free(q->devices);
    return status;
}

int gs_cmd_layout(int argc, char **argv) {
    question q = {.settings = gs_settings_default()};
    bool pairs = false;
    int exit_status;
    const gs_option own[] = {
        {"workers", GS_OPTION_INT, &q.workers, 1, WORKERS_MOST, "N", "how many workers share the run"},
        {"run", GS_OPTION_FLAG, &q.run, 0, 0, NULL, "also measure the three that are best by the formulas"},
        GS_RUN_OPTION("max-memory", "list only layouts that need at most this much per worker"),
        GS_RUN_OPTION("sequence", "for a text: list tensor groups also with --sequence, dividing tokens"),
        GS_REFUSED("zero", "layout lists every stage"),
        GS_REFUSED("save", "layout keeps no weights"),
        {"pairs", GS_OPTION_FLAG, &pairs, 0, 0, NULL, "list which options exclude each other, and why"},
        {"json", GS_OPTION_FLAG, &q.json, 0, 0, NULL, "one JSON object, in bytes"},
        {0},
    };
    const gs_option *options = gs_run_options(&q.settings, GS_TRAINING | GS_BY_LAYOUT, own);
    const gs_help help = {"layout --workers N [options of train]",
                          "List the layouts of N workers (train --layout), the fastest first: replicas\n"
                          "(dp), parts of layers (tp), stages (pp) and ZeRO (zero). Each row predicts the\n"
                          "time of a step, by the formulas in src/predict/layout_plan.h, from measured\n"
                          "times of layers and messages; the memory of the worker that needs most, as in\n"
                          "gradsum memory; and the bytes of the worker that sends most.",
                          "gradsum layout --model gpt --data jargon --workers 4 --max-memory 60", NULL};
    if (!gs_options_taken(options, &help, argc, argv, NULL, &exit_status)) return exit_status;
    if (pairs) return print_pairs();
    q.work.tells = !q.json;
    return gs_exit_status("layout", answer(&q));
}
