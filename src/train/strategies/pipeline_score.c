/* The test set goes forward through the stages: see pipeline.c. Blocks follow each other as micro-batches do, so stages
 * that have different blocks work at the same time. */
#include "comm/device.h"
#include "train/internal.h"
#include "train/strategies/pipeline.h"

/* Messages go round the stages, as often as a stage has chunks. */
static gs_status receive(gs_worker *w, const gs_pipeline_worker *p, gs_mem x, size_t numbers) {
    const int before = (p->stage + p->shape.stages - 1) % p->shape.stages;
    const gs_call call = {GS_RECV, gs_bytes_of(numbers, x.half), GS_U8, GS_SUM, before};
    return gs_call_run_on_device(w->groups.comm[GS_PP], w->device, &call, GS_NONE, x);
}

static gs_status send(gs_worker *w, const gs_pipeline_worker *p, gs_mem y, size_t numbers) {
    const int after = (p->stage + 1) % p->shape.stages;
    const gs_call call = {GS_SEND, gs_bytes_of(numbers, y.half), GS_U8, GS_SUM, after};
    return gs_call_run_on_device(w->groups.comm[GS_PP], w->device, &call, y, GS_NONE);
}

gs_status gs_stage_score(gs_worker *w, const gs_pass *pass, bool *scored) {
    const gs_pipeline_worker *p = w->strategy_state;
    *scored = p->stage == p->shape.stages - 1;
    for (int c = 0; c < p->shape.chunks; c++) {
        const gs_stage_slot *s = &p->chunk[c].slot[0];
        const bool first = p->chunk[c].run == 0, last = p->chunk[c].run == p->runs - 1;
        gs_mem y;
        if (!first) GS_TRY(receive(w, p, s->x, pass->n * gs_shape_size(s->model->in)));
        GS_TRY(gs_model_forward(s->model, pass, first ? w->input.x : s->x, &y));
        if (!last) GS_TRY(send(w, p, y, pass->n * gs_shape_size(s->model->out)));
        if (!last) continue;
        GS_TRY(gs_model_clear_stats(w->model));
        GS_TRY(gs_model_loss(s->model, pass, y, w->input.answers));
    }
    return GS_OK;
}
