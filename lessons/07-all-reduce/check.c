/* Each half of an all-reduce is checked separately (lab_half.h), so that a wrong 7.1 costs only its own points. */
#include "tasks.h"

#include "lab_half.h"

/* ---- the chunk that each rank owns between the halves, and the messages until then ---- */

static gs_chunk ring_owns(int ranks, int rank, size_t count) {
    return gs_chunk_of(count, ranks, rank + 1);
}

/* The chunk that halving leaves to a rank. */
static int halved_to(int ranks, int rank) {
    int first = 0;
    for (int bit = 1, n = ranks / 2; n > 0; bit *= 2, n /= 2)
        if (rank & bit) first += n;
    return first;
}

static gs_chunk halving_owns(int ranks, int rank, size_t count) {
    return gs_chunk_of(count, ranks, halved_to(ranks, rank));
}

/* A ring's half sends all chunks except one: in the first half the one that the rank ends with, in the second the
 * next. */
static gs_sync_cost ring_half(int ranks, int not_sent, const gs_sync_array *a) {
    gs_sync_cost cost = {.rounds = (size_t)ranks - 1};
    for (int i = 1; i < ranks; i++) gs_sync_cost_add(&cost, a, gs_chunk_of(a->count, ranks, not_sent + i));
    return cost;
}

static gs_sync_cost ring_first_cost(int ranks, int rank, const gs_sync_array *a) {
    return ring_half(ranks, rank + 1, a);
}

static gs_sync_cost ring_second_cost(int ranks, int rank, const gs_sync_array *a) {
    return ring_half(ranks, rank + 2, a);
}

/* A rank sends back at each distance what it kept there. */
static gs_sync_cost halving_cost(int ranks, int rank, const gs_sync_array *a, bool kept) {
    gs_sync_cost cost = {0};
    int first = 0, n = ranks;
    for (int bit = 1; bit < ranks; bit *= 2) {
        n /= 2;
        int keep = rank & bit ? first + n : first, give = rank & bit ? first : first + n;
        int from = kept ? keep : give;
        gs_sync_cost_add(&cost, a, gs_chunk_range(a->count, ranks, from, from + n));
        cost.rounds++;
        first = keep;
    }
    return cost;
}

static gs_sync_cost halving_first_cost(int ranks, int rank, const gs_sync_array *a) {
    return halving_cost(ranks, rank, a, false);
}

static gs_sync_cost halving_second_cost(int ranks, int rank, const gs_sync_array *a) {
    return halving_cost(ranks, rank, a, true);
}

/* ---- the student's halves, as schemes call them ---- */

static gs_status call_halving(gs_sync *s, float *data, size_t count) {
    gs_fold f = gs_fold_of(s->comm->size, s->comm->rank);
    chunks has = {0, f.places};
    GS_TRY(halving(s, &f, data, count, &has));
    gs_chunk got = gs_chunk_range(count, f.places, has.first, has.last);
    gs_chunk wanted = halving_owns(f.places, f.place, count);
    LAB_CHECK(got.first == wanted.first && got.count == wanted.count,
              "place %d of %d ends with *has = {%d, %d}, %zu of %zu element%s from %zu on; expected %zu from "
              "%zu on",
              f.place, f.places, has.first, has.last, got.count, count, gs_s(count), got.first, wanted.count,
              wanted.first);
    return GS_OK;
}

static gs_status call_doubling(gs_sync *s, float *data, size_t count) {
    gs_fold f = gs_fold_of(s->comm->size, s->comm->rank);
    const int first = halved_to(f.places, f.place);
    return doubling(s, &f, data, count, (chunks){first, first + 1});
}

LAB_CHECK_HALF(check_reduce_scatter, LAB_FIRST, false, ring_reduce_scatter, ring_owns, ring_first_cost);
LAB_CHECK_HALF(check_all_gather, LAB_SECOND, false, ring_all_gather, ring_owns, ring_second_cost);
LAB_CHECK_HALF(check_halving, LAB_FIRST, true, call_halving, halving_owns, halving_first_cost);
LAB_CHECK_HALF(check_doubling, LAB_SECOND, true, call_doubling, halving_owns, halving_second_cost);

static gs_status check_formulas(void) {
    GS_TRY(lab_check_cost(ring_cost, &gs_sync_ring));
    return lab_check_time(ring_time, &gs_sync_ring);
}

const char *const lab_may_call[] = {"gs_chunk_of",      "gs_chunk_range",
                                    "gs_sync_round",    "gs_sync_send",
                                    "gs_sync_recv",     "gs_sync_recv_to",
                                    "gs_sync_recv_add", "gs_sync_cost_add",
                                    "gs_fold_rank",     "gs_fold_of",
                                    "gs_shard_of",      "gs_fail",
                                    "gs_context",       NULL};

const lab_task lab_tasks[] = {
    {"7.1", "reduce-scatter around the ring", 3, check_reduce_scatter,
     "draw the table of the README for 3 ranks, and write into each cell whose gradients it holds after each "
     "round."},
    {"7.2", "all-gather around the ring", 2, check_all_gather,
     "which chunk is complete here before the first round? Send that one first; what arrives is copied, not "
     "added."},
    {"7.3", "what the ring costs: rounds, messages, bytes, time", 2, check_formulas,
     "`build/gradsum step --sync ring --workers 3 --size 4` shows each message. Chunks differ in size."},
    {"7.4", "halving: reduce-scatter with partners", 2, check_halving,
     "4 ranks: which ranks meet at distance 1, and which at distance 2? Which half does each of them keep?"},
    {"7.5", "doubling: all-gather with partners", 1, check_doubling,
     "start with the largest distance. Each round doubles the number of chunks; `has` must record it."},
    {0},
};
