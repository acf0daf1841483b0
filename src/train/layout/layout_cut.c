#include "train/layout/layout_cut.h"

#include <stdio.h>
#include <stdlib.h>

#include "core/text.h"
#include "train/internal.h"
#include "train/layout/layout_plan.h"

gs_status gs_layout_cut_create(const gs_settings *s, const gs_model *plan, int workers, int rank,
                               gs_layout_cut **out) {
    gs_layout_cut *in = calloc(1, sizeof *in);
    *out = NULL;
    if (!in) return gs_fail(GS_E_MEMORY, "no memory to cut a model");
    const gs_layout l = gs_layout_of(s, workers);
    in->worker = (gs_worker){.settings = s, .groups.layout = l, .model = (gs_model *)(uintptr_t)plan};
    in->worker.schedule.mine = gs_parts_of(s, workers) / l.dp;
    in->worker.schedule.passes = gs_passes(s);
    gs_status status = gs_holding_plan(&in->worker, rank, &in->worker.holding);
    in->cut.own = &in->worker.holding;
    if (status == GS_OK) status = gs_stage_cut(&in->worker, gs_place_of(&l, rank).stage, &in->cut);
    if (status == GS_OK)
        *out = in;
    else
        gs_layout_cut_free(in);
    return status;
}

void gs_layout_cut_free(gs_layout_cut *in) {
    if (in) gs_holding_free(&in->worker.holding);
    free(in);
}

gs_status gs_layout_part(const gs_settings *s, const gs_model *plan, int rank, gs_model **part) {
    const gs_model_wishes wishes = {.text = s->model, .in = plan->in, .tensor = gs_tensor_group_of(s, rank)};
    const gs_status status = gs_model_create(NULL, &wishes, part);
    return status == GS_E_SHAPE ? gs_fail(GS_E_USAGE, "%s", gs_message()) : status;
}

static void name_layers(const gs_pipeline_worker *p, char *text, size_t size) {
    *text = 0;
    for (int c = 0; c < p->shape.chunks; c++) {
        const int first = p->own->unit[c].begin, last = p->own->unit[c].end - 1;
        gs_append(text, size, first < last ? "%s%d-%d" : "%s%d", c > 0 ? "," : "", first, last);
    }
}

static gs_status share_of_stage(const gs_settings *s, const gs_model *plan, int workers, int rank,
                                gs_layout_share *out) {
    gs_layout_cut *in;
    GS_TRY(gs_layout_cut_create(s, plan, workers, rank, &in));
    out->params = in->cut.own->params;
    name_layers(&in->cut, out->layers, sizeof out->layers);
    gs_layout_cut_free(in);
    return GS_OK;
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
