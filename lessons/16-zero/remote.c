/* How the calls of lab 16 travel. */
#include "tasks.h"

#include "remote/remote.h"

enum { BYTES_HELD, FEWEST_RANKS, ZERO1_STEP, BYTES_SENT, ZERO3_PASS };

typedef struct held_call {
    int stage, ranks;
    double params, memory;
    parameter_bytes bytes;
    double held;
    int fewest;
} held_call;

static void pass_held(lab_wire *w, void *arguments) {
    held_call *a = arguments;
    LAB_VALUE(w, a->stage);
    LAB_VALUE(w, a->ranks);
    LAB_VALUE(w, a->params);
    LAB_VALUE(w, a->memory);
    LAB_VALUE(w, a->bytes);
    LAB_RESULT(w, a->held);
    LAB_RESULT(w, a->fewest);
}

typedef struct step_call {
    gs_comm *c;
    int ranks;
    float *weights, *gradients, *velocity;
    size_t count;
    float rate, momentum, scale;
    gs_status status;
} step_call;

static void pass_step(lab_wire *w, void *arguments) {
    step_call *a = arguments;
    lab_pass_comm(w, &a->c);
    LAB_VALUE(w, a->ranks);
    LAB_VALUE(w, a->count);
    LAB_VALUE(w, a->rate);
    LAB_VALUE(w, a->momentum);
    LAB_VALUE(w, a->scale);
    LAB_INOUT(w, a->weights, a->count);
    LAB_INOUT(w, a->gradients, a->count);
    LAB_INOUT(w, a->velocity, a->count / (size_t)a->ranks);
    lab_status(w, &a->status);
}

typedef struct sent_call {
    int stage, ranks, passes;
    double bytes, sent;
} sent_call;

static void pass_sent(lab_wire *w, void *arguments) {
    sent_call *a = arguments;
    LAB_VALUE(w, a->stage);
    LAB_VALUE(w, a->ranks);
    LAB_VALUE(w, a->bytes);
    LAB_VALUE(w, a->passes);
    LAB_RESULT(w, a->sent);
}

typedef struct plan_call {
    plan p;
    int units;
} plan_call;

static void pass_plan(lab_wire *w, void *arguments) {
    plan_call *a = arguments;
    LAB_VALUE(w, a->units);
    lab_value(w, &a->p.room, sizeof a->p.room);
    LAB_INOUT(w, a->p.list, a->p.room);
    LAB_RESULT(w, a->p.count);
}

#ifdef LAB_HAND_IN

static void call_held(void *arguments) {
    held_call *a = arguments;
    a->held = bytes_held(a->stage, a->ranks, a->params, &a->bytes);
}

static void call_fewest(void *arguments) {
    held_call *a = arguments;
    a->fewest = fewest_ranks(a->stage, a->params, &a->bytes, a->memory);
}

static void call_step(void *arguments) {
    step_call *a = arguments;
    a->status =
        zero1_step(a->c, a->weights, a->gradients, a->velocity, a->count, a->rate, a->momentum, a->scale);
}

static void call_sent(void *arguments) {
    sent_call *a = arguments;
    a->sent = bytes_sent(a->stage, a->ranks, a->bytes, a->passes);
}

static void call_plan(void *arguments) {
    plan_call *a = arguments;
    zero3_pass(&a->p, a->units);
}

#else

double bytes_held(int stage, int ranks, double params, const parameter_bytes *b) {
    held_call a = {.stage = stage, .ranks = ranks, .params = params, .bytes = *b};
    lab_remote(BYTES_HELD, &a);
    return a.held;
}

int fewest_ranks(int stage, double params, const parameter_bytes *b, double memory) {
    held_call a = {.stage = stage, .params = params, .bytes = *b, .memory = memory};
    lab_remote(FEWEST_RANKS, &a);
    return a.fewest;
}

gs_status zero1_step(gs_comm *c, float *weights, float *gradients, float *velocity, size_t count, float rate,
                     float momentum, float scale) {
    step_call a = {c, c->size, weights, gradients, velocity, count, rate, momentum, scale, GS_OK};
    lab_remote(ZERO1_STEP, &a);
    return a.status;
}

double bytes_sent(int stage, int ranks, double bytes, int passes) {
    sent_call a = {stage, ranks, passes, bytes, 0};
    lab_remote(BYTES_SENT, &a);
    return a.sent;
}

void zero3_pass(plan *p, int units) {
    plan_call a = {*p, units};
    lab_remote(ZERO3_PASS, &a);
    p->count = a.p.count;
}
#endif

const lab_function lab_functions[] = {
    {sizeof(held_call), pass_held, LAB_THEIRS(call_held)},
    {sizeof(held_call), pass_held, LAB_THEIRS(call_fewest)},
    {sizeof(step_call), pass_step, LAB_THEIRS(call_step)},
    {sizeof(sent_call), pass_sent, LAB_THEIRS(call_sent)},
    {sizeof(plan_call), pass_plan, LAB_THEIRS(call_plan)},
    {0},
};
