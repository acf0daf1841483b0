#include "predict/measured_cut.h"

#include "train/settings.h"
#include "train/run.h"
#include "train/stages.h"

bool gs_cut_is_open(const gs_run *run) {
    const gs_settings *s = &run->settings;
    return run->kind == GS_RUN_TRAIN && s->pipeline > 1 && gs_pipeline_is_measured(s->pipeline_cut) &&
           gs_check_workers(s, run->train_set, gs_run_all_workers(run)) == GS_OK;
}

/* ---- on rank 0 ---- */

gs_status gs_cut_by_times(const gs_settings *s, const gs_model *plan, const gs_layer_times *times,
                          gs_cut_report *out) {
    const gs_pipeline_schedule *schedule;
    int chunks;
    GS_TRY(gs_pipeline_read(s->pipeline_schedule, &schedule, &chunks));
    *out = (gs_cut_report){.runs = s->pipeline * chunks, .samples = times->samples};
    GS_TRY(gs_pipeline_cut(plan->net, NULL, times->both, out->runs, out->first));
    for (int r = 0; r < out->runs; r++)
        for (int i = out->first[r]; i < out->first[r + 1]; i++) {
            out->forward[r] += times->forward[i];
            out->backward[r] += times->backward[i];
        }
    return GS_OK;
}

static gs_status measure(gs_run *run, gs_cut_report *out) {
    const gs_settings *s = &run->settings;
    const size_t batch = s->batch ? s->batch : run->train_set->count;
    gs_layer_times times;
    gs_model *plan = NULL;
    const gs_layer_bench bench = {.settings = s,
                                  .data = run->train_set,
                                  .device = run->worker[0].device,
                                  .threads = run->threads,
                                  .samples = gs_pipeline_micro_batch(s, batch, gs_run_all_workers(run))};
    gs_status status = gs_layer_times_of(&bench, &times);
    if (status == GS_OK)
        status =
            gs_model_create(NULL, &(gs_model_config){.text = s->model, .in = run->train_set->shape}, &plan);
    if (status == GS_OK) status = gs_cut_by_times(s, plan, &times, out);
    gs_layer_times_free(&times);
    gs_model_free(plan);
    if (status == GS_E_MEMORY)
        return gs_fail(status, "--pipeline-cut measured: %s (--pipeline-cut flops measures nothing)",
                       gs_message());
    return gs_context(status, "--pipeline-cut measured");
}

/* ---- on all processes ---- */

/* What rank 0 broadcasts: its cut, or its error. */
typedef struct told {
    gs_error error;
    gs_cut_report cut;
} told;

gs_status gs_cut_settle(gs_run *run, gs_comm *processes) {
    int64_t open = gs_cut_is_open(run); /* number of processes on which the cut is open */
    if (processes) GS_TRY(gs_comm_all_reduce(processes, &open, 1, GS_I64, GS_SUM));
    if (open < (processes ? processes->size : 1)) return GS_OK;
    told t;
    memset(&t, 0, sizeof t); /* including the padding, because all bytes are sent */
    if (!processes || processes->rank == 0) gs_error_keep(&t.error, measure(run, &t.cut));
    if (processes) GS_TRY(gs_comm_broadcast(processes, &t, sizeof t, GS_U8, 0));
    t.error.message[sizeof t.error.message - 1] = 0;
    GS_TRY(gs_error_again(&t.error));
    run->cut = t.cut;
    run->settings.pipeline_cut = gs_pipeline_cut_text(run->cut.runs, run->cut.first, run->cut_text);
    return GS_OK;
}
