/* Lab 17, as given: the student's schedules replace the library's, --pipeline-schedule gpipe and 1f1b.
 *
 * The framework trusts a schedule. So this file first checks the student's in all stages: each micro-batch goes once
 * forward and then backward, in order, with its messages, and no stage waits forever. The library adds what else a real
 * step needs: loading samples, tables that two stages share, the update. */
#include "tasks.h"

#include <stdlib.h>
#include "lab.h"
#include "parallel/virtual_time.h"

typedef struct schedule {
    void (*order)(passes *, int p, int m, int s);
    const char *task;
} schedule;

static const schedule student_gpipe = {gpipe, "17.2"}, student_1f1b = {one_forward_one_backward, "17.3"};

/* Appends the library's instructions of one pass, and compares the student's with them, except those for samples and
 * shared tables. */
static gs_status add_pass(const gs_pipeline *p, int s, const pass *x, gs_instructions *out) {
    gs_instruction room[8];
    gs_instructions theirs = {room, 0, sizeof room / sizeof *room};
    const size_t from = out->count;
    size_t n = 0;
    bool same = true;
    if (x->backward) {
        gs_then_backward(out, p, s, x->micro_batch, 0);
        stage_backward(&theirs, p->stages, s, x->micro_batch);
    } else {
        gs_then_forward(out, p, s, x->micro_batch, 0);
        stage_forward(&theirs, p->stages, s, x->micro_batch);
    }
    for (size_t i = from; i < out->count; i++) {
        const gs_instruction *a = &out->list[i], *b = &theirs.list[n];
        if (a->action == GS_DO_LOAD || a->action == GS_DO_RECV_TIED || a->action == GS_DO_SEND_TIED) continue;
        same = same && n < theirs.count && n < theirs.room && a->action == b->action && a->peer == b->peer &&
               a->micro_batch == b->micro_batch;
        n++;
    }
    if (same && n == theirs.count) return GS_OK;
    return gs_fail(
        GS_E_USAGE,
        "lab 17: stage %d of %d: %s has other instructions than the pass of micro-batch %d needs: make "
        "lab-17 says more",
        s, p->stages, x->backward ? "stage_backward" : "stage_forward", x->micro_batch);
}

static gs_status add_passes(const schedule *which, const gs_pipeline *p, int s, passes *l,
                            gs_instructions *out) {
    const int m = p->micro_batches;
    int forward = 0, backward = 0;
    l->count = 0;
    which->order(l, p->stages, m, s);
    if (l->count == 0)
        return gs_fail(GS_E_USAGE, "lab 17: stage %d of %d has no passes: is task %s written?", s, p->stages,
                       which->task);
    for (size_t i = 0; i < l->count && i < l->room; i++) {
        const pass *x = &l->list[i];
        const int next = x->backward ? backward++ : forward++;
        if (x->micro_batch != next || next >= m || backward > forward)
            return gs_fail(
                GS_E_USAGE,
                "lab 17: stage %d of %d: pass %zu, of micro-batch %d, cannot come here: make lab-17 "
                "says more",
                s, p->stages, i, x->micro_batch);
        GS_TRY(add_pass(p, s, x, out));
    }
    if (backward == m && l->count == 2 * (size_t)m) return GS_OK;
    return gs_fail(GS_E_USAGE, "lab 17: stage %d of %d has %zu passes; wanted %d for %d micro-batches", s,
                   p->stages, l->count, 2 * m, m);
}

/* Checks all stages; the library detects a deadlock. */
static gs_status check_all(const schedule *which, const gs_pipeline *p, passes *l) {
    const gs_pipeline plain = {p->stages, p->micro_batches, 1, GS_TIED_NONE};
    const size_t room = 8 * (size_t)p->micro_batches;
    gs_instruction *all = malloc((size_t)p->stages * room * sizeof *all);
    gs_instructions *lists = calloc((size_t)p->stages, sizeof *lists);
    gs_pipeline_run run = {0};
    gs_status status = all && lists ? GS_OK : gs_fail(GS_E_MEMORY, "lab 17: no memory for a schedule");
    for (int s = 0; status == GS_OK && s < p->stages; s++) {
        lists[s] = (gs_instructions){all + (size_t)s * room, 0, room};
        status = add_passes(which, &plain, s, l, &lists[s]);
    }
    if (status == GS_OK) status = gs_pipeline_in_virtual_time(&plain, lists, &(gs_pipeline_times){0}, &run);
    free(lists);
    free(all);
    return status;
}

static gs_status order_of(const schedule *which, const gs_pipeline *p, int s, gs_instructions *out) {
    const size_t room = 2 * (size_t)p->micro_batches;
    passes l = {malloc(room * sizeof *l.list), 0, room};
    gs_status status =
        l.list ? check_all(which, p, &l) : gs_fail(GS_E_MEMORY, "lab 17: no memory for a list");
    if (status == GS_OK) status = add_passes(which, p, s, &l, out);
    free(l.list);
    return status;
}

static gs_status order_gpipe(const gs_pipeline *p, int s, gs_instructions *out) {
    return order_of(&student_gpipe, p, s, out);
}

static gs_status order_1f1b(const gs_pipeline *p, int s, gs_instructions *out) {
    return order_of(&student_1f1b, p, s, out);
}

void lab_install(void) {
    static const gs_pipeline_schedule own_gpipe = {"gpipe", "GPipe of lab.c", false, order_gpipe},
                                      own_1f1b = {"1f1b", "1F1B of lab.c", false, order_1f1b};
    (void)gs_pipeline_schedule_replace("gpipe", &own_gpipe);
    (void)gs_pipeline_schedule_replace("1f1b", &own_1f1b);
}
