#include "tests/support/scheme_checks.h"

#include <math.h>
#include <stdlib.h>

static gs_status no_memory(void) {
    return gs_fail(GS_E_MEMORY, "no memory to check a scheme");
}

/* ---- sums ---- */

static float number(int rank, size_t i) {
    return sinf((float)(i % 1009) + 0.37f * (float)rank) * (float)(1 + i % 13);
}

/* Checks that data[i] is the sum of number(r, i), up to rounding. */
static gs_status check_sum(const gs_comm *c, const char *scheme, const float *data, size_t count) {
    for (size_t i = 0; i < count; i++) {
        double sum = 0, size = 0;
        for (int r = 0; r < c->size; r++) {
            sum += number(r, i);
            size += fabsf(number(r, i));
        }
        RANK_CHECK(fabs(data[i] - sum) <= 1e-6 * size, "%s: sum %zu of %zu is %.9g, wanted %.9g", scheme, i,
                   count, data[i], sum);
    }
    return GS_OK;
}

/* Checks that data has the same bits on every rank. */
static gs_status check_same(gs_comm *c, const char *scheme, const float *data, float *other, size_t count) {
    size_t bytes = count * sizeof *data;
    if (count == 0) return GS_OK;
    memcpy(other, data, bytes);
    GS_TRY(gs_comm_broadcast(c, other, count, GS_F32, 0));
    RANK_CHECK(memcmp(data, other, bytes) == 0, "%s: other bits than on rank 0", scheme);
    return GS_OK;
}

/* Sums integers, which is exact in floats: every order of additions gives the same sum. */
static gs_status check_exact(gs_sync *s, float *x, size_t count) {
    int ranks = s->comm->size;
    for (size_t i = 0; i < count; i++) x[i] = (float)(i % 1000 * 16) + (float)s->comm->rank;
    GS_TRY(gs_sync_run(s, x, count));
    for (size_t i = 0; i < count; i++) {
        float wanted = (float)ranks * (float)(i % 1000 * 16) + (float)(ranks * (ranks - 1) / 2);
        RANK_CHECK(x[i] == wanted, "%s: sum %zu of %zu is %g, wanted %g", s->scheme->name, i, count, x[i],
                   wanted);
    }
    return GS_OK;
}

static gs_status sums(gs_sync *s, float *x, float *other) {
    static const size_t counts[] = {0, 1, 7, 1000, 1003, GS_CHECK_MOST};
    gs_comm *c = s->comm;
    for (size_t n = 0; n < sizeof counts / sizeof *counts; n++) {
        size_t count = counts[n];
        GS_TRY(check_exact(s, x, count));
        for (size_t i = 0; i < count; i++) x[i] = number(c->rank, i);
        x[count] = 4711; /* a guard value after the end */
        GS_TRY(gs_sync_run(s, x, count));
        RANK_CHECK(x[count] == 4711, "%s of %zu writes behind the end", s->scheme->name, count);
        GS_TRY(check_sum(c, s->scheme->name, x, count));
        GS_TRY(check_same(c, s->scheme->name, x, other, count));
    }
    return GS_OK;
}

gs_status gs_check_scheme_sums(gs_sync *s, float *last) {
    float *x = malloc((GS_CHECK_MOST + 1) * sizeof *x), *other = malloc(GS_CHECK_MOST * sizeof *x);
    gs_status status = x && other ? sums(s, x, other) : no_memory();
    if (status == GS_OK && last) memcpy(last, x, GS_CHECK_MOST * sizeof *x);
    free(x);
    free(other);
    return status;
}

/* ---- rounds, messages and bytes ---- */

/* What an observer saw, to check that the counts match the formula and equal what it saw. */
typedef struct watched {
    size_t messages, bytes;
    int rounds, last_round;
} watched;

static void see_message(void *context, const gs_sync_message *m) {
    watched *w = context;
    w->messages++;
    w->bytes += m->count * sizeof(float);
    w->last_round = m->round;
}

static void see_round(void *context, int rank, int round, const float *data, size_t count) {
    (void)rank, (void)data, (void)count;
    watched *w = context;
    if (round == w->rounds + 1) w->rounds++;
}

static gs_status check_count(gs_sync *s, float *x, size_t count) {
    const char *name = s->scheme->name;
    gs_sync_cost wanted;
    *(watched *)s->observer->context = (watched){0};
    GS_TRY(gs_sync_run(s, x, count));
    const watched seen = *(const watched *)s->observer->context;
    gs_sync_cost got = s->counted;
    RANK_CHECK(
        gs_sync_cost_of(s->scheme, s->comm->size, s->comm->rank, (gs_sync_array){.count = count}, &wanted),
        "%s has no formula", name);
    RANK_CHECK(got.rounds == wanted.rounds && got.messages == wanted.messages && got.bytes == wanted.bytes,
               "%s of %zu on rank %d of %d: %zu rounds, %zu messages, %zu bytes; formula %zu, %zu, %zu", name,
               count, s->comm->rank, s->comm->size, got.rounds, got.messages, got.bytes, wanted.rounds,
               wanted.messages, wanted.bytes);
    RANK_CHECK(seen.messages == got.messages && seen.bytes == got.bytes && seen.rounds == (int)got.rounds &&
                   seen.last_round <= seen.rounds,
               "%s of %zu: an observer saw %d rounds, %zu messages, %zu bytes", name, count, seen.rounds,
               seen.messages, seen.bytes);
    return GS_OK;
}

gs_status gs_check_scheme_counts(gs_sync *s) {
    static const size_t counts[] = {0, 1, 7, 8, 1000, 1003};
    watched seen;
    const gs_sync_observer observer = {&seen, see_message, see_round, NULL};
    float *x = calloc(1003, sizeof *x);
    gs_status status = x ? GS_OK : no_memory();
    s->observer = &observer; /* cppcheck-suppress autoVariables ; cleared again below */
    for (size_t n = 0; status == GS_OK && n < sizeof counts / sizeof *counts; n++)
        status = check_count(s, x, counts[n]);
    s->observer = NULL;
    free(x);
    return status;
}
