#include "cli/cli.h"
#include "cli/options/manual.h"
#include "cli/step/step.h"
#include "io/json.h"

#include <stdio.h>
#include <unistd.h>

/* ---- JSON: one object a line ---- */

static void json_start(const gs_step_record *s) {
    cJSON *o = GS_JSON_OBJECT(GS_FIELD("event", "start"), GS_FIELD("sync", s->asked->name));
    if (s->asked != s->scheme)
        GS_JSON_ADD(o, GS_FIELD("sync_chosen", s->scheme->name), GS_FIELD("sync_why", s->why));
    GS_JSON_ADD(o, GS_FIELD("workers", s->workers), GS_FIELD("size", s->size),
                GS_FIELD("wire", gs_wire_name(s->wire)), GS_FIELD("rounds", s->rounds),
                GS_FIELD("watched", s->watched));
    gs_json_print(o);
}

static void json_event(const gs_step_event *e) {
    bool message = e->to >= 0;
    cJSON *o = GS_JSON_OBJECT(GS_FIELD("event", message ? "message" : "holds"), GS_FIELD("round", e->round),
                              GS_FIELD(message ? "from" : "worker", e->from));
    if (message) cJSON_AddNumberToObject(o, "to", e->to);
    cJSON *parts = cJSON_AddArrayToObject(o, "parts");
    for (int p = 0; p < e->count; p++) {
        cJSON *part =
            GS_JSON_OBJECT(GS_FIELD("first", e->parts[p].first), GS_FIELD("count", e->parts[p].count));
        cJSON *sum = cJSON_AddArrayToObject(part, "sum_of");
        for (int r = 0; r < GS_STEP_WORKERS; r++)
            if (e->parts[p].workers >> r & 1) cJSON_AddItemToArray(sum, cJSON_CreateNumber(r));
        cJSON_AddItemToArray(parts, part);
    }
    gs_json_print(o);
}

static void add_cost(cJSON *o, const gs_sync_cost *c) {
    GS_JSON_ADD(o, GS_FIELD("rounds", c->rounds), GS_FIELD("messages", c->messages),
                GS_FIELD("bytes", c->bytes));
}

static void json_totals(const gs_step_record *s) {
    for (int r = 0; r < s->workers; r++) {
        gs_sync_cost formula;
        cJSON *o = GS_JSON_OBJECT(GS_FIELD("event", "total"), GS_FIELD("worker", r));
        if (gs_sync_cost_of(s->scheme, s->workers, r, gs_step_array(s), &formula)) {
            add_cost(o, &s->counted[r]);
            add_cost(cJSON_AddObjectToObject(o, "formula"), &formula);
        }
        gs_json_print(o);
    }
    cJSON *o = GS_JSON_OBJECT(GS_FIELD("event", "end"), GS_FIELD("correct", s->correct),
                              GS_FIELD("as_formula", gs_step_counts_agree(s)));
    gs_json_print(o);
}

static void show_json(const gs_step_record *s) {
    json_start(s);
    for (int i = 0; i < s->count; i++) json_event(&s->events[i]);
    json_totals(s);
}

/* ---- the command ---- */

static gs_status show(gs_step_record *s, bool json, bool pause) {
    GS_TRY(gs_step_run(s));
    if (json)
        show_json(s);
    else
        gs_step_show(s, pause);
    if (!s->correct)
        return gs_fail(GS_E_SHAPE, "%s is wrong: not every worker has the sum of all", s->scheme->name);
    if (!gs_step_counts_agree(s))
        return gs_fail(GS_E_SHAPE, "%s: the counts differ from its formula", s->scheme->name);
    return GS_OK;
}

static void print_schemes(void) {
    printf("\nschemes (--sync, here and in train):\n");
    for (const gs_sync_scheme *const *s = gs_sync_schemes(); *s; s++)
        printf("  %-20s %s\n", (*s)->name, (*s)->what);
}

static const gs_help help = {
    "step [options]",
    "Sum one array over some workers (threads), and show it round by round: who sends\n"
    "which chunk to whom, and what each worker then holds. At a terminal, Enter shows\n"
    "the next round. Worker r's gradient is 2^r in every element, so that each sum\n"
    "shows whose gradients are in it.\n\n"
    "With -o the gradients are those of a model's first step, and a page for the\n"
    "browser shows all schemes: one file, which needs no network.\n\n"
    "With --pipeline P, --tensor T, --zero STAGE or --layout LIST, and the options of\n"
    "train: a real step of a run whose workers share the model, as it went\n"
    "(gradsum step --zero 3 --help).",
    "gradsum step --sync ring --workers 4 -o step.html", print_schemes};

/* What the command line says. */
typedef struct wish {
    const char *sync, *out;
    bool no_pause, json;
    int workers;
    gs_wire wire;
    uint64_t size, batch;     /* 0: not said */
    const char *model, *data; /* NULL: not said */
} wish;

static gs_status show_in_terminal(const wish *w, const gs_sync_scheme *scheme) {
    gs_step_record step = {
        .asked = scheme, .workers = w->workers, .size = w->size ? (size_t)w->size : 8, .wire = w->wire};
    const char *extra = w->model ? "model" : w->data ? "data" : w->batch ? "batch" : NULL;
    if (extra) return gs_fail(GS_E_USAGE, "--%s is for a page: -o FILE is required too", extra);
    GS_TRY(gs_step_check(&step));
    gs_status status = show(&step, w->json, !w->no_pause && isatty(STDOUT_FILENO));
    gs_step_record_free(&step);
    return status;
}

static gs_status show_on_page(const wish *w, const gs_sync_scheme *scheme) {
    gs_settings s = gs_settings_default();
    if (w->size)
        return gs_fail(GS_E_USAGE, "--size is for the terminal: with -o the model decides how many floats");
    if (w->json) return gs_fail(GS_E_USAGE, "--json is for the terminal: -o writes a page");
    if (w->wire != GS_WIRE_F32) return gs_fail(GS_E_USAGE, "--wire is for the terminal: a page shows f32");
    s.model = w->model ? w->model : "softmax";
    s.data = w->data ? w->data : "fashion-mnist-small";
    s.batch = w->batch ? (size_t)w->batch : 8 * (size_t)w->workers;
    GS_TRY(gs_step_page(w->out, scheme, &s, w->workers));
    gs_print_line("%s: %s over %d workers, and the other schemes; open it in a browser", w->out, scheme->name,
                  w->workers);
    return GS_OK;
}

int gs_cmd_step(int argc, char **argv) {
    if (gs_step_is_of_layout(argc, argv)) return gs_step_layout_command(argc, argv);
    wish w = {.sync = "ring", .workers = 4};
    int exit_status;
    const gs_sync_scheme *scheme;
    const gs_option options[] = {
        {"sync", GS_OPTION_TEXT, &w.sync, 0, 0, "NAME", "the scheme"},
        {"workers", GS_OPTION_INT, &w.workers, 1, GS_STEP_WORKERS, "N", "number of threads"},
        {"size", GS_OPTION_COUNT, &w.size, 1, GS_STEP_FLOATS, "N", "floats to sum (default 8)"},
        {"wire", GS_OPTION_WIRE, &w.wire, 0, 0, "TYPE", "values travel as f32, f16 or bf16"},
        {"no-pause", GS_OPTION_FLAG, &w.no_pause, 0, 0, NULL, "show all rounds at once"},
        {"json", GS_OPTION_FLAG, &w.json, 0, 0, NULL, "one JSON object per line, without a pause"},
        {"out", GS_OPTION_TEXT, &w.out, 0, 0, "FILE", "a page (.html) instead"},
        {"model", GS_OPTION_TEXT, &w.model, 0, 0, "NAME|TEXT", "with -o: as in train (default: softmax)"},
        {"data", GS_OPTION_TEXT, &w.data, 0, 0, "NAME|DIR", "with -o: as in train"},
        {"batch", GS_OPTION_COUNT, &w.batch, 1, 1e9, "B",
         "with -o: the global batch (default: 8 per worker)"},
        {0},
    };
    gs_words_also(gs_step_layout_options);
    if (!gs_options_taken(options, &help, argc, argv, NULL, &exit_status)) return exit_status;
    gs_status status = gs_sync_find(w.sync, &scheme);
    if (status == GS_OK) status = w.out ? show_on_page(&w, scheme) : show_in_terminal(&w, scheme);
    return gs_exit_status("step", status);
}
