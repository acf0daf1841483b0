/* How the calls of a scheme's formulas travel (labs 6 and 7): what a rank sends, and how long a sum takes. */
#pragma once

#include "remote/remote.h"
#include "sync/scheme.h"

typedef struct lab_cost_call {
    int ranks, rank;
    gs_sync_array array;
    gs_sync_cost cost;
} lab_cost_call;

static inline void lab_pass_cost(lab_wire *w, void *arguments) {
    lab_cost_call *a = arguments;
    LAB_VALUES(w, a->ranks, a->rank, a->array);
    LAB_RESULT(w, a->cost);
}

typedef struct lab_time_call {
    int ranks;
    double bytes;
    gs_sync_model model;
    double time;
} lab_time_call;

static inline void lab_pass_time(lab_wire *w, void *arguments) {
    lab_time_call *a = arguments;
    LAB_VALUES(w, a->ranks, a->bytes, a->model);
    LAB_RESULT(w, a->time);
}
