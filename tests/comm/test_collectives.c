/* Every collective, over every transport, with every type and reduction: compares each result bit for bit. */
#include "tests/support/devices.h"
#include "tests/support/program.h"
#include "tests/support/ranks.h"

#include <math.h>

#include "cli/cli.h"
#include "comm/call_check.h"
#include "comm/device.h"

static const gs_test_layout layouts[] = {
    /* one layout of each kind, for tests where no others are needed */
    {"3 threads", 0, {3}},
    {"2 processes", 2, {1, 1}},
    {"processes of 3, 1 and 2 threads", 3, {3, 1, 2}},
    /* further layouts */
    {"1 thread", 0, {1}},
    {"4 threads", 0, {4}},
    {"3 processes", 3, {1, 1, 1}},
    {"4 processes", 4, {1, 1, 1, 1}},
    {"1 process of 3 threads", 1, {3}},
    {"2 processes of 2 threads", 2, {2, 2}},
};
enum { LAYOUTS = sizeof layouts / sizeof *layouts, KINDS = 3, MOST = 100003 };

/* No elements, fewer elements than ranks, and counts that are not divisible by all of 2, 3 and 4. */
enum { MANY = 1000 };
static const size_t counts[] = {0, 1, 7, MANY};
enum { COUNTS = sizeof counts / sizeof *counts };

static gs_status run_one(gs_comm *c, const gs_call *call, unsigned char *in, unsigned char *out) {
    gs_call_fill(call, c->rank, c->size, in, out);
    GS_TRY(gs_call_run(c, call, in, out));
    return gs_call_verify(call, c->rank, c->size, in, out);
}

/* Runs a collective with all its types and reductions; the root varies with the count. */
static gs_status run_all(gs_comm *c, gs_operation operation, size_t count, bool pairs, unsigned char *in,
                         unsigned char *out) {
    gs_call call = {.operation = operation, .count = count, .root = (int)(count % (size_t)c->size)};
    const bool reduces =
        operation == GS_ALL_REDUCE || operation == GS_REDUCE || operation == GS_REDUCE_SCATTER;
    int reductions = reduces ? GS_REDUCTIONS : 1;
    for (int type = 0; type < GS_TYPES; type++) {
        for (int reduction = 0; reduction < reductions; reduction++) {
            /* all pairs only with the largest count: the type does not affect how arrays are divided */
            if ((!pairs || count != MANY) && type != GS_F32 && reduction > 0) continue;
            call.type = (gs_type)type;
            call.reduction = (gs_reduction)reduction;
            if (gs_operation_has_root(operation)) call.root = (call.root + 1) % c->size;
            GS_TRY(run_one(c, &call, in, out));
        }
    }
    return GS_OK;
}

char gs_test_few;

static gs_status collectives(gs_comm *c, void *context) {
    const bool pairs = context != &gs_test_few && !gs_test_small();
    size_t bytes = MOST * 8 * (size_t)c->size;
    unsigned char *in = gs_test_scratch(bytes), *out = gs_test_scratch(bytes);
    for (int o = GS_BROADCAST; o <= GS_ALL_TO_ALL; o++) {
        for (int n = 0; n < COUNTS; n++) GS_TRY(run_all(c, (gs_operation)o, counts[n], pairs, in, out));
        gs_call big = {(gs_operation)o, MOST, GS_F32, GS_SUM, 0}; /* more than Gloo sends at once */
        if (!gs_test_small() || o == GS_ALL_REDUCE) GS_TRY(run_one(c, &big, in, out));
    }
    return GS_OK;
}

TEST(every_collective_is_right_to_the_bit) {
    for (int i = 0; i < LAYOUTS; i++)
        gs_test_ranks_ok(&layouts[i], collectives, i < KINDS ? NULL : &gs_test_few);
}

/* Runs as if two of three processes shared a machine. */
TEST(collectives_between_machines_are_right) {
    for (int i = 0; i < LAYOUTS; i++)
        if (layouts[i].processes == 3) gs_test_ranks_ok_over("two-level", &layouts[i], collectives, NULL);
}

/* Tests the cases in which comm.h allows a rank's part to lie inside the whole array. */
static gs_status parts_in_place(gs_comm *c, void *context) {
    (void)context;
    enum { N = 1001 };
    int32_t *all = gs_test_scratch(N * (size_t)c->size * sizeof *all), *mine = all + (size_t)c->rank * N;
    int32_t *other = gs_test_scratch(N * ((size_t)c->size + 1) * sizeof *all);
    gs_call call = {GS_ALL_GATHER, N, GS_I32, 0, 0};
    gs_call_fill(&call, c->rank, c->size, mine, other);
    memcpy(other, mine, N * sizeof *all);
    GS_TRY(gs_comm_all_gather(c, mine, all, N, GS_I32));
    GS_TRY(gs_call_verify(&call, c->rank, c->size, other, all));

    call = (gs_call){GS_GATHER, N, GS_I32, 0, c->size - 1};
    gs_call_fill(&call, c->rank, c->size, other, all);
    memcpy(mine, other, N * sizeof *all);
    GS_TRY(gs_comm_gather(c, mine, all, N, GS_I32, c->size - 1));
    GS_TRY(gs_call_verify(&call, c->rank, c->size, other, all));

    call = (gs_call){GS_SCATTER, N, GS_I32, 0, 0};
    gs_call_fill(&call, c->rank, c->size, all, other);
    GS_TRY(gs_comm_scatter(c, all, mine, N, GS_I32, 0));
    gs_call_bytes bytes = gs_call_bytes_of(&call, c->rank, c->size);
    gs_call_fill(&call, c->rank, c->size, other, other + bytes.in / sizeof *other);
    GS_TRY(gs_call_verify(&call, c->rank, c->size, c->rank == 0 ? all : other, mine));

    call = (gs_call){GS_REDUCE_SCATTER, N, GS_I32, GS_SUM, 0};
    gs_shard part = gs_shard_of(N, c->rank, c->size);
    int32_t *mine_of_all = all + part.first;
    gs_call_fill(&call, c->rank, c->size, all, other);
    memcpy(other, all, N * sizeof *all);
    GS_TRY(gs_comm_reduce_scatter(c, all, mine_of_all, N, GS_I32, GS_SUM));
    return gs_call_verify(&call, c->rank, c->size, other, mine_of_all);
}

TEST(a_part_may_lie_in_the_whole) {
    for (int i = 0; i < KINDS; i++) gs_test_ranks_ok(&layouts[i], parts_in_place, NULL);
}

/* A message may stay pending while collectives run, including collectives that are made of messages. */
static gs_status messages_and_collectives(gs_comm *c, void *context) {
    (void)context;
    unsigned char *in = gs_test_scratch(4096 * (size_t)c->size),
                  *out = gs_test_scratch(4096 * (size_t)c->size);
    int to = (c->rank + 1) % c->size, from = (c->rank + c->size - 1) % c->size;
    gs_call send = {GS_SEND, 100, GS_F32, 0, to}, recv = {GS_RECV, 100, GS_F32, 0, from};
    for (int k = 0; k < 2 && c->size > 1; k++) {
        gs_call_fill(&send, c->rank, c->size, in, out);
        GS_TRY(gs_call_run(c, &send, in, out));
    }
    for (int o = GS_BROADCAST; o <= GS_BARRIER; o++)
        GS_TRY(run_one(c, &(gs_call){(gs_operation)o, 100, GS_F32, GS_SUM, 0}, in, out));
    for (int k = 0; k < 2 && c->size > 1; k++) {
        gs_call_fill(&recv, c->rank, c->size, in, out);
        GS_TRY(gs_call_run(c, &recv, in, out));
        GS_TRY(gs_call_verify(&recv, c->rank, c->size, in, out));
    }
    return GS_OK;
}

TEST(messages_do_not_meet_collectives) {
    for (int i = 0; i < KINDS; i++) {
        gs_test_ranks_ok(&layouts[i], messages_and_collectives, NULL);
        gs_test_ranks_checked_ok(&layouts[i], messages_and_collectives, NULL);
    }
}

/* ---- device memory ---- */

static gs_status run_on_device(gs_comm *c, gs_device *d, const gs_call *call) {
    gs_call_bytes bytes = gs_call_bytes_of(call, c->rank, c->size);
    unsigned char *host_in = gs_test_malloc(bytes.in + 1), *host_out = gs_test_malloc(bytes.out + 1);
    gs_mem in, out = GS_NONE;
    gs_status status = host_in && host_out ? GS_OK : gs_fail(GS_E_MEMORY, "no memory for a test");
    if (status == GS_OK) gs_call_fill(call, c->rank, c->size, host_in, host_out);
    gs_status made = d->ops->alloc(d, bytes.in, &in);
    if (made == GS_OK) made = d->ops->alloc(d, bytes.out, &out);
    if (status == GS_OK) status = made;
    if (status == GS_OK) status = d->ops->write(d, in, host_in, bytes.in);
    if (status == GS_OK) status = d->ops->write(d, out, host_out, bytes.out);
    if (status == GS_OK) status = gs_call_run_on_device(c, d, call, in, out);
    if (status == GS_OK) status = d->ops->read(d, host_in, in, bytes.in);
    if (status == GS_OK) status = d->ops->read(d, host_out, out, bytes.out);
    if (status == GS_OK) status = gs_call_verify(call, c->rank, c->size, host_in, host_out);
    d->ops->free(d, in);
    d->ops->free(d, out);
    return status;
}

/* Every operation on device memory; rank 0 sends to rank 1. */
static gs_status all_on_device(gs_comm *c, gs_device *d) {
    static const size_t few[] = {0, 1, 7, 1001};
    int type = 0;
    for (size_t n = 0; n < sizeof few / sizeof *few; n++) {
        for (int o = GS_BROADCAST; o <= GS_BARRIER; o++) {
            gs_call call = {(gs_operation)o, few[n], (gs_type)(type++ % GS_TYPES), GS_MAX, c->size - 1};
            if (!gs_operation_has_root((gs_operation)o)) call.root = 0;
            GS_TRY(run_on_device(c, d, &call));
        }
        if (c->rank == 0) GS_TRY(run_on_device(c, d, &(gs_call){GS_SEND, few[n], GS_U8, 0, 1}));
        if (c->rank == 1) GS_TRY(run_on_device(c, d, &(gs_call){GS_RECV, few[n], GS_U8, 0, 0}));
    }
    return GS_OK;
}

/* One rank on the CPU and the others on OpenCL, or all on one kind of device. */
static gs_status on_devices(gs_comm *c, void *context) {
    const char *const *names = context;
    gs_device *d;
    GS_TRY(gs_device_open(names[c->rank % 2], 1, &d));
    gs_status status = all_on_device(c, d);
    gs_device_close(d);
    return status;
}

TEST(every_operation_works_on_devices) {
    const char *only = getenv("GRADSUM_TEST_DEVICES"),
               *second = only && strcmp(only, "cpu") == 0 ? "cpu" : "cl";
    const char *const sets[][2] = {{"cpu", "cpu"}, {second, second}, {"cpu", second}};
    static const gs_test_layout some[] = {
        {"3 threads", 0, {3}}, {"2 processes", 2, {1, 1}}, {"processes of 1 and 3 threads", 2, {1, 3}}};
    for (size_t s = 0; s < sizeof sets / sizeof *sets; s++)
        for (size_t i = 0; i < sizeof some / sizeof *some; i++)
            gs_test_ranks_ok(&some[i], on_devices, (void *)sets[s]);
}

static gs_status by_name(gs_comm *c, void *context) {
    (void)context;
    enum { N = 6 };
    float a[N], b[N], n = (float)c->size;
    int next = (c->rank + 1) % c->size, last = (c->rank + c->size - 1) % c->size;
    for (int i = 0; i < N; i++) a[i] = 1;
    GS_TRY(gs_comm_all_reduce(c, a, N, GS_F32, GS_SUM));        /* a = n */
    GS_TRY(gs_comm_reduce_scatter(c, a, b, N, GS_F32, GS_SUM)); /* the rank's part of b = n n */
    GS_TRY(gs_comm_all_gather(c, b, a, N / 3, GS_F32));         /* a = n n */
    GS_TRY(gs_comm_all_to_all(c, a, b, N / 3, GS_F32));         /* b = n n */
    GS_TRY(gs_comm_send(c, b, sizeof b, next));
    GS_TRY(gs_comm_recv(c, a, sizeof a, last));         /* a = n n */
    GS_TRY(gs_comm_reduce(c, a, N, GS_F32, GS_SUM, 1)); /* a of rank 1 = n^3 */
    GS_TRY(gs_comm_broadcast(c, a, N, GS_F32, 1));      /* a = n^3 */
    GS_TRY(gs_comm_gather(c, a, b, N / 3, GS_F32, 2));
    GS_TRY(gs_comm_scatter(c, b, a + 2, N / 3, GS_F32, 2));
    GS_TRY(gs_comm_barrier(c));
    for (int i = 0; i < N; i++) RANK_CHECK(a[i] == n * n * n, "%d: %g", i, a[i]);
    return GS_OK;
}

TEST(operations_by_name) {
    gs_test_ranks_ok(&(gs_test_layout){"3 threads", 0, {3}}, by_name, NULL);
}

/* ---- NaN ---- */

static gs_status nans(gs_comm *c, void *context) {
    (void)context;
    for (int how = GS_MIN; how <= GS_MAX; how++) {
        for (int bad = 0; bad < c->size; bad++) {
            double x[3] = {c->rank, c->rank == bad ? NAN : c->rank, -1};
            GS_TRY(gs_comm_all_reduce(c, x, 3, GS_F64, (gs_reduction)how));
            RANK_CHECK(x[0] == (how == GS_MIN ? 0 : c->size - 1) && isnan(x[1]) && x[2] == -1,
                       "the NaN of rank %d gave %g %g %g", bad, x[0], x[1], x[2]);
        }
    }
    return GS_OK;
}

TEST(min_and_max_keep_a_nan) {
    for (int i = 0; i < KINDS; i++) gs_test_ranks_ok(&layouts[i], nans, NULL);
}

const gs_test_check gs_test_collective_checks[] = {
    {"collectives", collectives},
    {"parts in place", parts_in_place},
    {"messages and collectives", messages_and_collectives},
    {"NaN", nans},
    {NULL, NULL},
};

/* ---- collectives made of messages, as for a transport without its own ---- */

static gs_status by_messages(gs_comm *c, void *context) {
    gs_transport without = *c->ops;
    gs_comm mine = *c;
    without.collective = NULL;
    mine.ops = &without;
    return ((const gs_test_check *)context)->body(&mine, NULL);
}

TEST(collectives_are_made_of_messages) {
    for (int i = 0; i < KINDS; i++)
        for (const gs_test_check *check = gs_test_collective_checks; check->name; check++)
            gs_test_ranks_ok(&layouts[i], by_messages, (void *)check);
}

/* ---- gradsum collectives ---- */

/* In gradsum-test only, the linker's --wrap redirects calls of the real function to this one. */
static const char *wrong_operation = "";
gs_status __real_gs_call_run(gs_comm *, const gs_call *, const void *, void *);
gs_status __wrap_gs_call_run(gs_comm *, const gs_call *, const void *, void *);
gs_status __wrap_gs_call_run(gs_comm *c, const gs_call *call, const void *in, void *out) {
    GS_TRY(__real_gs_call_run(c, call, in, out));
    if (call->type == GS_F32 && strcmp(gs_operation_name(call->operation), wrong_operation) == 0)
        *(float *)out += 1;
    return GS_OK;
}

int gs_test_wrong_collectives(int argc, char **argv) {
    wrong_operation = argv[0];
    return gs_cmd_collectives(argc, argv);
}

TEST(the_table_is_printed) {
    char *output = gs_test_output(0, "collectives -n 3 --size 1000 --seconds 0");
    for (int o = 0; o < GS_OPERATIONS; o++) assert_has(output, gs_operation_name((gs_operation)o));
    assert_has(output, "All 33 cells are right");
    gs_test_fits(output, 80);
    output = gs_test_output(0, "collectives -n 2 --size 4 --json --seconds 0");
    assert_int_equal(gs_test_count(output, "\"right\":true"), 33);
    /* a single rank has no peer to send to */
    output = gs_test_output(0, "collectives -n 1 --size 64 --json --seconds 0");
    assert_int_equal(gs_test_count(output, "\"right\":true"), 27);
}

TEST(a_wrong_cell_is_told) {
    char *output = gs_test_shell_output(1, "%s/gradsum-test --wrong all_to_all -n 2 --size 64 --seconds 0",
                                        GS_BUILD_DIR);
    assert_int_equal(gs_test_count(output, "WRONG"), 3);
    assert_has(output, "all_to_all of 8 f32: rank 0 has", "3 of 33 cells are wrong");
    assert_null(strstr(output, "are right"));
}

TEST(collectives_wrong_usage) {
    assert_prints(2, "-n: '0' is not a whole number from 1 to 64", "collectives -n 0");
    assert_prints(2, "-n: 'two' is not a whole number from 1 to 64", "collectives -n two");
    assert_prints(2, "-n needs a value: RANKS", "collectives -n");
    assert_prints(2, "--size: '3' is not", "collectives --size 3");
    assert_prints(1, "cannot make a folder in /no/such",
                  "collectives -n 2 --size 4 --seconds 0 2>&1; TMPDIR=/no/such %s/gradsum collectives",
                  GS_BUILD_DIR);
    assert_prints(0, "gradsum collectives -n 4", "collectives --help");
}
