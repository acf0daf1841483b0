/* The schedules of schedule.h. A stage's list is in the order in which they call forward and backward. */
#include "train/pipeline/schedule.h"

#include <string.h>

static int least(int a, int b) {
    return a < b ? a : b;
}

/* All micro-batches forward, then all backward. */
static gs_status gpipe(const gs_pipeline *p, int stage, gs_instructions *out) {
    for (int k = 0; k < p->micro_batches; k++) gs_then_forward(out, p, stage, k, 0);
    for (int k = 0; k < p->micro_batches; k++) gs_then_backward(out, p, stage, k, 0);
    return GS_OK;
}

/* `most` micro-batches go forward; from then on each that goes forward takes the place of one that goes backward. */
static gs_status alternate(const gs_pipeline *p, int stage, int most, gs_instructions *out) {
    const int m = p->micro_batches, ahead = least(most, m);
    for (int k = 0; k < ahead; k++) gs_then_forward(out, p, stage, k, 0);
    for (int k = ahead; k < m; k++) {
        gs_then_forward(out, p, stage, k, 0);
        gs_then_backward(out, p, stage, k - ahead, 0);
    }
    for (int k = m - ahead; k < m; k++) gs_then_backward(out, p, stage, k, 0);
    return GS_OK;
}

/* The first micro-batch comes back to stage s when p - s have gone forward there. */
static gs_status one_forward_one_backward(const gs_pipeline *p, int stage, gs_instructions *out) {
    return alternate(p, stage, p->stages - 1 - stage, out);
}

static gs_status eager(const gs_pipeline *p, int stage, gs_instructions *out) {
    return alternate(p, stage, 2 * (p->stages - 1 - stage), out);
}

/* The i-th run of a stage: p micro-batches through its first chunk, the same through the second, ...; then the next p.
 * Backward goes through the chunks from the last to the first. */
static void ith_forward(const gs_pipeline *p, int stage, int i, gs_instructions *out) {
    const int round = p->stages * p->chunks, k = i / round * p->stages + i % p->stages;
    gs_then_forward(out, p, stage, k, i % round / p->stages);
}

static void ith_backward(const gs_pipeline *p, int stage, int i, gs_instructions *out) {
    const int round = p->stages * p->chunks, k = i / round * p->stages + i % p->stages;
    gs_then_backward(out, p, stage, k, p->chunks - 1 - i % round / p->stages);
}

/* 1f1b over runs. The first micro-batch reaches the last chunk of stage s after (v - 1) p runs there, and comes back to
 * it 2 (p - 1 - s) runs later, as forward and backward alternate. */
static gs_status interleaved(const gs_pipeline *p, int stage, gs_instructions *out) {
    const int runs = p->micro_batches * p->chunks;
    const int ahead = p->micro_batches == p->stages
                          ? runs
                          : least(2 * (p->stages - 1 - stage) + (p->chunks - 1) * p->stages, runs);
    for (int i = 0; i < ahead; i++) ith_forward(p, stage, i, out);
    for (int i = ahead; i < runs; i++) {
        ith_forward(p, stage, i, out);
        ith_backward(p, stage, i - ahead, out);
    }
    for (int i = runs - ahead; i < runs; i++) ith_backward(p, stage, i, out);
    return GS_OK;
}

const gs_pipeline_schedule gs_gpipe = {"gpipe", "GPipe", false, gpipe},
                           gs_1f1b = {"1f1b", "1F1B", false, one_forward_one_backward},
                           gs_interleaved = {"interleaved", "interleaved 1F1B", true, interleaved},
                           gs_eager = {"eager", "eager 1F1B", false, eager};

#define SCHEDULES &gs_gpipe, &gs_1f1b, &gs_interleaved, &gs_eager, NULL
static const gs_pipeline_schedule *const own[] = {SCHEDULES};
static const gs_pipeline_schedule *schedules[] = {SCHEDULES}; /* the same but for those that were replaced */

const gs_pipeline_schedule *const *gs_pipeline_schedules(void) {
    return schedules;
}

gs_status gs_pipeline_schedule_replace(const char *name, const gs_pipeline_schedule *by) {
    if (by && strcmp(by->name, name) != 0)
        return gs_fail(GS_E_USAGE, "the schedule '%s' cannot replace '%s': they need the same name", by->name,
                       name);
    for (int i = 0; own[i]; i++) {
        if (strcmp(own[i]->name, name) != 0) continue;
        schedules[i] = by ? by : own[i];
        return GS_OK;
    }
    return gs_fail(GS_E_USAGE, "no schedule is called '%s'; wanted gpipe, 1f1b, interleaved or eager", name);
}
