#include "lab_half.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tests/support/scheme_checks.h"

static const lab_half *now; /* the half that this process is checking */

/* Both halves as one scheme: one is the student's, the other the transport's. */
static gs_status whole_sum(gs_sync *s, float *data, size_t count) {
    gs_comm *c = s->comm;
    if (now->kind != LAB_SECOND) GS_TRY(now->run(s, data, count));
    for (int r = 0; r < c->size && now->kind != LAB_WHOLE; r++) {
        gs_chunk part = now->owns(c->size, r, count);
        if (now->kind == LAB_SECOND)
            GS_TRY(gs_comm_reduce(c, data + part.first, part.count, GS_F32, GS_SUM, r));
        else
            GS_TRY(gs_comm_broadcast(c, data + part.first, part.count, GS_F32, r));
    }
    return now->kind == LAB_SECOND ? now->run(s, data, count) : GS_OK;
}

/* ---- small arrays of 2^rank ---- */

/* "1+4": the ranks r whose 2^r are contained in a sum. */
static const char *ranks_in(float value, int ranks) {
    static _Thread_local char text[4][64];
    static _Thread_local int next;
    char *t = text[next++ % 4];
    *t = '\0';
    if (value != truncf(value) || value < 0 || value >= (float)(1 << ranks)) {
        snprintf(t, sizeof *text, "%g, which is not a sum of different ranks", value);
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
                  "%d ranks, %zu float%s: element %zu, of the chunk of elements %zu to %zu, must be the sum "
                  "of ranks %s; "
                  "got that of %s",
                  c->size, count, gs_s(count), i, part.first, part.first + part.count - 1,
                  ranks_in(all, c->size), ranks_in(data[i], c->size));
    return GS_OK;
}

static gs_status check_small_cost(const gs_sync *s, size_t count) {
    const gs_sync_array a = {.count = count};
    const gs_sync_cost got = s->counted, wanted = now->cost(s->comm->size, s->comm->rank, &a);
    LAB_CHECK(
        got.rounds == wanted.rounds && got.messages == wanted.messages && got.bytes == wanted.bytes,
        "%d ranks, %zu float%s: expected %zu round%s, %zu message%s and %zu byte%s; got %zu, %zu and %zu",
        s->comm->size, count, gs_s(count), wanted.rounds, gs_s(wanted.rounds), wanted.messages,
        gs_s(wanted.messages), wanted.bytes, gs_s(wanted.bytes), got.rounds, got.messages, got.bytes);
    return GS_OK;
}

/* `count` floats, each of them 2^rank; before a second half, each rank's own chunk is already complete. */
static gs_status run_small(gs_comm *c, void *context) {
    const size_t count = *(const size_t *)context;
    const gs_sync_scheme scheme = {.name = "half", .sum = now->run};
    gs_chunk all = {0, count}, own = now->kind == LAB_WHOLE ? all : now->owns(c->size, c->rank, count);
    float *data = malloc(count * sizeof *data);
    gs_sync *s;
    if (!data) return gs_fail(GS_E_MEMORY, "no memory for %zu floats", count);
    for (size_t i = 0; i < count; i++) {
        bool whole = now->kind == LAB_SECOND && i >= own.first && i < own.first + own.count;
        data[i] = (float)(whole ? (1 << c->size) - 1 : 1 << c->rank);
    }
    gs_status status = gs_sync_create(&scheme, c, count, &s);
    if (status == GS_OK) {
        status = gs_sync_run(s, data, count);
        if (status != GS_OK)
            status = gs_context(status, "%d ranks, %zu float%s", c->size, count, gs_s(count));
        if (status == GS_OK) status = lab_meet(c); /* lets the first rank with a wrong sum report it */
        if (status == GS_OK) status = check_small(c, count, now->kind == LAB_SECOND ? all : own, data);
        if (status == GS_OK) status = check_small_cost(s, count);
        gs_sync_free(s);
    }
    free(data);
    return status;
}

/* ---- values and counts that depend on the seed ---- */

enum { COUNTS_ROW, RANKS_ROW, MODEL_ROW, VALUES_ROW /* followed by one row per rank */ };

/* Small integers, whose sum does not depend on the order of the additions. */
static float drawn(int rank, size_t i) {
    return (float)lab_pick(VALUES_ROW + (unsigned)rank, i, 2000) - 1000;
}

static float drawn_sum(int ranks, size_t i) {
    float sum = 0;
    for (int r = 0; r < ranks; r++) sum += drawn(r, i);
    return sum;
}

static gs_status check_drawn(gs_sync *s, float *data, size_t count) {
    const gs_comm *c = s->comm;
    gs_chunk all = {0, count}, own = now->kind == LAB_WHOLE ? all : now->owns(c->size, c->rank, count);
    for (size_t i = 0; i < count; i++) data[i] = drawn(c->rank, i);
    for (size_t i = own.first; i < own.first + own.count && now->kind == LAB_SECOND; i++)
        data[i] = drawn_sum(c->size, i);
    GS_TRY(gs_sync_run(s, data, count));
    gs_chunk part = now->kind == LAB_SECOND ? all : own;
    for (size_t i = part.first; i < part.first + part.count; i++)
        LAB_CHECK(data[i] == drawn_sum(c->size, i), "element %zu must be the sum of all ranks, %g; got %g", i,
                  drawn_sum(c->size, i), data[i]);
    return check_small_cost(s, count);
}

static gs_status run_drawn(gs_comm *c, void *context) {
    const size_t count = *(const size_t *)context;
    const gs_sync_scheme scheme = {.name = "half", .sum = now->run};
    float *data = malloc(count * sizeof *data);
    gs_sync *s;
    if (!data) return gs_fail(GS_E_MEMORY, "no memory for %zu floats", count);
    gs_status status = gs_sync_create(&scheme, c, count, &s);
    if (status == GS_OK) {
        status = check_drawn(s, data, count);
        gs_sync_free(s);
    }
    free(data);
    return status == GS_OK ? GS_OK : gs_context(status, "%d ranks, %zu float%s", c->size, count, gs_s(count));
}

static gs_status check_drawn_cases(void) {
    for (size_t i = 0; i < 6; i++) {
        size_t count = 1 + lab_pick(COUNTS_ROW, i, i < 3 ? 100 : 3000);
        int ranks = now->powers_of_two ? 2 << lab_pick(RANKS_ROW, i, 3) : 2 + (int)lab_pick(RANKS_ROW, i, 7);
        GS_TRY(lab_run_ranks(ranks, run_drawn, &count));
    }
    return GS_OK;
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

gs_status lab_check_half(const lab_half *h) {
    now = h;
    for (int ranks = 2; ranks <= 8; ranks += h->powers_of_two ? ranks : 1)
        for (int per = 1; per <= 2; per++) { /* chunks of one element, then of two, then some with one more */
            size_t count = (size_t)ranks * (size_t)per, ragged = count + 1;
            GS_TRY(lab_run_ranks(ranks, run_small, &count));
            GS_TRY(lab_run_ranks(ranks, run_small, &ragged));
        }
    GS_TRY(check_drawn_cases());
    for (int ranks = 2; ranks <= 8; ranks += h->powers_of_two ? ranks : 3)
        GS_TRY(lab_run_ranks(ranks, run_large, NULL));
    size_t eight = 8; /* in floats; in each run another call is the first to fail */
    for (int works = 0; works < 8; works++) GS_TRY(lab_run_broken(4, works, run_small, &eight));
    return GS_OK;
}

/* ---- formulas ---- */

static gs_status check_cost(gs_sync_cost (*cost)(int, int, const gs_sync_array *),
                            const gs_sync_scheme *scheme, int ranks, size_t count) {
    const gs_sync_array a = {.count = count};
    for (int rank = 0; rank < ranks; rank++) {
        gs_sync_cost got = cost(ranks, rank, &a), wanted = scheme->cost(ranks, rank, &a);
        const bool floats = got.bytes * sizeof(float) == wanted.bytes && got.rounds == wanted.rounds;
        LAB_CHECK_HINT(
            got.rounds == wanted.rounds && got.messages == wanted.messages && got.bytes == wanted.bytes,
            floats
                ? "cost.bytes counts bytes, and a float has 4 of them; gs_sync_cost_add counts them for you."
                : "",
            "rank %d of %d, %zu float%s: %s counts %zu round%s, %zu message%s, %zu byte%s; your formula "
            "says %zu, %zu, %zu",
            rank, ranks, count, gs_s(count), scheme->name, wanted.rounds, gs_s(wanted.rounds),
            wanted.messages, gs_s(wanted.messages), wanted.bytes, gs_s(wanted.bytes), got.rounds,
            got.messages, got.bytes);
    }
    return GS_OK;
}

gs_status lab_check_cost(gs_sync_cost (*cost)(int, int, const gs_sync_array *),
                         const gs_sync_scheme *wanted) {
    for (int ranks = 2; ranks <= 9; ranks++) GS_TRY(check_cost(cost, wanted, ranks, (size_t)ranks * 2));
    for (int ranks = 2; ranks <= 9; ranks++)
        for (size_t count = 1; count < 30; count++) GS_TRY(check_cost(cost, wanted, ranks, count));
    for (size_t i = 0; i < 30; i++)
        GS_TRY(check_cost(cost, wanted, 2 + (int)lab_pick(RANKS_ROW, i, 8),
                          1 + lab_pick(COUNTS_ROW, i, 100000)));
    return GS_OK;
}

static gs_status check_time(double (*time)(int, double, const gs_sync_model *), const gs_sync_scheme *wanted,
                            int ranks, const gs_sync_model *m) {
    double bytes = 64 * ranks, got = time(ranks, bytes, m), right = wanted->time(ranks, bytes, m);
    LAB_CHECK_HINT(fabs(got - right) < 1e-9 * right,
                   "a message of B bytes takes alpha + beta B, and adding B bytes gamma B. How many rounds "
                   "does one rank send in, "
                   "and in how many does it add? `bytes` are those of the whole array.",
                   "%d ranks, %g bytes, alpha %g, beta %g, gamma %g: expected the time %g, got %g", ranks,
                   bytes, m->alpha, m->beta, m->gamma, right, got);
    return GS_OK;
}

gs_status lab_check_time(double (*time)(int, double, const gs_sync_model *), const gs_sync_scheme *wanted) {
    const gs_sync_model m = {.alpha = 10, .beta = 0.5, .gamma = 0.125};
    const gs_sync_model drawn_model = {.alpha = (double)(1 + lab_pick(MODEL_ROW, 0, 800)) / 8,
                                       .beta = (double)(1 + lab_pick(MODEL_ROW, 1, 80)) / 8,
                                       .gamma = (double)(1 + lab_pick(MODEL_ROW, 2, 80)) / 8};
    for (int ranks = 2; ranks <= 9; ranks++) GS_TRY(check_time(time, wanted, ranks, &m));
    for (int ranks = 2; ranks <= 9; ranks++) GS_TRY(check_time(time, wanted, ranks, &drawn_model));
    return GS_OK;
}
