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
    LAB_VALUES(w, a->fold, a->count);
    LAB_INOUT(w, a->data, a->count);
    LAB_VALUE(w, a->has);
    LAB_RESULT(w, a->has);
    lab_status(w, &a->status);
}

#ifdef LAB_HAND_IN

LAB_CALLER(call_reduce_scatter, sum_call, a->status = ring_reduce_scatter(a->s, a->data, a->count))
LAB_CALLER(call_all_gather, sum_call, a->status = ring_all_gather(a->s, a->data, a->count))
LAB_CALLER(call_cost, lab_cost_call, a->cost = ring_cost(a->ranks, a->rank, &a->array))
LAB_CALLER(call_time, lab_time_call, a->time = ring_time(a->ranks, a->bytes, &a->model))
LAB_CALLER(call_halving, sum_call, a->status = halving(a->s, &a->fold, a->data, a->count, &a->has))
LAB_CALLER(call_doubling, sum_call, a->status = doubling(a->s, &a->fold, a->data, a->count, a->has))

#else

gs_status ring_reduce_scatter(gs_sync *s, float *data, size_t count) {
    LAB_ASK(RING_REDUCE_SCATTER, sum_call, status, .s = s, .data = data, .count = count);
}

gs_status ring_all_gather(gs_sync *s, float *data, size_t count) {
    LAB_ASK(RING_ALL_GATHER, sum_call, status, .s = s, .data = data, .count = count);
}

gs_sync_cost ring_cost(int ranks, int rank, const gs_sync_array *array) {
    LAB_ASK(RING_COST, lab_cost_call, cost, ranks, rank, *array, {0});
}

double ring_time(int ranks, double bytes, const gs_sync_model *m) {
    LAB_ASK(RING_TIME, lab_time_call, time, ranks, bytes, *m, 0);
}

gs_status halving(gs_sync *s, const gs_fold *f, float *data, size_t count, chunks *has) {
    sum_call a = {s, *f, data, count, *has, GS_OK};
    lab_remote(HALVING, &a);
    *has = a.has;
    return a.status;
}

gs_status doubling(gs_sync *s, const gs_fold *f, float *data, size_t count, chunks has) {
    LAB_ASK(DOUBLING, sum_call, status, s, *f, data, count, has, GS_OK);
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
