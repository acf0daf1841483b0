/* Groups of a comm's ranks as comms of their own, over every transport (comm/split.h). */
#include "tests/support/ranks.h"

#include <stdatomic.h>
#include <unistd.h>
#include "comm/split.h"

static const gs_test_layout layouts[] = {{"2 threads", 0, {2}},
                                         {"6 threads", 0, {6}},
                                         {"4 processes", 4, {1, 1, 1, 1}},
                                         {"processes of 1 and 3 threads", 2, {1, 3}}};
enum { LAYOUTS = sizeof layouts / sizeof *layouts };

static void everywhere(gs_test_body body, void *context) {
    for (int i = 0; i < LAYOUTS; i++) {
        gs_test_ranks_ok(&layouts[i], body, context);
        gs_test_ranks_checked_ok(&layouts[i], body, context);
    }
}

static gs_status check_place(const gs_comm *c, const gs_comm *part, int rank, int size, int first,
                             int apart) {
    int wrong = 0;
    for (int r = 0; r < part->size; r++) wrong += gs_comm_rank_in_parent(part, r) != first + r * apart;
    if (part->size == size && part->rank == rank && !wrong && gs_comm_reported_rank(part) == c->rank)
        return GS_OK;
    return gs_fail(GS_E_USAGE, "rank %d of %d is rank %d of %d, wanted %d of %d; %d wrong", c->rank, c->size,
                   part->rank, part->size, rank, size, wrong);
}

static gs_status every_second(gs_comm *c, void *context) {
    (void)context;
    gs_comm *part;
    const int odd = c->rank % 2, size = (c->size + 1 - odd) / 2;
    GS_TRY(gs_comm_split(c, odd, 2, size, &part));
    gs_status status = check_place(c, part, c->rank / 2, size, odd, 2);
    gs_comm_free(part);
    return status;
}

/* The group of all ranks except rank 1, in reverse order. */
static gs_status places(gs_comm *c, void *context) {
    (void)context;
    gs_comm *part;
    int ranks[GS_TEST_RANKS], size = 0;
    for (int r = c->size - 1; r >= 0; r--)
        if (r != 1) ranks[size++] = r;
    GS_TRY(gs_comm_split_ranks(c, ranks, size, &part));
    RANK_CHECK((c->rank == 1) == !part, "rank 1 is in the group, or rank %d is not", c->rank);
    gs_status status = GS_OK;
    for (int r = 0; part && r < size; r++)
        if (gs_comm_rank_in_parent(part, r) != ranks[r] || ranks[part->rank] != c->rank)
            status = gs_fail(GS_E_USAGE, "rank %d is %d in the parent", r, gs_comm_rank_in_parent(part, r));
    gs_comm_free(part);
    return status;
}

TEST(ranks_are_ordered_as_asked) {
    everywhere(every_second, NULL);
    everywhere(places, NULL);
}

/* ---- collectives ---- */

typedef struct on_part {
    const gs_test_check *check;
    int which;
} on_part;

/* Runs collectives on the rows or columns of a grid, or on part of a row. */
static gs_status on_parts(gs_comm *c, void *context) {
    const on_part *o = context;
    gs_comm *part[3] = {NULL};
    const int columns = c->size % 2 ? c->size : c->size / 2;
    const int row = c->rank / columns, column = c->rank % columns, odd = column % 2;
    gs_status status = gs_comm_split(c, row * columns, 1, columns, &part[0]);
    if (status == GS_OK)
        status = gs_comm_split(c, c->size - columns + column, -columns, c->size / columns, &part[1]);
    if (status == GS_OK) status = gs_comm_split(part[0], odd, 2, (columns + 1 - odd) / 2, &part[2]);
    if (status == GS_OK) status = o->check->body(part[o->which], &gs_test_few);
    for (int i = 2; i >= 0; i--) gs_comm_free(part[i]);
    return status;
}

TEST(every_collective_is_right) {
    for (const gs_test_check *check = gs_test_collective_checks; check->name; check++)
        for (int i = 0; i < LAYOUTS; i++) {
            for (int which = 0; which < 3; which++)
                gs_test_ranks_ok(&layouts[i], on_parts, &(on_part){check, which});
            if (i < 2) gs_test_ranks_checked_ok(&layouts[i], on_parts, &(on_part){check, 2});
        }
}

/* ---- several comms between the same ranks ---- */

/* Two groups of all ranks, in opposite orders, and the parent run sums and an all-gather amid messages in flight. */
static gs_status mixed(gs_comm *c, void *context) {
    (void)context;
    gs_comm *up, *down;
    const int n = c->size, next = (c->rank + 1) % n, last = (c->rank + n - 1) % n;
    GS_TRY(gs_comm_split(c, 0, 1, n, &up));
    gs_status status = gs_comm_split(c, n - 1, -1, n, &down);
    for (int i = 0; i < 50 && status == GS_OK; i++) {
        float all[GS_TEST_RANKS] = {0}, x = (float)(i + c->rank), y[2] = {1, x}, z = 2 * x;
        int sent[2] = {100 * c->rank + i, 200 * c->rank + i}, got[2] = {0, 0};
        status = gs_comm_send(up, &sent[0], sizeof sent[0], next);
        if (status == GS_OK) status = gs_comm_send(down, &sent[1], sizeof sent[1], n - 1 - next);
        if (status == GS_OK) status = gs_comm_all_reduce(up, &x, 1, GS_F32, GS_SUM);
        if (status == GS_OK) status = gs_comm_all_reduce(down, y, 2, GS_F32, GS_MAX);
        if (status == GS_OK) status = gs_comm_all_gather(c, &z, all, 1, GS_F32);
        for (int r = 1; r < n; r++) all[0] += all[r];
        if (status == GS_OK) status = gs_comm_recv(up, &got[0], sizeof got[0], last);
        if (status == GS_OK) status = gs_comm_recv(down, &got[1], sizeof got[1], n - 1 - last);
        const float sum = (float)(n * i + n * (n - 1) / 2);
        if (status == GS_OK && (x != sum || y[1] != (float)(i + n - 1) || all[0] != 2 * sum ||
                                got[0] != 100 * last + i || got[1] != 200 * last + i))
            status = gs_fail(GS_E_USAGE, "step %d: %g %g %g %d %d", i, (double)x, (double)y[1],
                             (double)all[0], got[0], got[1]);
    }
    gs_comm_free(up);
    if (status == GS_OK) gs_comm_free(down);
    return status;
}

TEST(comms_do_not_disturb_each_other) {
    everywhere(mixed, NULL);
    /* in this layout, rank 1 and process 1 send to different processes */
    gs_test_ranks_ok_over("shm", &(gs_test_layout){"3 processes of 2 threads", 3, {2, 2, 2}}, mixed, NULL);
    gs_test_link = &(gs_link){20e-6, 0};
    gs_test_ranks_ok(&layouts[1], mixed, NULL);
    gs_test_link = NULL;
}

/* ---- failures ---- */

static gs_status pair_of(gs_comm *c, gs_comm **pair) {
    return gs_comm_split(c, c->rank / 2 * 2, 1, 2, pair);
}

/* Rank 1 of the group of ranks 2 and 3 gives up: the message on every rank names it as rank 3, as in the parent. */
static gs_status gives_up(gs_comm *c, void *context) {
    (void)context;
    gs_comm *half;
    float x = 1;
    GS_TRY(pair_of(c, &half));
    if (c->rank == 3) {
        gs_comm_abort(half, "enough");
        gs_comm_free(half);
        return GS_OK;
    }
    gs_status status = c->rank == 2 ? gs_comm_all_reduce(half, &x, 1, GS_F32, GS_SUM) : gs_comm_barrier(c);
    gs_comm_free(half);
    RANK_CHECK(status == GS_E_PEER, "it ends with %s", gs_status_name(status));
    RANK_CHECK(strstr(gs_message(), "rank 3: enough") != NULL, "%s", gs_message());
    return GS_OK;
}

TEST(a_failure_names_the_rank_of_the_parent) {
    for (int i = 1; i < LAYOUTS; i++) { /* all layouts that have a rank 3 */
        gs_test_ranks_ok(&layouts[i], gives_up, NULL);
        gs_test_ranks_checked_ok(&layouts[i], gives_up, NULL);
    }
}

/* Rank 2 waits for rank 3 (rank 1 in the group), which does not arrive. No rank leaves before this wait has ended. */
static gs_status does_not_come(gs_comm *c, void *context) {
    atomic_bool *ended = context;
    gs_comm *half;
    float x = 1;
    GS_TRY(pair_of(c, &half));
    if (c->rank == 2) {
        c->timeout = half->timeout = 0.3;
        gs_status status = gs_comm_all_reduce(half, &x, 1, GS_F32, GS_SUM);
        atomic_store(ended, true);
        gs_comm_free(half);
        RANK_CHECK(status == GS_E_PEER, "it ends with %s", gs_status_name(status));
        RANK_CHECK(strstr(gs_message(), "rank 2: ") && strstr(gs_message(), "rank 3"), "%s", gs_message());
        return GS_OK;
    }
    gs_comm_free(half);
    while (!atomic_load(ended)) usleep(1000);
    return GS_OK;
}

TEST(a_timeout_names_the_ranks_of_the_parent) {
    for (int t = 0; t < 2; t++) {
        atomic_bool ended = false;
        gs_test_ranks_ok_over(t ? "shm" : "gloo", &layouts[2], does_not_come, &ended);
    }
}
