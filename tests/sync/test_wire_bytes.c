/* Bytes sent with 16-bit values: the counts, the formulas, and what reaches the transport. */
#include "tests/support/training.h"
#include "tests/support/ranks.h"

static const gs_wire formats[] = {GS_WIRE_F16, GS_WIRE_BF16};

/* 2 bytes per value, but 4 in the tail, by the textbook formulas, for arrays that divide evenly among the ranks. */
TEST(bytes_are_halved) {
    enum { COUNT = 5040 };
    for (int i = 0; gs_sync_schemes()[i]; i++) {
        const gs_sync_scheme *s = gs_sync_schemes()[i];
        if (!s->cost) continue;
        for (int ranks = 2; ranks <= 9; ranks++)
            for (int r = 0; r < ranks; r++) {
                gs_sync_cost full, half;
                gs_sync_cost_of(s, ranks, r, (gs_sync_array){.count = COUNT}, &full);
                gs_sync_cost_of(s, ranks, r, (gs_sync_array){COUNT, GS_WIRE_BF16, 0}, &half);
                assert_int_equal(full.bytes, 2 * half.bytes);
                assert_int_equal(full.messages, half.messages);
            }
    }
    gs_sync_cost cost;
    gs_sync_cost_of(&gs_sync_ps, 2, 1, (gs_sync_array){1003, GS_WIRE_F16, 4}, &cost);
    assert_int_equal(cost.bytes, 999 * 2 + 4 * 4);
}

/* The transport's all_reduce, done as two exchanges: each rank sends 1/N of the array twice to each of the N - 1
 * others, and the whole tail once. For f32 the byte count is unknown. */
TEST(an_all_reduce_is_two_exchanges) {
    enum { COUNT = 5040, TAIL = 4 };
    for (int ranks = 2; ranks <= 9; ranks++)
        for (int r = 0; r < ranks; r++) {
            size_t others = (size_t)ranks - 1;
            gs_sync_cost cost;
            gs_sync_array a = {COUNT + TAIL, GS_WIRE_BF16, TAIL};
            if (COUNT % ranks != 0) fail_msg("%d does not divide %d evenly", ranks, COUNT);
            assert_true(gs_sync_cost_of(&gs_sync_hierarchical, ranks, r, a, &cost));
            assert_int_equal(cost.rounds, 2);
            assert_int_equal(cost.messages, 2 * others);
            assert_int_equal(cost.bytes, others * (2 * 2 * (COUNT / (size_t)ranks) + 4 * TAIL));
            a.wire = GS_WIRE_F32;
            assert_false(gs_sync_cost_of(&gs_sync_hierarchical, ranks, r, a, &cost));
        }
}

/* ---- against the transport ---- */

/* A transport that forwards everything to another one and counts what it is asked to send. Each rank is a thread. */
static _Thread_local gs_comm *inside;
static _Thread_local gs_sync_cost handed;

static void count(size_t messages, size_t bytes) {
    handed.messages += messages;
    handed.bytes += messages * bytes;
}

static gs_status counted_send(gs_comm *c, const gs_envelope *e, const void *data, size_t bytes) {
    (void)c;
    count(1, bytes);
    return inside->ops->send(inside, e, data, bytes);
}

static gs_status inner_recv(gs_comm *c, const gs_envelope *e, void *data, size_t bytes) {
    (void)c;
    return inside->ops->recv(inside, e, data, bytes);
}

/* Counts only all_to_all and all_gather: no scheme may use other collectives. */
static gs_status counted_collective(gs_comm *c, const gs_call *call, const void *in, void *out) {
    RANK_CHECK(call->operation == GS_ALL_TO_ALL || call->operation == GS_ALL_GATHER, "a scheme calls %s",
               gs_operation_name(call->operation));
    if (call->count > 0) count((size_t)c->size - 1, call->count * gs_type_size(call->type));
    return gs_call_run(inside, call, in, out);
}

static const gs_transport counting = {
    .name = "counting", .send = counted_send, .recv = inner_recv, .collective = counted_collective};

static gs_status check_sum(gs_sync *s, float *x, size_t floats, size_t tail) {
    gs_sync_cost formula;
    const char *name = s->scheme->name;
    memset(x, 0, floats * sizeof *x);
    handed = (gs_sync_cost){0};
    s->tail = tail;
    GS_TRY(gs_sync_run(s, x, floats));
    gs_sync_cost got = s->counted;
    RANK_CHECK(
        got.messages == handed.messages && got.bytes == handed.bytes,
        "%s of %zu floats, tail %zu: %zu messages, %zu bytes counted; %zu, %zu handed to the transport", name,
        floats, tail, got.messages, got.bytes, handed.messages, handed.bytes);
    RANK_CHECK(gs_sync_cost_of(s->scheme, s->comm->size, s->comm->rank,
                               (gs_sync_array){floats, s->wire, tail}, &formula),
               "%s has no formula for %s", name, gs_wire_name(s->wire));
    RANK_CHECK(got.rounds == formula.rounds && got.messages == formula.messages && got.bytes == formula.bytes,
               "%s of %zu, tail %zu: %zu rounds, %zu messages, %zu bytes; formula %zu, %zu, %zu", name,
               floats, tail, got.rounds, got.messages, got.bytes, formula.rounds, formula.messages,
               formula.bytes);
    return GS_OK;
}

static gs_status counts_of_all(gs_comm *c, void *context) {
    (void)context;
    enum { MOST = 1003, TAIL = 4 };
    static const size_t counts[] = {0, 1, 2, 7, 250, MOST};
    float *x = gs_test_scratch(MOST * sizeof *x);
    gs_comm outer = *c;
    inside = c;
    outer.ops = &counting;
    for (int i = 0; gs_sync_schemes()[i]; i++)
        for (size_t f = 0; f < sizeof formats / sizeof *formats; f++) {
            gs_sync *s;
            gs_status status = GS_OK;
            if (gs_sync_schemes()[i] == &gs_sync_auto) continue; /* chooses one of the others */
            GS_TRY(gs_sync_create_wire(gs_sync_schemes()[i], &outer, (gs_sync_array){MOST, formats[f], TAIL},
                                       &s));
            for (size_t n = 0; n < sizeof counts / sizeof *counts && status == GS_OK; n++) {
                status = check_sum(s, x, counts[n], 0);
                if (status == GS_OK) status = check_sum(s, x, counts[n], counts[n] < TAIL ? counts[n] : TAIL);
            }
            gs_sync_free(s);
            GS_TRY(status);
        }
    return GS_OK;
}

TEST(counted_is_what_is_sent) {
    for (int ranks = 1; ranks <= 5; ranks++)
        gs_test_ranks_ok(&(gs_test_layout){"threads", 0, {ranks}}, counts_of_all, NULL);
    gs_test_ranks_ok(&(gs_test_layout){"processes of 1 and 2 threads", 2, {1, 2}}, counts_of_all, NULL);
}

/* ---- reported by train and compare ---- */

static const char MODEL[] = "flatten, linear 16, tanh, linear 10"; /* 12,730 parameters, not divisible by 3 */

/* For all --sync schemes, the mean number of bytes matches the formula. */
TEST(train_tells_what_the_formula_says) {
    for (int i = 0; gs_sync_schemes()[i]; i++)
        for (size_t f = 0; f < sizeof formats / sizeof *formats; f++) {
            if (gs_sync_schemes()[i] == &gs_sync_auto) continue; /* chooses one of the others */
            gs_settings s = gs_settings_default();
            double sum = 0, most = 0;
            s = gs_test_with(s, "--devices cpu,cpu,cpu --steps 3 --threads 1 --model '%s'", MODEL);
            s.sync = gs_sync_schemes()[i]->name;
            s.wire = formats[f];
            gs_result r = gs_test_train(&s);
            for (int rank = 0; rank < 3; rank++) {
                gs_sync_cost cost;
                gs_sync_array a = {r.params + GS_STATS, s.wire, GS_STATS};
                assert_true(gs_sync_cost_of(gs_sync_schemes()[i], 3, rank, a, &cost));
                sum += (double)cost.bytes;
                most = most > (double)cost.bytes ? most : (double)cost.bytes;
            }
            assert_near(r.sent, sum / 3, 1e-6, 0);
            assert_near(r.sent_most, most, 1e-6, 0);
        }
}

/* The messages of a transport's own sum are not counted. */
TEST(an_own_sum_tells_nothing) {
    gs_settings s =
        gs_test_options("--devices cpu,cpu,cpu --steps 3 --threads 1 --sync allreduce --model '%s'", MODEL);
    assert_true(gs_test_train(&s).sent == 0);
}

TEST(bytes_are_printed) {
    static const char args[] = "--model softmax --steps 3 --threads 1 --devices cpu,cpu --sync ring";
    assert_prints(0, "sent     31,416 bytes per step by each worker", "train %s", args);
    assert_prints(0, "sent     15,716 bytes", "train %s --wire bf16", args);
    assert_prints(0, "wire     gradients travel as f16", "train %s --wire f16", args);
    assert_prints(0, "alone    one worker has nobody to sum with",
                  "train --model softmax --steps 1 --wire f16");
    assert_prints(0, "\"sent_bytes_a_step\":15716", "train %s --wire f16 --json", args);
    assert_prints(0, "\"wire\":\"f16\"", "train %s --wire f16 --json", args);
    assert_prints(0, "sent     15,716 bytes",
                  "launch -n 2 -- train --model softmax --steps 3 --sync ring --wire bf16");
    assert_prints(0, "sent     15,716 bytes",
                  "launch -n 2 -- train --model softmax --steps 3 --sync allreduce --wire f16");
    /* four workers, chunks of 1963 values: 3 (4 * 1963 + 4 * 4) */
    assert_prints(0, "sent     23,604 bytes",
                  "launch -n 2 -- train --model softmax --devices cpu,cpu --threads 1 --steps 3 "
                  "--sync hierarchical --wire bf16");
    static const char two[] = "compare --model softmax --steps 3 --threads 1 --devices-list 'cpu; cpu,cpu'";
    assert_prints(0, "\"largest_difference\"", "%s --wire bf16 --json", two);
    assert_prints(0, "\"sent_bytes_a_step\":15716", "%s --wire bf16 --json", two);
    assert_prints(0, "\"sent_bytes_a_step\":31416", "%s --sync tree --json", two);
}
