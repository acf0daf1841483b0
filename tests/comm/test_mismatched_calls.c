/* In checking mode, mismatched calls are an error on every rank, and the message names both sides. */
#include "tests/support/program.h"
#include "tests/support/ranks.h"

static const gs_test_layout layouts[] = {{"2 threads", 0, {2}},
                                         {"3 processes", 3, {1, 1, 1}},
                                         {"2 processes of 2 threads", 2, {2, 2}},
                                         {"processes of 1 and 3 threads", 2, {1, 3}}};
enum { LAYOUTS = sizeof layouts / sizeof *layouts, MOST = 10 };

typedef struct mismatch {
    gs_call all, one; /* the call of all ranks except rank 1, and that of rank 1 */
    const char *message;
} mismatch;

static const mismatch mismatches[] = {
    {{GS_ALL_REDUCE, 8, GS_F32, GS_SUM, 0},
     {GS_BROADCAST, 7, GS_F32, 0, 0},
     "rank 1 calls broadcast of 7 f32, rank 0 all_reduce of 8 f32, call 12"},
    {{GS_ALL_REDUCE, 8, GS_F32, GS_SUM, 0},
     {GS_ALL_REDUCE, 9, GS_F32, GS_SUM, 0},
     "rank 1 calls all_reduce of 9 f32, rank 0 all_reduce of 8 f32, call 12"},
    {{GS_ALL_GATHER, 8, GS_F32, 0, 0},
     {GS_ALL_GATHER, 8, GS_I32, 0, 0},
     "rank 1 calls all_gather of 8 i32, rank 0 all_gather of 8 f32, call 12"},
    {{GS_REDUCE, 8, GS_F64, GS_SUM, 0},
     {GS_REDUCE, 8, GS_F64, GS_MAX, 0},
     "rank 1 calls reduce of 8 f64 (max) to rank 0, rank 0 reduce of 8 f64 (sum) to rank 0, call 12"},
    {{GS_BROADCAST, 8, GS_U8, 0, 0},
     {GS_BROADCAST, 8, GS_U8, 0, 1},
     "rank 1 calls broadcast of 8 u8 from rank 1, rank 0 broadcast of 8 u8 from rank 0, call 12"},
    {{GS_ALL_TO_ALL, 0, GS_I64, 0, 0},
     {.operation = GS_BARRIER},
     "rank 1 calls barrier, rank 0 all_to_all of 0 i64, call 12"},
};

/* Makes eleven matching calls, then a mismatched one, after which every call fails. */
static gs_status call_something_else(gs_comm *c, void *context) {
    const mismatch *m = context;
    char in[MOST * 8 * GS_TEST_RANKS] = {0}, out[MOST * 8 * GS_TEST_RANKS] = {0};
    const gs_call *mine = c->rank == 1 ? &m->one : &m->all;
    for (int i = 0; i < 11; i++) GS_TRY(gs_call_run(c, &(gs_call){GS_ALL_REDUCE, 3, GS_F32, 0, 0}, in, out));
    for (int i = 0; i < 2; i++) {
        RANK_CHECK(gs_call_run(c, mine, in, out) == GS_E_USAGE, "the call succeeded");
        RANK_CHECK(strcmp(gs_message(), m->message) == 0, "wanted '%s', got '%s'", m->message, gs_message());
    }
    RANK_CHECK(gs_comm_send(c, in, 4, c->rank ? 0 : 1) == GS_E_USAGE, "a message was sent");
    return GS_OK;
}

TEST(every_rank_names_both_sides) {
    for (int i = 0; i < LAYOUTS; i++)
        for (size_t m = 0; m < sizeof mismatches / sizeof *mismatches; m++)
            gs_test_ranks_checked_ok(&layouts[i], call_something_else, (void *)&mismatches[m]);
}

TEST(two_messages_may_be_under_way) {
    for (int i = 0; i < LAYOUTS; i++)
        gs_test_ranks_checked_ok(&layouts[i], gs_test_messages_of_all_lengths, NULL);
}

/* A failure inside a call is reported once, and names the interrupted call. */
static gs_status one_aborts(gs_comm *c, void *context) {
    (void)context;
    float x = 1;
    if (c->rank == 1) {
        gs_comm_abort(c, "the disk is full");
        return GS_OK;
    }
    RANK_CHECK(gs_comm_all_reduce(c, &x, 1, GS_F32, GS_SUM) == GS_E_PEER, "all_reduce succeeded");
    const char *first = gs_test_format("%s", gs_message());
    RANK_CHECK(strcmp(first, "before all_reduce of 1 f32, call 1: rank 1: the disk is full") == 0, "%s",
               first);
    RANK_CHECK(gs_comm_barrier(c) == GS_E_PEER && strcmp(gs_message(), first) == 0, "then %s", gs_message());
    return GS_OK;
}

TEST(failures_pass_through) {
    for (int i = 0; i < LAYOUTS; i++) gs_test_ranks_checked_ok(&layouts[i], one_aborts, NULL);
}

/* Fails like a timeout, whose message reports the calls of other ranks. */
static gs_status tell_of_others(gs_comm *c, const gs_call *call, const void *in, void *out) {
    (void)c, (void)in, (void)out;
    const gs_call other = {GS_RECV, 400, GS_U8, 0, 1};
    const char *mine = gs_call_text(call, false), *its = gs_call_text(&other, false);
    return gs_fail(GS_E_PEER, "%s; rank 1 last began %s", mine, its);
}

TEST(a_failure_names_the_call_that_it_stopped) {
    gs_comm *inner, *c;
    float x = 1;
    assert_ok(gs_comm_threads_create(1, 1, &inner));
    const gs_transport *own = inner->ops;
    gs_transport ops = *own;
    ops.collective = tell_of_others;
    inner->ops = &ops;
    assert_ok(gs_comm_checked_create(inner, &c));
    assert_fails(GS_E_PEER,
                 "before all_reduce of 1 f32, call 1: all_gather of 2 i64; "
                 "rank 1 last began recv of 400 bytes from rank 1",
                 gs_comm_all_reduce(c, &x, 1, GS_F32, GS_SUM));
    inner->ops = own;
    gs_comm_free(c);
}

TEST(the_environment_turns_it_on) {
    gs_comm *c;
    const char *set = getenv("GRADSUM_CHECK");
    const char *before = gs_test_format("%s", set ? set : "");
    assert_ok(gs_comm_threads_create(1, 1, &c));
    const gs_comm *plain = c;
    setenv("GRADSUM_CHECK", "0", 1);
    assert_ok(gs_comm_check_if_wanted(1, &c));
    assert_ptr_equal(c, plain);
    setenv("GRADSUM_CHECK", "yes", 1);
    assert_fails(GS_E_USAGE, "GRADSUM_CHECK is 'yes'", gs_comm_check_if_wanted(1, &c));
    setenv("GRADSUM_CHECK", "1", 1);
    assert_ok(gs_comm_check_if_wanted(1, &c));
    assert_ptr_not_equal(c, plain);
    assert_string_equal(c->ops->name, "threads");
    gs_comm_free(c);
    setenv("GRADSUM_CHECK", before, 1);
    char *output = gs_test_shell_output(2, "GRADSUM_CHECK=maybe %s/gradsum train --model softmax --steps 1",
                                        GS_BUILD_DIR);
    assert_has(output, "GRADSUM_CHECK is 'maybe'; it must be 1");
}

/* If only some processes check calls, these would wait for notices forever; instead, all end at once and say why. */
TEST(all_processes_check_or_none) {
    static const char *const cases[][3] = {
        {"1", "0", "process 1 and process 0 differ in GRADSUM_CHECK (none versus 1)"},
        {"", "1", "process 1 and process 0 differ in GRADSUM_CHECK (1 versus none)"},
        {"1", "maybe", "process 1 and process 0 differ in GRADSUM_CHECK (maybe versus 1)"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int local = 1; local <= 2; local++)
            assert_shell_prints(2, cases[i][2],
                                "export GRADSUM_WORLD_SIZE=2 GRADSUM_TIMEOUT=200 GRADSUM_RENDEZVOUS=%s; "
                                "G='%s/gradsum train --model softmax --steps 3 --threads 1 --devices %s'; "
                                "GRADSUM_CHECK=%s GRADSUM_RANK=0 $G & GRADSUM_CHECK=%s GRADSUM_RANK=1 $G; "
                                "S=$?; wait $! && exit 0; [ $? = $S ] && exit $S",
                                gs_test_folder(), GS_BUILD_DIR, local == 1 ? "cpu" : "cpu,cpu", cases[i][0],
                                cases[i][1]);
}
