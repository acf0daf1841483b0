/* How the calls of lab 15 travel. */
#include "tasks.h"

#include <stdlib.h>

#include "remote/remote.h"

enum { LEAST, PLACE, PEAK, BEST, FORWARD, SCALE };

/* ---- the arena: lifetimes as one array ---- */

typedef struct lifetimes_call {
    size_t count;
    const gs_lifetime *life; /* 15.2: the last one is the one to place */
    size_t result;
} lifetimes_call;

static void pass_lifetimes(lab_wire *w, void *arguments) {
    lifetimes_call *a = arguments;
    LAB_VALUE(w, a->count);
    LAB_IN(w, a->life, a->count);
    LAB_RESULT(w, a->result);
}

/* ---- rows of layers ---- */

typedef struct row_call {
    row r;
    int k;
    double again;
    size_t peak;
    int best;
} row_call;

static void pass_row(lab_wire *w, void *arguments) {
    row_call *a = arguments;
    LAB_VALUES(w, a->r.layers, a->k);
    LAB_IN(w, a->r.y, (size_t)a->r.layers);
    LAB_IN(w, a->r.flops, (size_t)a->r.layers);
    LAB_RESULT(w, a->again);
    LAB_RESULT(w, a->peak);
    LAB_RESULT(w, a->best);
}

typedef struct forward_call {
    offload o;
    double *copied, done;
} forward_call;

static void pass_forward(lab_wire *w, void *arguments) {
    forward_call *a = arguments;
    LAB_VALUES(w, a->o.layers, a->o.buffers, a->o.bandwidth);
    LAB_IN(w, a->o.seconds, (size_t)a->o.layers);
    LAB_IN(w, a->o.bytes, (size_t)a->o.layers);
    LAB_INOUT(w, a->copied, (size_t)a->o.layers);
    LAB_RESULT(w, a->done);
}

/* ---- the scale of the loss ---- */

typedef struct scale_call {
    gs_loss_scale s, becomes;
    bool finite;
} scale_call;

static void pass_scale(lab_wire *w, void *arguments) {
    scale_call *a = arguments;
    LAB_VALUES(w, a->s, a->s.scale, a->s.good, a->finite);
    LAB_RESULT(w, a->becomes);
}

#ifdef LAB_HAND_IN

static void call_least(void *arguments) {
    lifetimes_call *a = arguments;
    a->result = gs_lifetimes_peak(&(gs_lifetimes){(gs_lifetime *)a->life, a->count, a->count});
}

static void call_place(void *arguments) {
    lifetimes_call *a = arguments;
    const size_t placed = a->count - 1;
    gs_lifetime **list = calloc(placed + 1, sizeof *list);
    if (!list) abort();
    for (size_t i = 0; i < placed; i++) list[i] = (gs_lifetime *)&a->life[i];
    a->result = lowest_place(&a->life[placed], list, placed);
    free(list);
}

LAB_CALLER(call_peak, row_call, a->peak = recompute_peak(&a->r, a->k, &a->again))
LAB_CALLER(call_best, row_call, a->best = best_segment(&a->r))
LAB_CALLER(call_forward, forward_call, a->done = offload_forward(&a->o, a->copied))

static void call_scale(void *arguments) {
    scale_call *a = arguments;
    a->becomes = a->s;
    gs_loss_scale_step(&a->becomes, a->finite);
}

#else

size_t gs_lifetimes_peak(const gs_lifetimes *l) {
    LAB_ASK(LEAST, lifetimes_call, result, l->count, l->life, 0);
}

size_t lowest_place(const gs_lifetime *it, gs_lifetime *const *placed, size_t count) {
    gs_lifetime *list = calloc(count + 1, sizeof *list);
    if (!list) gs_bug("no memory");
    for (size_t i = 0; i < count; i++) list[i] = *placed[i];
    list[count] = *it;
    lifetimes_call a = {count + 1, list, 0};
    lab_remote(PLACE, &a);
    free(list);
    return a.result;
}

size_t recompute_peak(const row *r, int k, double *again) {
    row_call a = {.r = *r, .k = k};
    lab_remote(PEAK, &a);
    *again = a.again;
    return a.peak;
}

int best_segment(const row *r) {
    LAB_ASK(BEST, row_call, best, .r = *r, .k = 1);
}

double offload_forward(const offload *o, double *copied) {
    LAB_ASK(FORWARD, forward_call, done, *o, copied, 0);
}

void gs_loss_scale_step(gs_loss_scale *s, bool finite) {
    scale_call a = {*s, *s, finite};
    lab_remote(SCALE, &a);
    *s = a.becomes;
}
#endif

const lab_function lab_functions[] = {
    {sizeof(lifetimes_call), pass_lifetimes, LAB_THEIRS(call_least)},
    {sizeof(lifetimes_call), pass_lifetimes, LAB_THEIRS(call_place)},
    {sizeof(row_call), pass_row, LAB_THEIRS(call_peak)},
    {sizeof(row_call), pass_row, LAB_THEIRS(call_best)},
    {sizeof(forward_call), pass_forward, LAB_THEIRS(call_forward)},
    {sizeof(scale_call), pass_scale, LAB_THEIRS(call_scale)},
    {0},
};
