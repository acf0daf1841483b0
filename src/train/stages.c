#include "train/stages.h"

#include <stdio.h>

#include "train/settings.h"
#include "train/strategy.h"

enum { CHUNKS = 2 /* default for interleaved */ };

gs_status gs_pipeline_read(const char *text, const gs_pipeline_schedule **schedule, int *chunks) {
    const char *name = text ? text : gs_1f1b.name;
    const size_t length = strcspn(name, ":");
    *schedule = NULL;
    for (const gs_pipeline_schedule *const *s = gs_pipeline_schedules(); *s; s++)
        if (strlen((*s)->name) == length && strncmp((*s)->name, name, length) == 0) *schedule = *s;
    *chunks = *schedule && (*schedule)->chunked ? CHUNKS : 1;
    char end;
    if (*schedule && !name[length]) return GS_OK;
    if (*schedule && (*schedule)->chunked && sscanf(name + length, ":%6d%c", chunks, &end) == 1 &&
        *chunks >= 1 && *chunks <= GS_RUNS)
        return GS_OK;
    return gs_fail(GS_E_USAGE,
                   "--pipeline-schedule: '%s' is not a schedule; wanted gpipe, 1f1b, eager, interleaved, or "
                   "interleaved:V with V from 1 to %d runs of layers in each stage",
                   name, GS_RUNS);
}

size_t gs_pipeline_micro_batch(const gs_settings *s, size_t batch, int workers) {
    const size_t part =
        gs_schedule_cut(batch, 0, gs_batch_shards(s, workers), gs_together(&s->batch_norm)).count;
    return gs_schedule_cut(part, 0, gs_passes(s), gs_together(&s->batch_norm)).count;
}

gs_status gs_stages_cut(const gs_settings *s, const gs_model *m, int micro_batches, gs_stages *cut) {
    *cut =
        (gs_stages){.shape = {.stages = s->pipeline > 1 ? s->pipeline : 1, .micro_batches = micro_batches}};
    GS_TRY(gs_pipeline_read(s->pipeline_schedule, &cut->schedule, &cut->shape.chunks));
    cut->runs = cut->shape.stages * cut->shape.chunks;
    GS_TRY(gs_pipeline_cut(gs_model_whole(m)->net, s->pipeline_cut, NULL, cut->runs, cut->first));
    GS_TRY(gs_pipeline_tied(m->net, cut->runs, cut->first, &cut->tied));
    if (cut->tied.table) cut->shape.tied = s->exact ? GS_TIED_EACH : GS_TIED_ONCE;
    return GS_OK;
}

gs_status gs_stages_of(const gs_worker *w, gs_stages *cut) {
    const int micro_batches = w->settings->exact ? w->schedule.mine : w->schedule.passes;
    return gs_stages_cut(w->settings, w->model, micro_batches, cut);
}
