/* 20.2: checks sums, rounds, and bytes between hosts. */
#include "check.h"

#include <stdlib.h>

typedef struct sum_case {
    int hosts, each;
    size_t count;
} sum_case;

/* What a rank has sent: floats to other hosts, messages in this round, and the most in any round. */
typedef struct watch {
    int each, round;
    size_t floats, in_round, most;
} watch;

static void see(void *context, const gs_sync_message *m) {
    watch *w = context;
    w->in_round = m->round == w->round ? w->in_round + 1 : 1;
    w->round = m->round;
    if (w->in_round > w->most) w->most = w->in_round;
    if (m->from / w->each != m->to / w->each) w->floats += m->count;
}

static int each_now; /* of the current case */

static gs_status run_theirs(gs_sync *s, float *data, size_t count) {
    return hierarchical_sum(s, each_now, data, count);
}

static const gs_sync_scheme theirs = {.name = "hierarchical", .what = "yours", .sum = run_theirs};

/* Whole and small, so that every order of additions gives the same sum. */
static float value(int rank, size_t i) {
    return (float)lab_pick(VALUES_ROW + (unsigned)rank, i, 2000) - 1000;
}

static gs_status check_data(const gs_comm *c, const sum_case *k, const float *data) {
    for (size_t i = 0; i < k->count; i++) {
        float sum = 0;
        for (int r = 0; r < c->size; r++) sum += value(r, i);
        LAB_CHECK(data[i] == sum,
                  "%d host%s of %d, %zu floats: element %zu must be the sum of all ranks, %g; got %g",
                  k->hosts, gs_s((unsigned)k->hosts), k->each, k->count, i, (double)sum, (double)data[i]);
    }
    return GS_OK;
}

/* Each chunk may be one float larger than an equal part. */
static gs_status check_traffic(gs_comm *c, const sum_case *k, size_t rounds, size_t messages,
                               const watch *w) {
    char text[60];
    snprintf(text, sizeof text, "%d host%s of %d", k->hosts, gs_s((unsigned)k->hosts), k->each);
    const size_t most_rounds = 2 * ((size_t)k->each - 1) + 2 * ((size_t)k->hosts - 1);
    const float H = (float)k->hosts, most = 2 * (H - 1) * ((float)k->count / H + (float)k->each);
    float of_host[LAB_RANKS] = {0};
    int worst = 0;
    of_host[c->rank / k->each] = (float)w->floats;
    GS_TRY(gs_comm_all_reduce(c, of_host, (size_t)k->hosts, GS_F32, GS_SUM));
    for (int h = 1; h < k->hosts; h++)
        if (of_host[h] > of_host[worst]) worst = h;
    if (c->rank == 0) lab_measure("floats sent by the busiest host", (size_t)of_host[worst]);
    LAB_CHECK_HINT(messages <= rounds, "gs_sync_round begins a round; the group functions call it.",
                   "%s: a rank sends at most one message in a round, but sent %zu in %zu round%s", text,
                   messages, rounds, gs_s((unsigned)rounds));
    LAB_CHECK_HINT(w->most <= 1, "call gs_sync_round before each message, not once before all of them.",
                   "%s: a rank sends at most one message in a round, but sent %zu", text, w->most);
    LAB_CHECK_HINT(rounds <= most_rounds, "which rounds can two groups share?",
                   "%s: at most %zu rounds, got %zu", text, most_rounds, rounds);
    LAB_CHECK_HINT(
        of_host[worst] <= most, "how much of the array must a rank still sum when its host has summed?",
        "%s, %zu floats: each host may send out %.0f floats (and one more per message), but host "
        "%d sends %.0f",
        text, k->count, (double)(2 * (H - 1) * (float)k->count / H), worst, (double)of_host[worst]);
    return GS_OK;
}

static gs_status run_case(gs_comm *c, void *context) {
    const sum_case *k = context;
    watch w = {.each = k->each};
    const gs_sync_observer observer = {.context = &w, .message = see};
    gs_sync *s;
    float *data = malloc(k->count * sizeof *data);
    if (!data) return gs_fail(GS_E_MEMORY, "no memory for %zu floats", k->count);
    for (size_t i = 0; i < k->count; i++) data[i] = value(c->rank, i);
    gs_status status = gs_sync_create(&theirs, c, k->count, &s);
    if (status == GS_OK) {
        s->observer = &observer;
        status = gs_sync_run(s, data, k->count);
        if (status != GS_OK)
            status = gs_context(status, "%d hosts of %d, %zu floats", k->hosts, k->each, k->count);
        if (status == GS_OK) status = lab_meet(c); /* the first rank with a wrong sum reports it */
        if (status == GS_OK) status = check_data(c, k, data);
        if (status == GS_OK) status = lab_meet(c);
        if (status == GS_OK) status = check_traffic(c, k, s->counted.rounds, s->counted.messages, &w);
        gs_sync_free(s);
    }
    free(data);
    return status;
}

static gs_status check_case(sum_case k) {
    each_now = k.each;
    return lab_run_ranks(k.hosts * k.each, run_case, &k);
}

gs_status check_sum(void) {
    static const sum_case few[] = {{2, 1, 4},  {1, 2, 4},   {2, 2, 8},   {2, 2, 9},   {3, 2, 12},
                                   {2, 3, 31}, {4, 2, 100}, {2, 4, 100}, {3, 4, 500}, {2, 4, 3}};
    for (size_t i = 0; i < sizeof few / sizeof *few; i++) GS_TRY(check_case(few[i]));
    sum_case two = {2, 2, 8}; /* four rounds with one message sent and one received */
    each_now = two.each;
    for (int works = 0; works < 8; works++) GS_TRY(lab_run_broken(4, works, run_case, &two));
    for (size_t i = 0; i < 6; i++) {
        const int each = 1 + (int)lab_pick(COUNTS_ROW, 3 * i, 5), most = 12 / each,
                  hosts = 1 + (int)lab_pick(COUNTS_ROW, 3 * i + 1, (size_t)most);
        GS_TRY(check_case(
            (sum_case){hosts + (hosts * each == 1), each, 1 + lab_pick(COUNTS_ROW, 3 * i + 2, 3000)}));
    }
    return GS_OK;
}
