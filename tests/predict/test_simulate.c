/* gradsum simulate runs the schemes' own code in virtual time: compared with formulas, without a clock.
 * test_simulate_steps.c tests whole steps. */
#include "tests/support/program.h"

#include <math.h>

#include "sync/scheme.h"
#include "predict/failures.h"
#include "predict/message_lists.h"
#include "predict/simulate.h"

static const gs_link fabric = {5e-6, 12.5e9}, none = {0, 0};
static const double GAMMA = 1e-10;

/* ---- a sum ---- */

typedef struct sum {
    double took, sent_most, between;
} sum;

static sum sum_on(const gs_virtual_cluster *cluster, const gs_sync_scheme *scheme, gs_sync_array a) {
    const int ranks = cluster->ranks;
    const gs_message_lists_key key = {.scheme = scheme, .array = a, .ranks = ranks};
    const gs_virtual_list *list;
    gs_message_lists lists = {0};
    gs_virtual *v;
    sum s = {0};
    gs_virtual_script *script = gs_test_calloc((size_t)ranks, sizeof *script);
    assert_ok(gs_message_lists_of(&lists, &key, &list));
    assert_ok(gs_virtual_create(cluster, (gs_virtual_watch){0}, &v));
    const gs_virtual_item item = {.op = GS_VIRTUAL_LIST, .stride = 1, .list = list};
    for (int r = 0; r < ranks; r++) script[r] = (gs_virtual_script){&item, 1, 0};
    assert_ok(gs_virtual_play(v, script));
    for (int r = 0; r < ranks; r++) {
        const gs_virtual_account *k = &gs_virtual_accounts(v)[r];
        s.took = fmax(s.took, k->ended);
        s.sent_most = fmax(s.sent_most, k->sent[0] + k->sent[1]);
        s.between += k->sent[0];
        gs_sync_cost cost;
        if (gs_sync_cost_of(scheme, ranks, r, a, &cost))
            assert_near(k->sent[0] + k->sent[1], (double)cost.bytes, 0, 0);
    }
    gs_virtual_free(v);
    gs_message_lists_free(&lists);
    return s;
}

static sum sum_of(const gs_sync_scheme *scheme, int ranks, int hosts, gs_sync_array a, gs_link link,
                  gs_link inside) {
    const gs_virtual_cluster cluster = {
        .ranks = ranks, .hosts = hosts, .between = link, .inside = inside, .gamma = GAMMA};
    return sum_on(&cluster, scheme, a);
}

static sum f32_sum(const gs_sync_scheme *scheme, int ranks, size_t count) {
    return sum_of(scheme, ranks, ranks, (gs_sync_array){count, GS_WIRE_F32, 0}, fabric, none);
}

/* ---- all ranks together ---- */

enum { MOST = 80, CALLS = 3, ITEMS = 2 * CALLS };

static uint32_t draw(uint32_t below) {
    static uint32_t seed = 1;
    seed = seed * 1664525 + 1013904223;
    return (seed >> 8) % below;
}

/* Chunks go around the ring in one direction, then in the other, so a rank's sender changes halfway through. */
static gs_status go_both_ways(gs_sync *s, float *data, size_t count) {
    const int n = s->comm->size, me = s->comm->rank, right = (me + 1) % n, left = (me + n - 1) % n;
    for (int k = 0; k < 2 * n; k++) {
        const bool back = k >= n;
        GS_TRY(gs_sync_send(s, data, gs_chunk_of(count, n, back ? me + k : me - k), back ? left : right));
        GS_TRY(gs_sync_recv(s, data, gs_chunk_of(count, n, back ? me + k + 1 : me - k - 1),
                            back ? right : left));
    }
    return GS_OK;
}

static gs_message_lists_key drawn_call(int ranks) {
    static const gs_operation calls[] = {GS_ALL_GATHER, GS_REDUCE_SCATTER, GS_ALL_TO_ALL};
    static const gs_sync_scheme both_ways = {.sum = go_both_ways};
    uint32_t schemes = 0;
    while (gs_sync_schemes()[schemes]) schemes++;
    const gs_sync_scheme *scheme = gs_sync_schemes()[draw(schemes)];
    return (gs_message_lists_key){.ranks = ranks,
                                  .array = {1 + draw(900), (gs_wire)draw(3), 2},
                                  .scheme = draw(2)                   ? NULL
                                            : scheme != &gs_sync_auto ? scheme
                                                                      : &both_ways,
                                  .call = {calls[draw(3)], 1 + draw(900), GS_F32, GS_SUM, 0}};
}

/* In two steps of random calls each rank computes for random times between the calls. The times equal, bit for bit,
 * those of ranks that each have a separate list of messages. */
TEST(ranks_together_do_what_each_does_alone) {
    gs_virtual_item(*item)[MOST][ITEMS] = gs_test_calloc(2, sizeof *item);
    int shared = 0;
    for (int test = 0; test < 300; test++) {
        const int n = 2 + (int)draw(MOST - 1);
        const gs_virtual_cluster cluster = {
            n, draw(4) == 0 ? 1 : n, {draw(3) * 3e-6, 1e9}, {1e-6, 1e10}, draw(2) * GAMMA};
        gs_virtual_script script[2][MOST];
        gs_virtual *v[2];
        gs_message_lists lists[2] = {{0}, {.apart = true}};
        for (int c = 0; c < CALLS; c++) {
            const gs_message_lists_key k = drawn_call(n);
            const gs_virtual_list *list[2];
            for (int alone = 0; alone < 2; alone++)
                assert_ok(gs_message_lists_of(&lists[alone], &k, &list[alone]));
            shared += list[0]->message != NULL;
            if (k.scheme == &gs_sync_ring && k.array.count >= (size_t)n) assert_non_null(list[0]->message);
            for (int r = 0; r < n; r++) {
                item[0][r][2 * c] = item[1][r][2 * c] =
                    (gs_virtual_item){.op = GS_VIRTUAL_LAYERS, .seconds = draw(4) ? 0 : draw(1000) * 1e-7};
                for (int alone = 0; alone < 2; alone++)
                    item[alone][r][1 + 2 * c] =
                        (gs_virtual_item){.op = GS_VIRTUAL_LIST, .stride = 1, .list = list[alone]};
            }
        }
        for (int alone = 0; alone < 2; alone++) {
            assert_ok(gs_virtual_create(&cluster, (gs_virtual_watch){0}, &v[alone]));
            for (int r = 0; r < n; r++)
                script[alone][r] = (gs_virtual_script){item[alone][r], ITEMS, r % 7 * 1e-5};
            for (int step = 0; step < 2; step++) assert_ok(gs_virtual_play(v[alone], script[alone]));
        }
        assert_memory_equal(gs_virtual_accounts(v[0]), gs_virtual_accounts(v[1]),
                            (size_t)n * sizeof(gs_virtual_account));
        assert_memory_equal(gs_virtual_lines(v[0]), gs_virtual_lines(v[1]),
                            (size_t)cluster.hosts * sizeof(gs_virtual_line));
        for (int alone = 0; alone < 2; alone++) {
            gs_virtual_free(v[alone]);
            gs_message_lists_free(&lists[alone]);
        }
    }
    assert_true(shared > 300);
}

/* If N divides the array evenly, or is a power of two, all ranks do the same thing at once, as in the formula. */
TEST(equal_ranks_take_what_the_formula_says) {
    static const gs_sync_scheme *const powers[] = {&gs_sync_tree, &gs_sync_recursive_doubling,
                                                   &gs_sync_halving_doubling};
    const gs_sync_model m = {fabric.latency, 1 / fabric.bandwidth, GAMMA};
    for (int n = 2; n <= 64; n += n < 8 ? 1 : n) {
        const size_t count = 5000 * (size_t)n; /* so that a chunk takes whole picoseconds */
        assert_near(f32_sum(&gs_sync_ring, n, count).took, gs_sync_ring.time(n, 4.0 * (double)count, &m), 0,
                    1e-12);
        for (size_t i = 0; i < sizeof powers / sizeof *powers && (n & (n - 1)) == 0; i++)
            assert_near(f32_sum(powers[i], n, count).took, powers[i]->time(n, 4.0 * (double)count, &m), 0,
                        1e-12);
    }
}

/* Every message of every scheme is recorded; sum_of compares the bytes with the formulas. */
TEST(all_schemes_send_what_they_say) {
    for (const gs_sync_scheme *const *s = gs_sync_schemes(); *s; s++)
        for (int n = 2; n <= 9 && *s != &gs_sync_auto; n++)
            for (int wire = GS_WIRE_F32; wire <= GS_WIRE_BF16; wire++) {
                const gs_sync_array a = {1003, (gs_wire)wire, 5};
                assert_true(sum_of(*s, n, n, a, fabric, none).took > 0);
            }
}

TEST(a_parameter_server_is_a_bottleneck) {
    enum { COUNT = 1 << 20 };
    for (int n = 4; n <= 64; n *= 2) {
        const double ps = f32_sum(&gs_sync_ps, 2 * n, COUNT).took / f32_sum(&gs_sync_ps, n, COUNT).took,
                     ring = f32_sum(&gs_sync_ring, 2 * n, COUNT).took / f32_sum(&gs_sync_ring, n, COUNT).took;
        assert_true(ps > 1.9);
        assert_true(ring < 1.5);
    }
}

/* Recursive doubling with 4 ranks on 2 hosts: the second exchange is between hosts, and two ranks share each line. */
TEST(a_host_has_one_line) {
    enum { COUNT = 250000 };
    const double bytes = 4.0 * COUNT, beta = 1 / fabric.bandwidth;
    const gs_sync_array a = {COUNT, GS_WIRE_F32, 0};
    const sum s = sum_of(&gs_sync_recursive_doubling, 4, 2, a, fabric, none);
    assert_near(s.took, fabric.latency + 2 * beta * bytes + 2 * GAMMA * bytes, 0, 1e-12);
    assert_near(s.between, 4 * bytes, 0, 0);
    /* one rank per host shares nothing */
    const sum own = sum_of(&gs_sync_recursive_doubling, 4, 4, a, fabric, none);
    assert_near(own.took, 2 * (fabric.latency + beta * bytes + GAMMA * bytes), 0, 1e-12);
    /* within one host, ranks use only its own links */
    const sum inside = sum_of(&gs_sync_recursive_doubling, 4, 1, a, (gs_link){1, 1}, fabric);
    assert_near(inside.took, own.took, 0, 1e-12);
    assert_near(inside.between, 0, 0, 0);
}

TEST(what_waits_for_ever_is_told) {
    const gs_virtual_cluster cluster = {.ranks = 2, .hosts = 2, .between = fabric};
    const gs_virtual_item waits = {.op = GS_VIRTUAL_RECV_ONE, .peer = 1, .bytes = 4};
    const gs_virtual_script scripts[] = {{&waits, 1, 0}, {NULL, 0, 0}};
    gs_virtual *v;
    assert_ok(gs_virtual_create(&cluster, (gs_virtual_watch){0}, &v));
    assert_int_equal(gs_virtual_play(v, scripts), GS_E_USAGE);
    assert_string_equal(gs_message(), "a deadlock: rank 0 waits forever for a message from rank 1");
    gs_virtual_free(v);
}

/* ---- failures ---- */

TEST(the_optimum_is_one) {
    gs_failures f = {
        .mtbf = 30 * 86400.0, .hosts = 100, .work = 5 * 86400.0, .checkpoint = 60, .restart = 120, .seed = 1};
    gs_failures_cost best, other;
    assert_ok(gs_failures_expect(&f, &best));
    assert_near(best.mtbf, 25920, 0, 1e-12);
    assert_near(best.young, 1763.632615, 0, 1e-8); /* sqrt(2 60 25920) */
    assert_true(best.daly < best.young && best.expected_daly <= best.expected_young);
    assert_near(best.drawn, best.expected, 0, 0.02);
    for (double factor = 0.25; factor <= 4; factor *= 2) {
        f.every = best.daly * factor;
        assert_ok(gs_failures_expect(&f, &other));
        assert_true(other.expected >= best.expected);
    }
    f.every = 1e6;
    assert_int_equal(gs_failures_expect(&f, &other), GS_E_USAGE);
    f.every = 0;
    f.checkpoint = 1e5; /* more than 2 M */
    f.hosts = 10000;
    assert_int_equal(gs_failures_expect(&f, &other), GS_E_USAGE);
}

/* ---- the command ---- */

#define CLUSTER                                                                                              \
    "simulate --workers 16 --hosts 4 --link 5us,12.5GB/s --inside 1us,200GB/s --model lenet --flops "        \
    "1TFLOP/s "

TEST(a_second_run_says_the_same) {
    char *first = gs_test_output(0, CLUSTER "--curve --mtbf 30d --checkpoint-cost 60s --json");
    char *second = gs_test_output(0, CLUSTER "--curve --mtbf 30d --checkpoint-cost 60s --json");
    assert_string_equal(first, second);
    cJSON *o = gs_test_parse(first);
    assert_int_equal(cJSON_GetArraySize(gs_test_field(o, "curve")), 5);
    assert_near(gs_test_field(o, "workers")->valuedouble, 16, 0, 0);
    assert_near(gs_test_field(o, "flops")->valuedouble, 1e12, 0, 0);
    assert_true(cJSON_IsNull(gs_test_field(o, "add")));
}

TEST(hardware_is_told) {
    char *text = gs_test_output(0, CLUSTER "--add 10GB/s");
    assert_has(text, "a worker makes 1 TFLOP/s\n");
    text = gs_test_output(0, CLUSTER "--add 10GB/s --json");
    cJSON *o = gs_test_parse(text);
    assert_near(gs_test_field(o, "add")->valuedouble, 1e10, 0, 1e-12);
}

TEST(lines_have_80_columns) {
    char *text = gs_test_output(0, CLUSTER "--curve --mtbf 30d --checkpoint-cost 60s --sync ps");
    assert_has(text, "Young (1974)", "no failures ", "as if no workers\n");
    gs_test_fits(text, 80);
}

TEST(bad_use_is_told) {
    static const struct {
        const char *says, *typed;
    } cases[] = {
        {"--workers N is required", "--link 5us,1GB/s"},
        {"--link LATENCY,BANDWIDTH is required", "--workers 4"},
        {"--hosts 3: 8 workers cannot be divided evenly", "--workers 8 --hosts 3 --link 5us,1GB/s"},
        {"--inside LATENCY,BANDWIDTH says how", "--workers 8 --hosts 2 --link 5us,1GB/s"},
        {"'5us,0GB/s' is not LATENCY,BANDWIDTH", "--workers 8 --link 5us,0GB/s"},
        {"'5,1' is not LATENCY,BANDWIDTH", "--workers 8 --link 5,1"},
        {"--flops: '10' is not", "--workers 8 --link 5us,1GB/s --flops 10"},
        {"--flops: '0TFLOP/s' is not", "--workers 8 --link 5us,1GB/s --flops 0TFLOP/s"},
        {"--workers: '100000000' is not", "--workers 100000000 --link 5us,1GB/s"},
        {"--batch 7 is less than a sample", "--workers 8 --link 5us,1GB/s --batch 7"},
        {"--sync auto chooses by measuring", "--workers 8 --link 5us,1GB/s --sync auto"},
        {"--pipeline sends activations too", "--workers 8 --link 5us,1GB/s --layout dp4,pp2 --wire f16"},
        {"--tensor 2: the model has nothing to divide",
         "--workers 8 --link 5us,1GB/s --model softmax --layout dp4,tp2"},
        {"--tensor 2: the model has nothing to divide",
         "--workers 8 --link 5us,1GB/s --model softmax --layout dp4,tp2 --flops 1TFLOP/s"},
        {"--pipeline-schedule gpipe is for --pipeline P",
         "--workers 8 --link 5us,1GB/s --pipeline-schedule gpipe"},
        {"wanted 4 (--workers), or dp8", "--workers 8 --link 5us,1GB/s --layout dp4"},
        {"--jitter: there is no worker 9", "--workers 8 --link 5us,1GB/s --jitter 9:1ms@5%%"},
        {"--mtbf: '30' is not a number with us",
         "--workers 8 --link 5us,1GB/s --mtbf 30 --checkpoint-cost 1s"},
        {"--mtbf needs --checkpoint-cost", "--workers 8 --link 5us,1GB/s --mtbf 30d"},
        {"--work goes with --mtbf", "--workers 8 --link 5us,1GB/s --work 3d"},
        {"would hardly ever get through", "--workers 8 --link 5us,1GB/s --mtbf 1s --checkpoint-cost 60s"},
        {"--input goes with --flops", "--workers 8 --link 5us,1GB/s --input 3x224x224"},
        {"--data says what is measured, and with", "--workers 8 --link 5us,1GB/s --flops 1TFLOP/s --data x"},
        {"--device says what is", "--workers 8 --link 5us,1GB/s --flops 1TFLOP/s --device cl"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *command = gs_test_format("simulate %s", cases[i].typed);
        char *percent = strstr(command, "%%");
        if (percent) memmove(percent, percent + 1, strlen(percent));
        assert_prints(2, cases[i].says, "%s", command);
    }
}
