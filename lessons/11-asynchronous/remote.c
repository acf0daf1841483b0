/* How the calls of lab 11 travel. */
#include "tasks.h"

#include "remote/remote.h"

enum { MAY_GO_ON, APPLY, EPOCH, STEP_ALONE, UPDATE };

/* ---- the server's book ---- */

typedef struct clocks_call {
    gs_clocks clocks;
    int rank; /* of MAY_GO_ON */
    const int *ranks;
    int n; /* of APPLY */
    bool may;
} clocks_call;

/* The largest staleness, plus 1: each other worker does 2 K + 1 steps meanwhile. */
static size_t counts_of(const gs_clocks *c) {
    return (size_t)(c->workers - 1) * (2 * c->bound + 1) + 1;
}

static void pass_clocks(lab_wire *w, void *arguments) {
    clocks_call *a = arguments;
    gs_clocks *c = &a->clocks;
    LAB_VALUES(w, c->workers, c->bound, c->steps);
    LAB_IN(w, c->clock, (size_t)c->workers);
    LAB_IN(w, c->read, (size_t)c->workers);
    LAB_VALUE(w, c->applied);
    LAB_RESULT(w, c->applied);
    LAB_INOUT(w, c->count, counts_of(c));
    LAB_VALUES(w, a->rank, a->n);
    LAB_IN(w, a->ranks, (size_t)a->n);
    LAB_RESULT(w, a->may);
}

typedef struct epoch_call {
    epoch epoch;
    double *done, over;
} epoch_call;

static void pass_epoch(lab_wire *w, void *arguments) {
    epoch_call *a = arguments;
    LAB_VALUES(w, a->epoch.workers, a->epoch.bound, a->epoch.steps);
    LAB_IN(w, a->epoch.takes, (size_t)a->epoch.workers * a->epoch.steps);
    LAB_INOUT(w, a->done, (size_t)a->epoch.workers * a->epoch.steps);
    LAB_RESULT(w, a->over);
}

/* ---- local SGD ---- */

typedef struct step_call {
    gs_comm *comm;
    int every;
    uint64_t step;
    way since;
    size_t mine, all;
    bool meet;
    gs_status status;
} step_call;

static void pass_step(lab_wire *w, void *arguments) {
    step_call *a = arguments;
    lab_pass_comm(w, &a->comm);
    LAB_VALUES(w, a->every, a->step, a->since, a->mine, a->all, a->meet);
    LAB_RESULT(w, a->since);
    LAB_RESULT(w, a->meet);
    lab_status(w, &a->status);
}

/* gs_optimizer_update, with the optimiser of the worker whose step runs. */
typedef struct update_call {
    double samples;
    gs_status status;
} update_call;

static void pass_update(lab_wire *w, void *arguments) {
    update_call *a = arguments;
    LAB_VALUE(w, a->samples);
    lab_status(w, &a->status);
}

#ifdef LAB_HAND_IN

LAB_CALLER(call_may_go_on, clocks_call, a->may = gs_clocks_may_go_on(&a->clocks, a->rank))
LAB_CALLER(call_apply, clocks_call, gs_clocks_apply(&a->clocks, a->ranks, a->n))
LAB_CALLER(call_epoch, epoch_call, a->over = epoch_takes(&a->epoch, a->done))

/* A worker with the fields that step_alone may read. */
static void call_step(void *arguments) {
    step_call *a = arguments;
    gs_optimizer optimizer = {0};
    const gs_settings settings = {.every = a->every};
    gs_worker w = {.settings = &settings, .comm = a->comm, .optimizer = &optimizer, .step = a->step};
    w.micro_batch.part = a->mine;
    w.micro_batch.batch = a->all;
    a->status = step_alone(&w, &a->since, a->mine, a->all, &a->meet);
}

gs_status gs_optimizer_update(gs_optimizer *o, double samples) {
    update_call a = {samples, GS_OK};
    (void)o;
    lab_remote(UPDATE, &a);
    return a.status;
}

/* As in given.c. */
size_t gs_clocks_slowest(const gs_clocks *c) {
    size_t slowest = c->clock[0];
    for (int r = 1; r < c->workers; r++)
        if (c->clock[r] < slowest) slowest = c->clock[r];
    return slowest;
}

#else

bool gs_clocks_may_go_on(const gs_clocks *c, int rank) {
    LAB_ASK(MAY_GO_ON, clocks_call, may, .clocks = *c, .rank = rank);
}

void gs_clocks_apply(gs_clocks *c, const int *ranks, int n) {
    clocks_call a = {.clocks = *c, .ranks = ranks, .n = n};
    lab_remote(APPLY, &a);
    c->applied = a.clocks.applied;
}

double epoch_takes(const epoch *e, double *done) {
    LAB_ASK(EPOCH, epoch_call, over, *e, done, 0);
}

static _Thread_local gs_optimizer *optimizer; /* each worker is a thread */

gs_status step_alone(gs_worker *w, way *since, size_t mine, size_t all, bool *meet) {
    /* *meet begins as true, so that a function that never sets it fails */
    step_call a = {w->comm, w->settings->every, w->step, *since, mine, all, true, GS_OK};
    optimizer = w->optimizer;
    lab_remote(STEP_ALONE, &a);
    optimizer = NULL;
    *since = a.since;
    *meet = a.meet;
    return a.status;
}

static void call_update(void *arguments) {
    update_call *a = arguments;
    if (!optimizer)
        a->status = gs_fail(GS_E_USAGE, "gs_optimizer_update: called outside of step_alone");
    else if (!(a->samples > 0))
        a->status = gs_fail(GS_E_USAGE, "gs_optimizer_update: %g samples; wanted more than 0", a->samples);
    else
        a->status = gs_optimizer_update(optimizer, a->samples);
}
#endif

const lab_function lab_functions[] = {
    {sizeof(clocks_call), pass_clocks, LAB_THEIRS(call_may_go_on)},
    {sizeof(clocks_call), pass_clocks, LAB_THEIRS(call_apply)},
    {sizeof(epoch_call), pass_epoch, LAB_THEIRS(call_epoch)},
    {sizeof(step_call), pass_step, LAB_THEIRS(call_step)},
    {sizeof(update_call), pass_update, LAB_OURS(call_update)},
    {0},
};
