/* How the calls of lab 6 travel. */
#include "tasks.h"

#include "remote/formulas.h"

enum { COLLECT, GIVE_BACK, SERVER_COST, SERVER_TIME, SHARDED };

/* ---- the functions that sum ---- */

typedef struct sum_call {
    gs_sync *s;
    float *data;
    size_t count;
    gs_status status;
} sum_call;

static void pass_sum(lab_wire *w, void *arguments) {
    sum_call *a = arguments;
    lab_pass_sync(w, &a->s);
    LAB_VALUE(w, a->count);
    LAB_INOUT(w, a->data, a->count);
    lab_status(w, &a->status);
}

#ifdef LAB_HAND_IN

LAB_CALLER(call_collect, sum_call, a->status = collect(a->s, a->data, a->count))
LAB_CALLER(call_give_back, sum_call, a->status = give_back(a->s, a->data, a->count))
LAB_CALLER(call_cost, lab_cost_call, a->cost = server_cost(a->ranks, a->rank, &a->array))
LAB_CALLER(call_time, lab_time_call, a->time = server_time(a->ranks, a->bytes, &a->model))
LAB_CALLER(call_sharded, sum_call, a->status = sharded(a->s, a->data, a->count))

#else

static gs_status ask(int index, gs_sync *s, float *data, size_t count) {
    LAB_ASK(index, sum_call, status, s, data, count, GS_OK);
}

gs_status collect(gs_sync *s, float *data, size_t count) {
    return ask(COLLECT, s, data, count);
}

gs_status give_back(gs_sync *s, float *data, size_t count) {
    return ask(GIVE_BACK, s, data, count);
}

gs_sync_cost server_cost(int ranks, int rank, const gs_sync_array *array) {
    LAB_ASK(SERVER_COST, lab_cost_call, cost, ranks, rank, *array, {0});
}

double server_time(int ranks, double bytes, const gs_sync_model *m) {
    LAB_ASK(SERVER_TIME, lab_time_call, time, ranks, bytes, *m, 0);
}

gs_status sharded(gs_sync *s, float *data, size_t count) {
    return ask(SHARDED, s, data, count);
}
#endif

const lab_function lab_functions[] = {
    {sizeof(sum_call), pass_sum, LAB_THEIRS(call_collect)},
    {sizeof(sum_call), pass_sum, LAB_THEIRS(call_give_back)},
    {sizeof(lab_cost_call), lab_pass_cost, LAB_THEIRS(call_cost)},
    {sizeof(lab_time_call), lab_pass_time, LAB_THEIRS(call_time)},
    {sizeof(sum_call), pass_sum, LAB_THEIRS(call_sharded)},
    {0},
};
