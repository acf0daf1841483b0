#include <stdio.h>
#include <stdlib.h>

#include "core/text.h"
#include "train/internal.h"
#include "train/layout/layout_plan.h"
#include "train/tensor/tensor.h"

gs_status gs_layout_part(const gs_settings *s, const gs_model *plan, int rank, gs_model **part) {
    const gs_model_wishes wishes = {.text = s->model, .in = plan->in, .tensor = gs_tensor_group_of(s, rank)};
    const gs_status status = gs_model_create(NULL, &wishes, part);
    return status == GS_E_SHAPE ? gs_fail(GS_E_USAGE, "%s", gs_message()) : status;
}

static void name_layers(const gs_holding *own, char *text, size_t size) {
    *text = 0;
    for (int c = 0; c < own->states; c++) {
        const int first = own->state[c].begin, last = own->state[c].end - 1;
        gs_append(text, size, first < last ? "%s%d-%d" : "%s%d", c > 0 ? "," : "", first, last);
    }
}

/* Of a worker as far as gs_holding_plan looks at it. */
static gs_status share_of_stage(const gs_settings *s, const gs_model *plan, int workers, int rank,
                                gs_layout_share *out) {
    const gs_layout l = gs_layout_of(s, workers);
    gs_worker w = {.settings = s, .groups.layout = l, .model = (gs_model *)(uintptr_t)plan};
    w.schedule.mine = gs_parts_of(s, workers) / l.dp;
    w.schedule.passes = gs_passes(s);
    const gs_status status = gs_holding_plan(&w, rank, &w.holding);
    if (status == GS_OK) {
        out->params = w.holding.params;
        name_layers(&w.holding, out->layers, sizeof out->layers);
    }
    gs_holding_free(&w.holding);
    return status;
}

gs_status gs_layout_share_of(const gs_settings *s, const gs_model *plan, int workers, int rank,
                             gs_layout_share *out) {
    const gs_layout l = gs_layout_of(s, workers);
    gs_model *part = NULL;
    *out = (gs_layout_share){.place = gs_place_of(&l, rank), .params = plan->params};
    out->weights = l.zero > 2 ? l.dp : 1;
    out->gradients = l.zero > 1 ? l.dp : 1;
    out->vectors = l.zero > 0 ? l.dp : 1;
    snprintf(out->layers, sizeof out->layers, "%s", "all");
    if (l.tp > 1) GS_TRY(gs_layout_part(s, plan, rank, &part));
    if (part) out->params = part->params;
    const gs_status status = l.pp > 1 ? share_of_stage(s, part ? part : plan, workers, rank, out) : GS_OK;
    gs_model_free(part);
    return status;
}
