#include "parallel/schedule.h"

#include <stdlib.h>
#include <string.h>

const char *const gs_action_names[GS_ACTIONS] = {
    "load",
    "receive activation",
    "forward",
    "send activation",
    "receive gradient",
    "receive tied gradient",
    "backward",
    "send gradient",
    "send tied gradient",
    "sum",
    "update",
    "send table",
    "receive table",
};

/* ---- building a list ---- */

/* Append an instruction; gs_instructions_create has allocated enough room. */
static void then(gs_instructions *l, gs_action action, int k, int chunk, int peer) {
    if (l->count == l->room) gs_bug("a schedule has more than %zu instructions", l->room);
    l->list[l->count++] = (gs_instruction){action, k, chunk, peer};
}

/* The number of a run of layers: stage s holds the runs s, p + s, 2 p + s, ... */
static int run_of(const gs_pipeline *p, int stage, int chunk) {
    return chunk * p->stages + stage;
}

static int last_run(const gs_pipeline *p) {
    return p->stages * p->chunks - 1;
}

/* The next stage (step 1) or the previous one (step -1), wrapping around. */
static int neighbour(const gs_pipeline *p, int stage, int step) {
    return (stage + p->stages + step) % p->stages;
}

void gs_then_forward(gs_instructions *l, const gs_pipeline *p, int stage, int k, int chunk) {
    const int run = run_of(p, stage, chunk);
    if (chunk == 0) then(l, GS_DO_LOAD, k, 0, 0);
    if (run > 0) then(l, GS_DO_RECV_ACTIVATION, k, chunk, neighbour(p, stage, -1));
    then(l, GS_DO_FORWARD, k, chunk, 0);
    if (run < last_run(p)) then(l, GS_DO_SEND_ACTIVATION, k, chunk, neighbour(p, stage, 1));
}

void gs_then_backward(gs_instructions *l, const gs_pipeline *p, int stage, int k, int chunk) {
    const int run = run_of(p, stage, chunk), last = last_run(p);
    const bool tied = p->tied == GS_TIED_EACH && last > 0;
    if (run < last) then(l, GS_DO_RECV_GRADIENT, k, chunk, neighbour(p, stage, 1));
    if (tied && run == 0) then(l, GS_DO_RECV_TIED, k, chunk, p->stages - 1);
    then(l, GS_DO_BACKWARD, k, chunk, 0);
    if (run > 0) then(l, GS_DO_SEND_GRADIENT, k, chunk, neighbour(p, stage, -1));
    if (tied && run == last) then(l, GS_DO_SEND_TIED, k, chunk, 0);
}

static void then_update(gs_instructions *l, const gs_pipeline *p, int stage) {
    const int last = p->stages - 1;
    const bool first_of_two = p->tied && last > 0 && stage == 0,
               second_of_two = p->tied && last > 0 && stage == last;
    if (p->tied == GS_TIED_ONCE && second_of_two) then(l, GS_DO_SEND_TIED, 0, p->chunks - 1, 0);
    if (p->tied == GS_TIED_ONCE && first_of_two) then(l, GS_DO_RECV_TIED, 0, 0, last);
    then(l, GS_DO_SUM, 0, 0, 0);
    then(l, GS_DO_UPDATE, 0, 0, 0);
    if (first_of_two) then(l, GS_DO_SEND_TABLE, 0, 0, last);
    if (second_of_two) then(l, GS_DO_RECV_TABLE, 0, p->chunks - 1, 0);
}

gs_status gs_instructions_create(const gs_pipeline_schedule *schedule, const gs_pipeline *p, int stage,
                                 gs_instructions *out) {
    enum { EACH = 8 /* per micro-batch and chunk, forward and backward */, LAST = 4 };
    *out = (gs_instructions){.room = EACH * (size_t)p->micro_batches * (size_t)p->chunks + LAST};
    GS_TRY(GS_NEW(out->list, out->room, "a schedule of %zu instructions", out->room));
    GS_TRY(schedule->order(p, stage, out));
    then_update(out, p, stage);
    return GS_OK;
}

void gs_instructions_free(gs_instructions *l) {
    free(l->list);
    *l = (gs_instructions){0};
}

/* ---- properties ---- */

gs_status gs_pipeline_check(const gs_pipeline_schedule *schedule, const gs_pipeline *p) {
    if (p->stages < 1 || p->micro_batches < 1 || p->chunks < 1)
        return gs_fail(
            GS_E_USAGE,
            "a pipeline of %d stages with %d chunks and %d micro-batches; wanted 1 or more of each",
            p->stages, p->chunks, p->micro_batches);
    if (p->chunks == 1) return GS_OK;
    if (!schedule->chunked)
        return gs_fail(GS_E_USAGE, "the schedule %s has one chunk in each stage, not %d; wanted interleaved",
                       schedule->name, p->chunks);
    if (p->stages == 1)
        return gs_fail(GS_E_USAGE, "one stage with %d chunks: nothing to interleave", p->chunks);
    if (p->tied == GS_TIED_EACH)
        return gs_fail(
            GS_E_USAGE,
            "%d chunks in each stage, with a tied gradient for each micro-batch, can deadlock: too many "
            "messages between the first and last stage are under way; wanted gpipe, 1f1b or eager",
            p->chunks);
    if (p->micro_batches % p->stages == 0) return GS_OK;
    return gs_fail(GS_E_USAGE,
                   "%d micro-batches for %d stages: interleaved runs them in groups of one per stage; "
                   "wanted a multiple of %d",
                   p->micro_batches, p->stages, p->stages);
}

int gs_instructions_alive(const gs_instructions *l, int chunk) {
    int alive = 0, most = 0;
    for (size_t i = 0; i < l->count; i++) {
        if (chunk != GS_ALL_CHUNKS && l->list[i].chunk != chunk) continue;
        alive += (l->list[i].action == GS_DO_FORWARD) - (l->list[i].action == GS_DO_BACKWARD);
        if (alive > most) most = alive;
    }
    return most;
}

double gs_pipeline_bubble(const gs_pipeline *p) {
    const double waits = p->stages - 1;
    return waits / ((double)p->micro_batches * p->chunks + waits);
}

gs_instruction gs_instruction_sent(const gs_pipeline *p, const gs_instruction *receive, int stage) {
    static const gs_action sent[GS_ACTIONS] = {[GS_DO_RECV_ACTIVATION] = GS_DO_SEND_ACTIVATION,
                                               [GS_DO_RECV_GRADIENT] = GS_DO_SEND_GRADIENT,
                                               [GS_DO_RECV_TIED] = GS_DO_SEND_TIED,
                                               [GS_DO_RECV_TABLE] = GS_DO_SEND_TABLE};
    if (!gs_action_receives(receive->action))
        gs_bug("'%s' receives nothing", gs_action_names[receive->action]);
    gs_instruction s = {sent[receive->action], receive->micro_batch, receive->chunk, stage};
    if (receive->action == GS_DO_RECV_ACTIVATION && stage == 0) s.chunk--;           /* from the last stage */
    if (receive->action == GS_DO_RECV_GRADIENT && stage == p->stages - 1) s.chunk++; /* from stage 0 */
    if (receive->action == GS_DO_RECV_TIED) s.chunk = p->chunks - 1;
    if (receive->action == GS_DO_RECV_TABLE) s.chunk = 0;
    return s;
}

/* ---- the schedules: each calls forward and backward in the order of the stage's list ---- */

/* The i-th forward pass of a stage. The first p micro-batches go through its first chunk, then its second, and so on;
 * then the next p follow. Backward visits the chunks from last to first. With one chunk, pass i is micro-batch i. */
static void ith_forward(const gs_pipeline *p, int stage, int i, gs_instructions *out) {
    const int round = p->stages * p->chunks, k = i / round * p->stages + i % p->stages;
    gs_then_forward(out, p, stage, k, i % round / p->stages);
}

static void ith_backward(const gs_pipeline *p, int stage, int i, gs_instructions *out) {
    const int round = p->stages * p->chunks, k = i / round * p->stages + i % p->stages;
    gs_then_backward(out, p, stage, k, p->chunks - 1 - i % round / p->stages);
}

/* First do up to `most` forward passes; then alternate one forward and one backward. */
static gs_status alternate(const gs_pipeline *p, int stage, int most, gs_instructions *out) {
    const int runs = p->micro_batches * p->chunks, ahead = most < runs ? most : runs;
    for (int i = 0; i < runs + ahead; i++) {
        if (i < runs) ith_forward(p, stage, i, out);
        if (i >= ahead) ith_backward(p, stage, i - ahead, out);
    }
    return GS_OK;
}

/* All micro-batches forward, then all backward. */
static gs_status gpipe(const gs_pipeline *p, int stage, gs_instructions *out) {
    return alternate(p, stage, p->micro_batches, out);
}

/* Micro-batch 0 returns to stage s after p - s micro-batches have gone forward there. */
static gs_status one_forward_one_backward(const gs_pipeline *p, int stage, gs_instructions *out) {
    return alternate(p, stage, p->stages - 1 - stage, out);
}

static gs_status eager(const gs_pipeline *p, int stage, gs_instructions *out) {
    return alternate(p, stage, 2 * (p->stages - 1 - stage), out);
}

/* 1f1b over passes through chunks. Micro-batch 0 reaches the last chunk of stage s after (v - 1) p passes there. It
 * returns 2 (p - 1 - s) passes later, because forward and backward alternate. If m = p, all go forward first. */
static gs_status interleaved(const gs_pipeline *p, int stage, gs_instructions *out) {
    const int runs = p->micro_batches * p->chunks,
              ahead = 2 * (p->stages - 1 - stage) + (p->chunks - 1) * p->stages;
    return alternate(p, stage, p->micro_batches == p->stages ? runs : ahead, out);
}

const gs_pipeline_schedule gs_gpipe = {"gpipe", "GPipe", false, gpipe},
                           gs_1f1b = {"1f1b", "1F1B", false, one_forward_one_backward},
                           gs_interleaved = {"interleaved", "interleaved 1F1B", true, interleaved},
                           gs_eager = {"eager", "eager 1F1B", false, eager};

#define SCHEDULES &gs_gpipe, &gs_1f1b, &gs_interleaved, &gs_eager, NULL
static const gs_pipeline_schedule *const own[] = {SCHEDULES};
static const gs_pipeline_schedule *schedules[] = {SCHEDULES}; /* the built-in ones, or their replacements */

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
