/* How the calls of lab 15 travel. */
#include "tasks.h"

#include <stdlib.h>

#include "remote/remote.h"

enum { LEAST, PLACE, PEAK, BEST, FORWARD, SCALE };

/* ---- the arena: lifetimes as one array ---- */

typedef struct lifetimes_call {
    size_t count;
    const gs_lifetime *life; /* 15.2: the last one is to be placed */
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
    LAB_VALUE(w, a->r.layers);
    LAB_VALUE(w, a->k);
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
    LAB_VALUE(w, a->o.layers);
    LAB_VALUE(w, a->o.buffers);
    LAB_VALUE(w, a->o.bandwidth);
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
    LAB_VALUE(w, a->s);
    LAB_VALUE(w, a->s.scale);
    LAB_VALUE(w, a->s.good);
    LAB_VALUE(w, a->finite);
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

static void call_peak(void *arguments) {
    row_call *a = arguments;
    a->peak = recompute_peak(&a->r, a->k, &a->again);
}

static void call_best(void *arguments) {
    row_call *a = arguments;
    a->best = best_segment(&a->r);
}

static void call_forward(void *arguments) {
    forward_call *a = arguments;
    a->done = offload_forward(&a->o, a->copied);
}

static void call_scale(void *arguments) {
    scale_call *a = arguments;
    a->becomes = a->s;
    gs_loss_scale_step(&a->becomes, a->finite);
}

#else

size_t gs_lifetimes_peak(const gs_lifetimes *l) {
    lifetimes_call a = {l->count, l->life, 0};
    lab_remote(LEAST, &a);
    return a.result;
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
    row_call a = {.r = *r, .k = 1};
    lab_remote(BEST, &a);
    return a.best;
}

double offload_forward(const offload *o, double *copied) {
    forward_call a = {*o, copied, 0};
    lab_remote(FORWARD, &a);
    return a.done;
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
