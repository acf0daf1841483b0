/* Each half of an all-reduce is checked by itself: what the other half would do is done here by collectives of the
 * transport. So a wrong 7.1 costs the points of 7.1 only.
 *
 * First small arrays in which each rank has 2^rank: then a wrong sum says whose gradients are in it. After that the
 * project's own tests of schemes (tests/scheme_checks.h), with rounds, messages and bytes.
 */
#include "tasks.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tests/scheme_checks.h"

/* ---- who has which chunk between the halves, and what has been sent until then ---- */

static gs_chunk ring_owns(int ranks, int rank, size_t count) {
    return gs_chunk_of(count, ranks, rank + 1);
}

static gs_chunk halving_owns(int ranks, int rank, size_t count) {
    int first = 0, n = ranks;
    for (int bit = 1; bit < ranks; bit *= 2) {
        n /= 2;
        if (rank & bit) first += n;
    }
    return gs_chunk_range(count, ranks, first, first + n);
}

/* All chunks but the one that a rank ends with; in the second half of a ring, all but the next one. */
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

/* What is kept at each distance is what is sent at that distance on the way back. */
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
              "place %d of %d ends with *has = {%d, %d}: elements %zu to %zu of %zu; expected those from "
              "%zu, and %zu of "
              "them",
              f.place, f.places, has.first, has.last, got.first, got.first + got.count, count, wanted.first,
              wanted.count);
    return GS_OK;
}

static gs_status call_doubling(gs_sync *s, float *data, size_t count) {
    gs_fold f = gs_fold_of(s->comm->size, s->comm->rank);
    int first = 0, n = f.places;
    for (int bit = 1; bit < f.places; bit *= 2) {
        n /= 2;
        if (f.place & bit) first += n;
    }
    return doubling(s, &f, data, count, (chunks){first, first + 1});
}

typedef struct half {
    bool second;
    bool powers_of_two; /* only such numbers of ranks */
    gs_status (*run)(gs_sync *, float *data, size_t count);
    gs_chunk (*owns)(int ranks, int rank, size_t count);
    gs_sync_cost (*cost)(int ranks, int rank, const gs_sync_array *);
} half;

static const half reduce_scatter_of_ring = {false, false, ring_reduce_scatter, ring_owns, ring_first_cost};
static const half all_gather_of_ring = {true, false, ring_all_gather, ring_owns, ring_second_cost};
static const half halving_half = {false, true, call_halving, halving_owns, halving_first_cost};
static const half doubling_half = {true, true, call_doubling, halving_owns, halving_second_cost};

static const half *now; /* the half that this process checks */

/* Both halves, as a scheme: the student's and the transport's. */
static gs_status whole_sum(gs_sync *s, float *data, size_t count) {
    gs_comm *c = s->comm;
    if (!now->second) GS_TRY(now->run(s, data, count));
    for (int r = 0; r < c->size; r++) {
        gs_chunk part = now->owns(c->size, r, count);
        if (now->second)
            GS_TRY(c->ops->reduce(c, data + part.first, part.count, GS_F32, GS_SUM, r));
        else
            GS_TRY(c->ops->broadcast(c, data + part.first, part.count, GS_F32, r));
    }
    return now->second ? now->run(s, data, count) : GS_OK;
}

/* ---- small arrays of 2^rank ---- */

/* "1+4": the ranks whose 2^rank are in a sum, as their numbers. */
static const char *ranks_in(float value, int ranks) {
    static _Thread_local char text[4][64];
    static _Thread_local int next;
    char *t = text[next++ % 4];
    *t = '\0';
    if (value != truncf(value) || value < 0 || value >= (float)(1 << ranks)) {
        snprintf(t, sizeof *text, "%g, which is no sum of different ranks", value);
        return t;
    }
    for (int r = 0; r < ranks; r++)
        if ((int)value >> r & 1) snprintf(t + strlen(t), sizeof *text - strlen(t), "%s%d", *t ? "+" : "", r);
    return *t ? t : "nothing";
}

static gs_status check_small(const gs_comm *c, size_t count, gs_chunk part, const float *data) {
    float all = (float)((1 << c->size) - 1);
    for (size_t i = part.first; i < part.first + part.count; i++)
        LAB_CHECK(data[i] == all,
                  "%d ranks, %zu floats: element %zu, in chunk %zu to %zu, must be the sum of ranks %s; "
                  "got that of %s",
                  c->size, count, i, part.first, part.first + part.count - 1, ranks_in(all, c->size),
                  ranks_in(data[i], c->size));
    return GS_OK;
}

static gs_status check_small_cost(const gs_sync *s, size_t count) {
    const gs_sync_array a = {.count = count};
    const gs_sync_cost got = s->counted, wanted = now->cost(s->comm->size, s->comm->rank, &a);
    LAB_CHECK(got.rounds == wanted.rounds && got.messages == wanted.messages && got.bytes == wanted.bytes,
              "%d ranks, %zu floats: expected %zu rounds, %zu messages and %zu bytes; got %zu, %zu and %zu",
              s->comm->size, count, wanted.rounds, wanted.messages, wanted.bytes, got.rounds, got.messages,
              got.bytes);
    return GS_OK;
}

/* `count` floats: each 2^rank; before a second half, those of the own chunk are whole. */
static gs_status run_small(gs_comm *c, void *context) {
    const size_t count = *(const size_t *)context;
    const gs_sync_scheme scheme = {.name = "half", .sum = now->run};
    gs_chunk all = {0, count}, own = now->owns(c->size, c->rank, count);
    float *data = malloc(count * sizeof *data);
    gs_sync *s;
    if (!data) return gs_fail(GS_E_MEMORY, "no memory for %zu floats", count);
    for (size_t i = 0; i < count; i++) {
        bool whole = now->second && i >= own.first && i < own.first + own.count;
        data[i] = (float)(whole ? (1 << c->size) - 1 : 1 << c->rank);
    }
    gs_status status = gs_sync_create(&scheme, c, count, &s);
    if (status == GS_OK) {
        status = gs_sync_run(s, data, count);
        if (status != GS_OK) status = gs_context(status, "%d ranks, %zu floats", c->size, count);
        if (status == GS_OK) status = check_small(c, count, now->second ? all : own, data);
        if (status == GS_OK) status = check_small_cost(s, count);
        gs_sync_free(s);
    }
    free(data);
    return status;
}

/* ---- the project's tests ---- */

static gs_status run_large(gs_comm *c, void *context) {
    (void)context;
    const gs_sync_scheme scheme = {.name = "yours", .sum = whole_sum, .cost = now->cost};
    gs_sync *s;
    GS_TRY(gs_sync_create(&scheme, c, GS_CHECK_MOST, &s));
    gs_status status = gs_check_scheme_sums(s, NULL);
    if (status == GS_OK) status = gs_check_scheme_counts(s);
    gs_sync_free(s);
    return status == GS_OK ? GS_OK : gs_context(status, "%d ranks", c->size);
}

static gs_status check_half(const half *h) {
    now = h;
    for (int ranks = 2; ranks <= 8; ranks += h->powers_of_two ? ranks : 1)
        for (int per = 1; per <= 2; per++) { /* a chunk has one element, then two, then some have one more */
            size_t count = (size_t)(ranks * per), ragged = count + 1;
            GS_TRY(lab_run_ranks(ranks, run_small, &count));
            GS_TRY(lab_run_ranks(ranks, run_small, &ragged));
        }
    for (int ranks = 2; ranks <= 8; ranks += h->powers_of_two ? ranks : 3)
        GS_TRY(lab_run_ranks(ranks, run_large, NULL));
    return GS_OK;
}

static gs_status check_reduce_scatter(void) {
    return check_half(&reduce_scatter_of_ring);
}

static gs_status check_all_gather(void) {
    return check_half(&all_gather_of_ring);
}

static gs_status check_halving(void) {
    return check_half(&halving_half);
}

static gs_status check_doubling(void) {
    return check_half(&doubling_half);
}

/* ---- formulas ---- */

static gs_status check_cost(int ranks, size_t count) {
    const gs_sync_array a = {.count = count};
    for (int rank = 0; rank < ranks; rank++) {
        gs_sync_cost got = ring_cost(ranks, rank, &a), wanted = gs_sync_ring.cost(ranks, rank, &a);
        LAB_CHECK(got.rounds == wanted.rounds && got.messages == wanted.messages && got.bytes == wanted.bytes,
                  "rank %d of %d, %zu floats: a ring counts %zu rounds, %zu messages, %zu bytes; the formula "
                  "says %zu, "
                  "%zu, %zu",
                  rank, ranks, count, wanted.rounds, wanted.messages, wanted.bytes, got.rounds, got.messages,
                  got.bytes);
    }
    return GS_OK;
}

static gs_status check_formulas(void) {
    const gs_sync_model m = {.alpha = 10, .beta = 0.5, .gamma = 0.125};
    for (int ranks = 2; ranks <= 9; ranks++) GS_TRY(check_cost(ranks, (size_t)ranks * 2));
    for (int ranks = 2; ranks <= 9; ranks++)
        for (size_t count = 1; count < 30; count++) GS_TRY(check_cost(ranks, count));
    for (int ranks = 2; ranks <= 9; ranks++) {
        double bytes = 64 * ranks, got = ring_time(ranks, bytes, &m);
        double wanted = (ranks - 1) * (2 * (10 + 0.5 * 64) + 0.125 * 64);
        LAB_CHECK(fabs(got - wanted) < 1e-9,
                  "%d ranks, %g bytes, alpha 10, beta 0.5, gamma 0.125: expected the time %g, got %g", ranks,
                  bytes, wanted, got);
    }
    return GS_OK;
}

const lab_task lab_tasks[] = {
    {"7.1", "reduce-scatter around the ring", 3, check_reduce_scatter,
     "draw the table of the README for 3 ranks, and write into each cell whose gradients are in it after "
     "each round."},
    {"7.2", "all-gather around the ring", 2, check_all_gather,
     "which chunk is whole here before the first round? That one goes first; what comes in is copied, not "
     "added."},
    {"7.3", "what the ring costs: rounds, messages, bytes, time", 2, check_formulas,
     "`gradsum step --sync ring --workers 3 --size 4` shows each message. Chunks are not all of one size."},
    {"7.4", "halving: reduce-scatter with partners", 2, check_halving,
     "4 ranks: who meets whom at distance 1, and who at distance 2? Which half does each of them want?"},
    {"7.5", "doubling: all-gather with partners", 1, check_doubling,
     "begin with the largest distance. After each round you have twice as many chunks, and *has* must say "
     "so."},
    {0},
};
