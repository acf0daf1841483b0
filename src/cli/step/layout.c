#include "cli/step/layout.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "train/layout/layout_cut.h"
#include "train/tensor/tensor.h"

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

gs_status gs_step_layout_create(const gs_settings *settings, int workers, gs_step_layout *l) {
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

void gs_step_layout_free(gs_step_layout *l) {
    gs_timeline_parts_free(l->part, l->workers);
    gs_result_free(&l->result);
    gs_model_free(l->plan);
    gs_model_free(l->divided);
    gs_memory_plan_free(&l->memory);
    free(l->layer);
    *l = (gs_step_layout){.workers = 0};
}
