#include "cli/step/layout.h"
#include "cli/cli.h"
#include "cli/step/step.h"
#include "io/file.h"
#include "io/json.h"
#include "model/model_text.h"
#include "page/page.h"
#include "page/strings.h"
#include "train/layout/layout_plan.h"
#include "train/pipeline/schedule.h"
#include "train/tensor/tensor.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the run ---- */

typedef struct catcher {
    gs_step_layout *to;
    gs_status status;
} catcher;

static void *copy_of(const void *array, size_t bytes) {
    void *copy = malloc(bytes + 1);
    if (copy && bytes > 0) memcpy(copy, array, bytes);
    return copy;
}

/* Called once, in the thread of worker 0. */
static void on_timeline(void *context, const gs_timeline_part *parts, int workers) {
    catcher *c = context;
    c->to->part = calloc((size_t)workers, sizeof *c->to->part);
    bool whole = c->to->part != NULL;
    for (int r = 0; r < workers && whole; r++) {
        gs_timeline_part *p = &c->to->part[r];
        p->span = copy_of(parts[r].span, parts[r].count * sizeof *p->span);
        p->memory = copy_of(parts[r].memory, parts[r].samples * sizeof *p->memory);
        p->count = parts[r].count;
        p->samples = parts[r].samples;
        p->lost = parts[r].lost;
        whole = p->span && p->memory && p->lost == 0;
    }
    c->status = whole ? GS_OK : GS_E_MEMORY;
}

static gs_status run(gs_step_layout *l) {
    catcher c = {l, GS_E_MEMORY};
    const gs_observer observer = {.context = &c, .timeline = on_timeline};
    gs_settings s = l->settings;
    s.record = true;
    s.trace = (gs_step_range){s.steps, s.steps};
    GS_TRY(gs_train(&s, &observer, &l->result));
    return c.status == GS_OK ? GS_OK
                             : gs_fail(c.status, "no memory for the timelines of %d workers", l->workers);
}

/* ---- its model ---- */

static gs_status note_one(gs_layer *layer, void *context) {
    ((gs_layer **)context)[layer->number] = layer;
    return GS_OK;
}

static gs_status name_layers(gs_step_layout *l) {
    if (l->layout.tp > 1) GS_TRY(gs_layout_part(&l->settings, l->plan, 0, &l->divided));
    gs_layer *net = (l->divided ? l->divided : l->plan)->net;
    l->layer = calloc(gs_layer_count(net) + 1, sizeof *l->layer);
    if (!l->layer) return gs_fail(GS_E_MEMORY, "no memory for a list of layers");
    return gs_layer_walk(net, note_one, l->layer);
}

static gs_status find_kind(gs_step_layout *l) {
    const gs_layout *y = &l->layout;
    if (l->workers % (y->pp * y->tp) != 0)
        return gs_fail(GS_E_USAGE,
                       "there are %d workers; wanted a multiple of %d (--pipeline %d, --tensor %d)",
                       l->workers, y->pp * y->tp, y->pp, y->tp);
    l->kind = y->pp > 1 ? GS_STEP_PIPELINE : y->tp > 1 ? GS_STEP_TENSOR : GS_STEP_ZERO;
    if (y->pp > 1 || y->tp > 1 || y->zero > 0) return GS_OK;
    return gs_fail(GS_E_USAGE,
                   "every worker holds the whole model, and there is no layout to be shown; wanted "
                   "--pipeline P, --tensor T, --zero 1 to 3, or a --layout with one of them");
}

static void find_bounds(gs_step_layout *l) {
    l->start = INFINITY;
    l->end = -INFINITY;
    for (int r = 0; r < l->workers; r++)
        for (size_t i = 0; i < l->part[r].count; i++) {
            const gs_span *s = &l->part[r].span[i];
            if (s->kind != GS_SPAN_STEP) continue;
            l->start = fmin(l->start, s->start);
            l->end = fmax(l->end, s->end);
        }
}

/* settings: of train; steps is how many are made. To be freed in any case. Fails as gs_train would; GS_E_USAGE:
 * every worker holds the whole model. */
static gs_status create(const gs_settings *settings, int workers, gs_step_layout *l) {
    *l = (gs_step_layout){.settings = *settings, .workers = workers};
    GS_TRY(gs_layout_settle(&l->settings));
    l->layout = gs_layout_of(&l->settings, workers);
    GS_TRY(find_kind(l));
    l->settings.layout = gs_layout_text(&l->layout, l->name);
    GS_TRY(gs_layout_settled(&l->settings, workers, &l->memory, &l->plan));
    GS_TRY(run(l));
    if (!l->settings.model) l->settings.model = l->memory.settings.model; /* the usual one, or --load's */
    GS_TRY(name_layers(l));
    find_bounds(l);
    return GS_OK;
}

static void free_layout(gs_step_layout *l) {
    gs_timeline_parts_free(l->part, l->workers);
    gs_result_free(&l->result);
    gs_model_free(l->plan);
    gs_model_free(l->divided);
    gs_memory_plan_free(&l->memory);
    free(l->layer);
    *l = (gs_step_layout){.workers = 0};
}

/* ---- as JSON, and as a page ---- */

static const char *const kinds[] = {"pipeline", "tensor", "zero"};

/* Microseconds from the beginning of the step, in tenths. */
static cJSON *time_of(const gs_step_layout *l, double at) {
    return cJSON_CreateNumber(round(1e7 * (at - l->start)) / 10);
}

/* [worker, row, kind, index, round, start, end, bytes, count] */
static void add_spans(cJSON *o, const gs_step_layout *l) {
    cJSON *spans = cJSON_AddArrayToObject(o, "spans");
    for (int r = 0; r < l->workers; r++)
        for (size_t i = 0; i < l->part[r].count; i++) {
            const gs_span *s = &l->part[r].span[i];
            if (s->row == GS_ROW_LOADER) continue;
            cJSON_AddItemToArray(spans,
                                 GS_JSON_ARRAY(GS_JSON(r), GS_JSON(s->row), GS_JSON(s->kind),
                                               GS_JSON(s->index), GS_JSON(s->round), time_of(l, s->start),
                                               time_of(l, s->end), GS_JSON(s->bytes), GS_JSON(s->count)));
        }
}

static void add_layers(cJSON *o, const gs_step_layout *l) {
    static const char *const roles[] = {"", "columns", "inner", "rows", "table", "outputs", "tokens"};
    cJSON *layers = cJSON_AddArrayToObject(o, "layers");
    const size_t count = gs_layer_count((l->divided ? l->divided : l->plan)->net);
    for (size_t i = 0; i < count; i++) {
        const gs_layer *y = l->layer[i];
        char name[100];
        snprintf(name, sizeof name, "%s%s%s", y->name, y->name[0] ? "." : "", y->ops->name);
        cJSON_AddItemToArray(layers,
                             GS_JSON_ARRAY(GS_JSON((const char *)name), GS_JSON(roles[gs_tensor_role_of(y)]),
                                           GS_JSON((bool)(y->children > 0))));
    }
}

static void add_workers(cJSON *o, const gs_step_layout *l) {
    cJSON *workers = cJSON_AddArrayToObject(o, "workers");
    int each;
    const bool sequence = gs_step_tokens_of(l, &each) > 0;
    for (int r = 0; r < l->workers; r++) {
        const gs_place place = gs_place_of(&l->layout, r);
        gs_layout_share share = {.layers = ""};
        if (gs_layout_share_of(&l->settings, l->plan, l->workers, r, &share) != GS_OK) share.layers[0] = 0;
        cJSON *worker =
            GS_JSON_OBJECT(GS_FIELD("stage", place.stage), GS_FIELD("replica", place.replica),
                           GS_FIELD("part", place.part), GS_FIELD("layers", (const char *)share.layers));
        if (sequence)
            GS_JSON_ADD(worker, GS_FIELD("first_token", place.part * each), GS_FIELD("tokens", each));
        cJSON_AddItemToArray(workers, worker);
    }
}

/* The layers of each unit, by number. */
static void add_units(cJSON *o, const gs_step_layout *l) {
    cJSON *units = cJSON_AddArrayToObject(o, "units");
    for (size_t i = 0; i < l->part[0].count; i++) {
        const gs_span *s = &l->part[0].span[i];
        char layers[16];
        if (s->kind != GS_SPAN_UNIT_REDUCE) continue;
        while (cJSON_GetArraySize(units) <= s->index) cJSON_AddItemToArray(units, cJSON_CreateNull());
        gs_step_children_of(l, s->first, s->count, layers, sizeof layers);
        cJSON_ReplaceItemInArray(
            units, s->index,
            GS_JSON_OBJECT(GS_FIELD("layers", (const char *)layers), GS_FIELD("floats", s->count)));
    }
}

static cJSON *texts(const char *first, size_t step, int count) {
    cJSON *list = cJSON_CreateArray();
    for (int i = 0; i < count; i++) cJSON_AddItemToArray(list, cJSON_CreateString(first + (size_t)i * step));
    return list;
}

static void add_facts(cJSON *o, const gs_step_layout *l) {
    static gs_step_facts f;
    gs_step_facts_of(l, &f);
    cJSON *rows = cJSON_CreateArray();
    for (int i = 0; i < f.rows; i++) cJSON_AddItemToArray(rows, texts(f.cell[i][0], GS_STEP_CELL, f.columns));
    GS_JSON_ADD(o, GS_FIELD("head", texts(f.head[0], GS_STEP_CELL, f.columns)), GS_FIELD("rows", rows),
                GS_FIELD("sentences", texts(f.sentence[0], GS_STEP_SENTENCE, f.sentences)),
                GS_FIELD("measured", f.measured), GS_FIELD("formula", f.formula));
    if (f.bubble)
        GS_JSON_ADD(o, GS_FIELD("fill_and_drain", f.bubble->fill),
                    GS_FIELD("fill_and_drain_alone", f.bubble->alone),
                    GS_FIELD("unequal_stages", f.bubble->unequal), GS_FIELD("uneven_times", f.bubble->uneven),
                    GS_FIELD("messages", f.bubble->messages));
}

static cJSON *json_of_layout(const gs_step_layout *l) {
    char name[GS_LAYOUT_TEXT];
    const char *const schedule = l->settings.pipeline_schedule ? l->settings.pipeline_schedule : "1f1b";
    const gs_pipeline_schedule *const *named = gs_pipeline_schedules();
    while (strncmp((*named)->name, schedule, strcspn(schedule, ":")) != 0) named++; /* the run has read it */
    cJSON *o = GS_JSON_OBJECT(
        GS_FIELD("kind", kinds[l->kind]), GS_FIELD("layout", gs_layout_text(&l->layout, name)),
        GS_FIELD("model", gs_model_is_name(l->settings.model) ? l->settings.model : "a model of your own"),
        GS_FIELD("data", l->settings.data), GS_FIELD("batch", l->memory.batch),
        GS_FIELD("step", l->settings.steps), GS_FIELD("zero", l->layout.zero), GS_FIELD("pp", l->layout.pp),
        GS_FIELD("schedule", schedule), GS_FIELD("schedule_title", (*named)->title),
        GS_FIELD("tp", l->layout.tp), GS_FIELD("dp", l->layout.dp), GS_FIELD("version", GRADSUM_VERSION),
        GS_FIELD("took", time_of(l, l->end)));
    add_workers(o, l);
    add_layers(o, l);
    add_units(o, l);
    add_facts(o, l);
    add_spans(o, l);
    return o;
}

static gs_status write_page(const gs_step_layout *l, const char *path) {
    char title[200], name[GS_LAYOUT_TEXT];
    cJSON *data = json_of_layout(l);
    snprintf(title, sizeof title, "gradsum: a step of %s", gs_layout_text(&l->layout, name));
    const gs_page page = {.title = title,
                          .style = {gs_page_layout_css},
                          .body = gs_page_layout_html,
                          .script = {gs_page_layout_js}};
    const gs_status status = gs_page_write(path, &page, data);
    cJSON_Delete(data);
    return status;
}

/* ---- the command ---- */

enum { WORKERS_MOST = 64 }; /* a row for each in the table */

typedef struct wish {
    gs_settings settings;
    int workers; /* 0: as many as the layout needs */
    const char *out;
    bool json;
} wish;

bool gs_step_is_of_layout(int argc, char **argv) {
    static const char *const options[] = {"pipeline", "tensor", "zero", "layout"};
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        if (gs_option_is_given(options[i], argc, argv)) return true;
    return false;
}

/* What nobody said: texts for a language model, and a batch that is computed in a moment. In a pipeline the passes
 * of --accumulate are its micro-batches. */
static void fill_in(wish *w, int argc, char **argv) {
    gs_settings *s = &w->settings;
    if (!gs_option_is_given("data", argc, argv) && s->model && gs_model_is_language(s->model))
        s->data = "jargon";
    if (!gs_option_is_given("batch", argc, argv)) s->batch = 32;
    if (!gs_option_is_given("steps", argc, argv)) s->steps = 3;
    if (s->pipeline > 1 && s->accumulate > 1 && !s->micro_batches) {
        s->micro_batches = s->accumulate;
        s->accumulate = 0;
    }
}

static gs_status show(const wish *w, const gs_settings *s, int workers) {
    gs_step_layout step;
    gs_status status = create(s, workers, &step);
    if (status == GS_OK && w->json) {
        gs_json_print(json_of_layout(&step));
    } else if (status == GS_OK && w->out) {
        status = write_page(&step, w->out);
        if (status == GS_OK) gs_print_line("%s: a step of %d workers; open it in a browser", w->out, workers);
    } else if (status == GS_OK) {
        gs_step_layout_show(&step);
    }
    free_layout(&step);
    return status;
}

static gs_status answer(wish *w, int argc, char **argv) {
    char *devices = NULL;
    if (w->json && w->out) return gs_fail(GS_E_USAGE, "--json is for the terminal: -o writes a page");
    if (w->out) GS_TRY(gs_file_check_target(w->out, GS_FILE_PAGE));
    GS_TRY(gs_layout_settle(&w->settings));
    fill_in(w, argc, argv);
    const int workers = gs_layout_workers(&w->settings, w->workers);
    GS_TRY(gs_devices_for(&w->settings, workers, WORKERS_MOST, &devices));
    gs_settings s = w->settings;
    s.devices = devices;
    const gs_status status = show(w, &s, workers);
    free(devices);
    return status;
}

static const gs_option *options_of(wish *w) {
    static bool unused;
    const gs_option own[] = {
        GS_RUN_OPTION("micro-batches",
                      "with --pipeline: cut a pipeline's part of the batch into M (default 4 P; "
                      "--accumulate says the same here)"),
        GS_RUN_OPTION("steps", "the step that is shown (default 3): the first ones are slower"),
        GS_REFUSED("save", "step keeps no weights"),
        GS_REFUSED("epochs", "use --steps: step shows one"),
        {"workers", GS_OPTION_INT, &w->workers, 2, WORKERS_MOST, "N",
         "how many share the run (default: as many as the layout needs)"},
        {"no-pause", GS_OPTION_FLAG, &unused, 0, 0, NULL, "changes nothing here"},
        {"json", GS_OPTION_FLAG, &w->json, 0, 0, NULL, "one JSON object: all spans, in us"},
        {"out", GS_OPTION_TEXT, &w->out, 0, 0, "FILE", "a page (.html) instead"},
        {0},
    };
    return gs_run_options(&w->settings, GS_TRAINING | GS_LEARNING | GS_BY_STEP, own);
}

const gs_option *gs_step_layout_options(void) {
    static wish w;
    w = (wish){.settings = gs_settings_default()};
    return options_of(&w);
}

int gs_step_layout_command(int argc, char **argv) {
    wish w = {.settings = gs_settings_default()};
    int exit_status;
    const gs_option *options = options_of(&w);
    const gs_help help = {"step --pipeline P | --tensor T | --zero STAGE | --layout LIST [options of train]",
                          "Make a few steps of a run whose workers share the model, and show the last:\n"
                          "who computes which micro-batch when, which weights are where, what is sent,\n"
                          "with the bubble and the bytes beside the formulas. With -o as a page.",
                          "gradsum step --model gpt --pipeline 2 --micro-batches 4", NULL};
    if (!gs_options_taken(options, &help, argc, argv, NULL, &exit_status)) return exit_status;
    return gs_exit_status("step", answer(&w, argc, argv));
}
