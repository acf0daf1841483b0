/* How the calls of lab 7 travel. */
#include "tasks.h"

#include "remote/formulas.h"

enum { RING_REDUCE_SCATTER, RING_ALL_GATHER, RING_COST, RING_TIME, HALVING, DOUBLING };

/* ---- the functions that sum ---- */

typedef struct sum_call {
    gs_sync *s;
    gs_fold fold;
    float *data;
    size_t count;
    chunks has;
    gs_status status;
} sum_call;

static void pass_sum(lab_wire *w, void *arguments) {
    sum_call *a = arguments;
    lab_pass_sync(w, &a->s);
    LAB_VALUE(w, a->fold);
    LAB_VALUE(w, a->count);
    LAB_INOUT(w, a->data, a->count);
    LAB_VALUE(w, a->has);
    LAB_RESULT(w, a->has);
    lab_status(w, &a->status);
}

#ifdef LAB_HAND_IN

static void call_reduce_scatter(void *arguments) {
    sum_call *a = arguments;
    a->status = ring_reduce_scatter(a->s, a->data, a->count);
}

static void call_all_gather(void *arguments) {
    sum_call *a = arguments;
    a->status = ring_all_gather(a->s, a->data, a->count);
}

static void call_cost(void *arguments) {
    lab_cost_call *a = arguments;
    a->cost = ring_cost(a->ranks, a->rank, &a->array);
}

static void call_time(void *arguments) {
    lab_time_call *a = arguments;
    a->time = ring_time(a->ranks, a->bytes, &a->model);
}

static void call_halving(void *arguments) {
    sum_call *a = arguments;
    a->status = halving(a->s, &a->fold, a->data, a->count, &a->has);
}

static void call_doubling(void *arguments) {
    sum_call *a = arguments;
    a->status = doubling(a->s, &a->fold, a->data, a->count, a->has);
}

#else

gs_status ring_reduce_scatter(gs_sync *s, float *data, size_t count) {
    sum_call a = {.s = s, .data = data, .count = count};
    lab_remote(RING_REDUCE_SCATTER, &a);
    return a.status;
}

gs_status ring_all_gather(gs_sync *s, float *data, size_t count) {
    sum_call a = {.s = s, .data = data, .count = count};
    lab_remote(RING_ALL_GATHER, &a);
    return a.status;
}

gs_sync_cost ring_cost(int ranks, int rank, const gs_sync_array *array) {
    lab_cost_call a = {ranks, rank, *array, {0}};
    lab_remote(RING_COST, &a);
    return a.cost;
}

double ring_time(int ranks, double bytes, const gs_sync_model *m) {
    lab_time_call a = {ranks, bytes, *m, 0};
    lab_remote(RING_TIME, &a);
    return a.time;
}

gs_status halving(gs_sync *s, const gs_fold *f, float *data, size_t count, chunks *has) {
    sum_call a = {s, *f, data, count, *has, GS_OK};
    lab_remote(HALVING, &a);
    *has = a.has;
    return a.status;
}

gs_status doubling(gs_sync *s, const gs_fold *f, float *data, size_t count, chunks has) {
    sum_call a = {s, *f, data, count, has, GS_OK};
    lab_remote(DOUBLING, &a);
    return a.status;
}
#endif

const lab_function lab_functions[] = {
    {sizeof(sum_call), pass_sum, LAB_THEIRS(call_reduce_scatter)},
    {sizeof(sum_call), pass_sum, LAB_THEIRS(call_all_gather)},
    {sizeof(lab_cost_call), lab_pass_cost, LAB_THEIRS(call_cost)},
    {sizeof(lab_time_call), lab_pass_time, LAB_THEIRS(call_time)},
    {sizeof(sum_call), pass_sum, LAB_THEIRS(call_halving)},
    {sizeof(sum_call), pass_sum, LAB_THEIRS(call_doubling)},
    {0},
};
