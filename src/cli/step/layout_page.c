#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/step/layout.h"
#include "io/file.h"
#include "io/json.h"
#include "page/page.h"
#include "page/strings.h"
#include "train/pipeline/schedule.h"

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
    static const char *const roles[] = {
        [GS_TENSOR_WHOLE] = "",    [GS_TENSOR_COLUMNS] = "columns",  [GS_TENSOR_INNER] = "inner",
        [GS_TENSOR_ROWS] = "rows", [GS_TENSOR_TABLE_ROWS] = "table", [GS_TENSOR_OUTPUTS] = "outputs"};
    cJSON *layers = cJSON_AddArrayToObject(o, "layers");
    const size_t count = gs_layer_count((l->divided ? l->divided : l->plan)->net);
    for (size_t i = 0; i < count; i++) {
        const gs_layer *y = l->layer[i];
        char name[100];
        snprintf(name, sizeof name, "%s%s%s", y->name, y->name[0] ? "." : "", y->ops->name);
        cJSON_AddItemToArray(layers, GS_JSON_ARRAY(GS_JSON((const char *)name),
                                                   GS_JSON(y->sharded ? "tokens" : roles[y->role]),
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

cJSON *gs_step_layout_json(const gs_step_layout *l) {
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

gs_status gs_step_layout_page(const gs_step_layout *l, const char *path) {
    char title[200], name[GS_LAYOUT_TEXT];
    cJSON *data = gs_step_layout_json(l);
    snprintf(title, sizeof title, "gradsum: a step of %s", gs_layout_text(&l->layout, name));
    const gs_page_part parts[] = {
        {"title", GS_PAGE_TEXT, title, NULL},
        {"style", GS_PAGE_STYLE, gs_page_base_css, NULL},
        {"style", GS_PAGE_STYLE, gs_page_layout_css, NULL},
        {"body", GS_PAGE_HTML, gs_page_layout_html, NULL},
        {"data", GS_PAGE_JSON, NULL, data},
        {"chart", GS_PAGE_SCRIPT, "", NULL},
        {"script", GS_PAGE_SCRIPT, gs_page_base_js, NULL},
        {"script", GS_PAGE_SCRIPT, gs_page_layout_js, NULL},
        {NULL, GS_PAGE_TEXT, NULL, NULL},
    };
    const gs_status status = gs_page_write(path, gs_page_base_html, parts);
    cJSON_Delete(data);
    return status;
}
