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
    LAB_VALUES(w, a->stage, a->ranks, a->params, a->memory, a->bytes);
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
    LAB_VALUES(w, a->ranks, a->count, a->rate, a->momentum, a->scale);
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
    LAB_VALUES(w, a->stage, a->ranks, a->bytes, a->passes);
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

LAB_CALLER(call_held, held_call, a->held = bytes_held(a->stage, a->ranks, a->params, &a->bytes))
LAB_CALLER(call_fewest, held_call, a->fewest = fewest_ranks(a->stage, a->params, &a->bytes, a->memory))
LAB_CALLER(call_step, step_call,
           a->status = zero1_step(a->c, a->weights, a->gradients, a->velocity, a->count, a->rate, a->momentum,
                                  a->scale))
LAB_CALLER(call_sent, sent_call, a->sent = bytes_sent(a->stage, a->ranks, a->bytes, a->passes))
LAB_CALLER(call_plan, plan_call, zero3_pass(&a->p, a->units))

#else

double bytes_held(int stage, int ranks, double params, const parameter_bytes *b) {
    LAB_ASK(BYTES_HELD, held_call, held, .stage = stage, .ranks = ranks, .params = params, .bytes = *b);
}

int fewest_ranks(int stage, double params, const parameter_bytes *b, double memory) {
    LAB_ASK(FEWEST_RANKS, held_call, fewest, .stage = stage, .params = params, .bytes = *b, .memory = memory);
}

gs_status zero1_step(gs_comm *c, float *weights, float *gradients, float *velocity, size_t count, float rate,
                     float momentum, float scale) {
    LAB_ASK(ZERO1_STEP, step_call, status, c, c->size, weights, gradients, velocity, count, rate, momentum,
            scale, GS_OK);
}

double bytes_sent(int stage, int ranks, double bytes, int passes) {
    LAB_ASK(BYTES_SENT, sent_call, sent, stage, ranks, passes, bytes, 0);
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
