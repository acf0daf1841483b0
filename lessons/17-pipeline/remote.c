/* How the calls of lab 17 travel. */
#include "tasks.h"

#include "remote/remote.h"

enum { STAGE_FORWARD, STAGE_BACKWARD, GPIPE, ONE_FORWARD_ONE_BACKWARD, TIME, MICRO_BATCHES, CUT };

typedef struct stage_call {
    gs_instructions l;
    int p, s, k;
} stage_call;

static void pass_stage(lab_wire *w, void *arguments) {
    stage_call *a = arguments;
    LAB_VALUES(w, a->p, a->s, a->k);
    lab_value(w, &a->l.room, sizeof a->l.room);
    LAB_INOUT(w, a->l.list, a->l.room);
    lab_value(w, &a->l.count, sizeof a->l.count);
    LAB_RESULT(w, a->l.count);
}

typedef struct order_call {
    passes l;
    int p, m, s;
} order_call;

static void pass_order(lab_wire *w, void *arguments) {
    order_call *a = arguments;
    LAB_VALUES(w, a->p, a->m, a->s);
    lab_value(w, &a->l.room, sizeof a->l.room);
    LAB_INOUT(w, a->l.list, a->l.room);
    lab_value(w, &a->l.count, sizeof a->l.count);
    LAB_RESULT(w, a->l.count);
}

typedef struct time_call {
    int p, m;
    passes *lists;
    const double *forward, *backward;
    double *end, time;
} time_call;

static void pass_time(lab_wire *w, void *arguments) {
    time_call *a = arguments;
    LAB_VALUES(w, a->p, a->m);
    LAB_IN(w, a->lists, (size_t)a->p);
    for (int s = 0; s < a->p; s++) LAB_IN(w, a->lists[s].list, a->lists[s].count);
    LAB_IN(w, a->forward, (size_t)a->p);
    LAB_IN(w, a->backward, (size_t)a->p);
    LAB_INOUT(w, a->end, 2 * (size_t)a->p * (size_t)a->m);
    LAB_RESULT(w, a->time);
}

typedef struct micro_batches_call {
    bool is_1f1b;
    int p, batch;
    double bubble;
    int samples, micro_batches;
} micro_batches_call;

static void pass_micro_batches(lab_wire *w, void *arguments) {
    micro_batches_call *a = arguments;
    LAB_VALUES(w, a->is_1f1b, a->p, a->batch, a->bubble, a->samples);
    LAB_RESULT(w, a->micro_batches);
}

typedef struct cut_call {
    int layers;
    const double *seconds;
    int p;
    int *first;
} cut_call;

static void pass_cut(lab_wire *w, void *arguments) {
    cut_call *a = arguments;
    LAB_VALUES(w, a->layers, a->p);
    LAB_IN(w, a->seconds, (size_t)a->layers);
    LAB_INOUT(w, a->first, (size_t)a->p + 1);
}

#ifdef LAB_HAND_IN

LAB_CALLER(call_stage_forward, stage_call, stage_forward(&a->l, a->p, a->s, a->k))
LAB_CALLER(call_stage_backward, stage_call, stage_backward(&a->l, a->p, a->s, a->k))
LAB_CALLER(call_gpipe, order_call, gpipe(&a->l, a->p, a->m, a->s))
LAB_CALLER(call_one_forward_one_backward, order_call, one_forward_one_backward(&a->l, a->p, a->m, a->s))
LAB_CALLER(call_time, time_call,
           a->time = pipeline_time(a->p, a->m, a->lists, a->forward, a->backward, a->end))
LAB_CALLER(call_micro_batches, micro_batches_call,
           a->micro_batches = fewest_micro_batches(a->is_1f1b, a->p, a->batch, a->bubble, a->samples))
LAB_CALLER(call_cut, cut_call, cut_layers(a->layers, a->seconds, a->p, a->first))

#else

void stage_forward(gs_instructions *l, int p, int s, int k) {
    stage_call a = {*l, p, s, k};
    lab_remote(STAGE_FORWARD, &a);
    l->count = a.l.count;
}

void stage_backward(gs_instructions *l, int p, int s, int k) {
    stage_call a = {*l, p, s, k};
    lab_remote(STAGE_BACKWARD, &a);
    l->count = a.l.count;
}

void gpipe(passes *l, int p, int m, int s) {
    order_call a = {*l, p, m, s};
    lab_remote(GPIPE, &a);
    l->count = a.l.count;
}

void one_forward_one_backward(passes *l, int p, int m, int s) {
    order_call a = {*l, p, m, s};
    lab_remote(ONE_FORWARD_ONE_BACKWARD, &a);
    l->count = a.l.count;
}

double pipeline_time(int p, int m, const passes *lists, const double *forward, const double *backward,
                     double *end) {
    LAB_ASK(TIME, time_call, time, p, m, (passes *)lists, forward, backward, end, 0);
}

int fewest_micro_batches(bool is_1f1b, int p, int batch, double bubble, int samples) {
    LAB_ASK(MICRO_BATCHES, micro_batches_call, micro_batches, is_1f1b, p, batch, bubble, samples, 0);
}

void cut_layers(int layers, const double *seconds, int p, int *first) {
    cut_call a = {layers, seconds, p, first};
    lab_remote(CUT, &a);
}
#endif

const lab_function lab_functions[] = {
    {sizeof(stage_call), pass_stage, LAB_THEIRS(call_stage_forward)},
    {sizeof(stage_call), pass_stage, LAB_THEIRS(call_stage_backward)},
    {sizeof(order_call), pass_order, LAB_THEIRS(call_gpipe)},
    {sizeof(order_call), pass_order, LAB_THEIRS(call_one_forward_one_backward)},
    {sizeof(time_call), pass_time, LAB_THEIRS(call_time)},
    {sizeof(micro_batches_call), pass_micro_batches, LAB_THEIRS(call_micro_batches)},
    {sizeof(cut_call), pass_cut, LAB_THEIRS(call_cut)},
    {0},
};
