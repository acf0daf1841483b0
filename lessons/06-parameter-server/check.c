/* Each round is checked separately (lab_half.h), so that a wrong 6.1 costs only its own points. */
#include "tasks.h"

#include <string.h>
#include "lab_half.h"

/* Between the rounds rank 0 owns everything, the others nothing. */
static gs_chunk server_owns(int ranks, int rank, size_t count) {
    (void)ranks;
    return (gs_chunk){0, rank == 0 ? count : 0};
}

static gs_sync_cost collect_cost(int ranks, int rank, const gs_sync_array *a) {
    gs_sync_cost cost = {.rounds = 1};
    (void)ranks;
    if (rank > 0) gs_sync_cost_add(&cost, a, (gs_chunk){0, a->count});
    return cost;
}

static gs_sync_cost give_back_cost(int ranks, int rank, const gs_sync_array *a) {
    gs_sync_cost cost = {.rounds = 1};
    for (int worker = 1; rank == 0 && worker < ranks; worker++)
        gs_sync_cost_add(&cost, a, (gs_chunk){0, a->count});
    return cost;
}

static gs_sync_cost sharded_cost(int ranks, int rank, const gs_sync_array *a) {
    return gs_sync_sharded_ps.cost(ranks, rank, a);
}

LAB_CHECK_HALF(check_collected, LAB_FIRST, false, collect, server_owns, collect_cost);
LAB_CHECK_HALF(check_give_back, LAB_SECOND, false, give_back, server_owns, give_back_cost);
LAB_CHECK_HALF(check_sharded, LAB_WHOLE, false, sharded, NULL, sharded_cost);

/* A worker's gradient must not change: the framework may read it. */
static gs_status gradient_stays(gs_comm *c, void *context) {
    float before[3] = {lab_number(0, 0), lab_number(0, 1), (float)c->rank}, x[3];
    const gs_sync_scheme scheme = {.name = "collect", .sum = collect};
    gs_sync *s;
    (void)context;
    GS_TRY(gs_sync_create(&scheme, c, 3, &s));
    memcpy(x, before, sizeof x);
    gs_status status = gs_sync_run(s, x, 3);
    gs_sync_free(s);
    GS_TRY(status);
    LAB_CHECK(c->rank == 0 || memcmp(x, before, sizeof x) == 0,
              "a worker's gradient has changed: it was %s, and is %s", lab_floats(before, 3),
              lab_floats(x, 3));
    return GS_OK;
}

static gs_status check_collect(void) {
    GS_TRY(check_collected());
    return lab_run_ranks(3, gradient_stays, NULL);
}

static gs_status check_formulas(void) {
    GS_TRY(lab_check_cost(server_cost, &gs_sync_ps));
    return lab_check_time(server_time, &gs_sync_ps);
}

const char *const lab_may_call[] = {"gs_chunk_of",  "gs_chunk_range",  "gs_sync_round",    "gs_sync_send",
                                    "gs_sync_recv", "gs_sync_recv_to", "gs_sync_recv_add", "gs_sync_cost_add",
                                    "gs_shard_of",  "gs_fail",         "gs_context",       NULL};

const lab_task lab_tasks[] = {
    {"6.1", "collect: every gradient to rank 0, and their sum", 3, check_collect,
     "which ranks send, and to which rank? Draw the arrows for 3 ranks. What is the sum at the start?"},
    {"6.2", "give back: the sum to every worker", 2, check_give_back,
     "reverse the arrows of 6.1. The sum replaces what a worker holds."},
    {"6.3", "what it costs: rounds, messages, bytes, time", 2, check_formulas,
     "`build/gradsum step --sync ps --workers 3` counts it. Which rank is the slowest, and what does it do "
     "all that time?"},
    {"6.4", "every rank the server of one chunk", 3, check_sharded,
     "3 ranks, chunks a, b, c: write down which chunks rank 1 sends and receives in the first round."},
    {0},
};
