/* Every scheme computes the sum, with the same bits on every rank, over every transport. */
#include "core/text.h"
#include "tests/support/ranks.h"

#include <math.h>

static const gs_test_layout layouts[] = {
    {"1 thread", 0, {1}},
    {"2 threads", 0, {2}},
    {"7 threads", 0, {7}},
    {"8 threads", 0, {8}},
    {"3 processes", 3, {1, 1, 1}},
    {"4 processes", 4, {1, 1, 1, 1}},
    {"2 processes of 2 threads", 2, {2, 2}},
    {"processes of 1, 3 and 2 threads", 3, {1, 3, 2}},
};
enum { LAYOUTS = sizeof layouts / sizeof *layouts, MOST = GS_CHECK_MOST };

/* Whether the scheme adds in rank order if all ranks are threads of one process. */
static bool adds_in_order(const gs_sync_scheme *s) {
    return s == &gs_sync_allreduce || s == &gs_sync_gloo || s == &gs_sync_hierarchical || s == &gs_sync_ps ||
           s == &gs_sync_sharded_ps;
}

static gs_status schemes_sum(gs_comm *c, void *context) {
    const gs_test_layout *layout = context;
    float *x = gs_test_scratch(MOST * sizeof *x);
    float *first = gs_test_scratch(MOST * sizeof *x);
    for (int i = 0; gs_sync_schemes()[i]; i++) {
        const gs_sync_scheme *scheme = gs_sync_schemes()[i];
        gs_sync *s;
        GS_TRY(gs_sync_create(scheme, c, MOST, &s));
        gs_status status = gs_check_scheme_sums(s, x);
        gs_sync_free(s);
        GS_TRY(status);
        if (i == 0) memcpy(first, x, MOST * sizeof *x);
        if (layout->processes == 0 && adds_in_order(scheme))
            RANK_CHECK(memcmp(x, first, MOST * sizeof *x) == 0, "the bits of %s differ from those of %s",
                       scheme->name, gs_sync_schemes()[0]->name);
    }
    return GS_OK;
}

TEST(every_scheme_gives_the_sum) {
    for (int i = 0; i < LAYOUTS; i++) gs_test_ranks_checked_ok(&layouts[i], schemes_sum, (void *)&layouts[i]);
}

TEST(schemes_are_found_by_name) {
    const gs_sync_scheme *scheme;
    for (int i = 0; gs_sync_schemes()[i]; i++) {
        assert_ok(gs_sync_find(gs_sync_schemes()[i]->name, &scheme));
        assert_ptr_equal(scheme, gs_sync_schemes()[i]);
        assert_in_range(strlen(scheme->what), 20, 55); /* one line of --help */
    }
    char wanted[400] = "'rnig'; choose one of";
    for (int i = 0; gs_sync_schemes()[i]; i++)
        gs_append(wanted, sizeof wanted, "%s %s", i ? "," : ":", gs_sync_schemes()[i]->name);
    assert_fails(GS_E_USAGE, wanted, gs_sync_find("rnig", &scheme));
    assert_fails(GS_E_USAGE, "''", gs_sync_find("", &scheme));
}

/* ---- rounds, messages and bytes ---- */

static gs_status counts_of_all(gs_comm *c, void *context) {
    (void)context;
    for (int i = 0; gs_sync_schemes()[i]; i++) {
        gs_sync *s;
        if (!gs_sync_schemes()[i]->cost) continue;
        GS_TRY(gs_sync_create(gs_sync_schemes()[i], c, GS_CHECK_MOST, &s));
        gs_status status = gs_check_scheme_counts(s);
        gs_sync_free(s);
        GS_TRY(status);
    }
    return GS_OK;
}

TEST(counts_are_those_of_the_formula) {
    for (int ranks = 1; ranks <= 9; ranks++)
        gs_test_ranks_ok(&(gs_test_layout){"threads", 0, {ranks}}, counts_of_all, NULL);
}

static gs_sync_cost cost_of(const gs_sync_scheme *s, int ranks, int rank, size_t count) {
    gs_sync_cost cost;
    assert_true(gs_sync_cost_of(s, ranks, rank, (gs_sync_array){.count = count}, &cost));
    return cost;
}

static void assert_cost(const gs_sync_scheme *s, int ranks, int rank, size_t rounds, double messages,
                        double arrays) {
    enum { COUNT = 5040 }; /* divisible by every number up to 10 */
    gs_sync_cost cost = cost_of(s, ranks, rank, COUNT);
    if (cost.rounds != rounds || (double)cost.messages != messages ||
        fabs((double)cost.bytes - arrays * COUNT * sizeof(float)) > 1e-6)
        fail_msg("%s, rank %d of %d: %zu rounds, %zu messages, %zu bytes; the textbook says %zu, %g, %g",
                 s->name, rank, ranks, cost.rounds, cost.messages, cost.bytes, rounds, messages,
                 arrays * COUNT * sizeof(float));
}

/* The textbook formulas, for arrays that divide evenly among the ranks. */
TEST(formulas_are_those_of_the_textbook) {
    for (int n = 2; n <= 9; n++) {
        int up = (int)ceil(log2(n)), down = (int)floor(log2(n)), p = 1 << down, extra = n - p;
        size_t fold = extra > 0 ? 2 : 0;
        size_t tree_messages = 0;
        for (int r = 0; r < n; r++) {
            double folded = r < 2 * extra; /* 1 if this rank hands in its array or receives one */
            bool waits = folded && r % 2 == 1;
            assert_cost(&gs_sync_ps, n, r, 2, r == 0 ? n - 1 : 1, r == 0 ? n - 1 : 1);
            assert_cost(&gs_sync_sharded_ps, n, r, 2, 2 * (n - 1), 2.0 * (n - 1) / n);
            assert_cost(&gs_sync_ring, n, r, 2 * ((size_t)n - 1), 2 * (n - 1), 2.0 * (n - 1) / n);
            assert_cost(&gs_sync_recursive_doubling, n, r, (size_t)down + fold, (waits ? 0 : down) + folded,
                        (waits ? 0 : down) + folded);
            assert_cost(&gs_sync_halving_doubling, n, r, 2 * (size_t)down + fold,
                        (waits ? 0 : 2 * down) + folded, (waits ? 0 : 2.0 * (p - 1) / p) + folded);
            assert_int_equal(cost_of(&gs_sync_tree, n, r, 1).rounds, 2 * up);
            tree_messages += cost_of(&gs_sync_tree, n, r, 1).messages;
        }
        assert_int_equal(tree_messages, 2 * (n - 1)); /* each edge of the tree is used twice */
        assert_cost(&gs_sync_tree, n, 0, 2 * (size_t)up, up, up);
    }
    gs_sync_cost none;
    assert_false(gs_sync_cost_of(&gs_sync_allreduce, 4, 0, (gs_sync_array){.count = 8}, &none));
    assert_int_equal(none.rounds, 0);
}

/* Schemes with few rounds win if messages are expensive, schemes with few bytes if bandwidth is. */
TEST(the_model_prefers_what_the_theory_does) {
    const gs_sync_model m = {.alpha = 1e-5, .beta = 1e-9, .gamma = 1e-10};
    for (int n = 4; n <= 64; n *= 2) {
        double small = 4, large = 1e8;
        double ring = gs_sync_ring.time(n, large, &m),
               doubling = gs_sync_recursive_doubling.time(n, large, &m);
        assert_true(gs_sync_recursive_doubling.time(n, small, &m) < gs_sync_ring.time(n, small, &m));
        assert_true(gs_sync_recursive_doubling.time(n, small, &m) < gs_sync_tree.time(n, small, &m));
        assert_true(gs_sync_recursive_doubling.time(n, small, &m) <
                    gs_sync_halving_doubling.time(n, small, &m));
        assert_true(ring < doubling);
        assert_true(gs_sync_halving_doubling.time(n, large, &m) < ring); /* the same bytes, fewer rounds */
        assert_true(gs_sync_tree.time(n, large, &m) < gs_sync_ps.time(n, large, &m));
    }
    /* two ranks, one exchange: alpha + beta B + gamma B */
    assert_near(gs_sync_recursive_doubling.time(2, 1e6, &m), 1e-5 + 1e-3 + 1e-4, 1e-12, 0);
    assert_near(gs_sync_ring.time(4, 4e6, &m), 6 * (1e-5 + 1e-3) + 3e-4, 1e-12, 0);
    assert_near(gs_sync_ps.time(3, 1e6, &m), 4 * (1e-5 + 1e-3) + 2e-4, 1e-12, 0);
}

/* All ranks make the same choice, and report why. */
static gs_status same_choice(gs_comm *c, void *context) {
    (void)context;
    char mine[sizeof((gs_sync *)0)->why + 40], first[sizeof mine];
    for (size_t most = 1; most < 2000000; most *= 1000) {
        gs_sync *s;
        GS_TRY(gs_sync_create(&gs_sync_auto, c, most, &s));
        memset(mine, 0, sizeof mine);
        snprintf(mine, sizeof mine, "%s: %s", s->scheme->name, s->why);
        bool chosen = s->scheme != &gs_sync_auto;
        /* two ranks over Gloo exchange their arrays instead of using Gloo's ring */
        chosen = chosen && (s->scheme != &gs_sync_gloo || c->size > 2);
        gs_sync_free(s);
        memcpy(first, mine, sizeof mine);
        GS_TRY(gs_comm_broadcast(c, first, sizeof first, GS_U8, 0));
        RANK_CHECK(chosen && strlen(mine) > 30, "auto: %s", mine);
        RANK_CHECK(memcmp(first, mine, sizeof mine) == 0, "rank %d: %s; rank 0: %s", c->rank, mine, first);
    }
    return GS_OK;
}

TEST(auto_chooses_the_same_everywhere) {
    for (int i = 1; i < LAYOUTS; i += 3) gs_test_ranks_ok(&layouts[i], same_choice, NULL);
}

/* ---- gs_sync_sum: device memory ---- */

typedef struct fake_memory {
    float data[8];
    int maps, unmaps;
} fake_memory;

static gs_status fake_map(gs_device *d, gs_mem m, size_t bytes, void **host) {
    fake_memory *memory = d->state;
    RANK_CHECK(m.at + bytes / sizeof(float) <= 8, "%zu bytes at %zu of 8 floats are mapped", bytes, m.at);
    memory->maps++;
    *host = memory->data + m.at;
    return GS_OK;
}

static gs_status fake_unmap(gs_device *d, gs_mem m, void *host) {
    fake_memory *memory = d->state;
    RANK_CHECK(host == memory->data + m.at, "not the mapped memory");
    memory->unmaps++;
    return gs_fail(GS_E_OPENCL, "unmapping failed too");
}

static gs_status fake_unmap_ok(gs_device *d, gs_mem m, void *host) {
    fake_unmap(d, m, host);
    return GS_OK;
}

static gs_status sum_on_device(gs_comm *c, void *context) {
    (void)context;
    static const gs_backend ops = {.map = fake_map, .unmap = fake_unmap_ok};
    fake_memory memory = {.data = {9, 1, 2, 3, 4, 9, 9, 9}};
    gs_device device = {.ops = &ops, .state = &memory};
    gs_sync *s;
    GS_TRY(gs_sync_create(&gs_sync_allreduce, c, 4, &s));
    gs_status status = gs_sync_sum(s, &device, gs_at(GS_NONE, 1), 4);
    gs_sync_free(s);
    GS_TRY(status);
    float n = (float)c->size;
    const float wanted[8] = {9, n, 2 * n, 3 * n, 4 * n, 9, 9, 9};
    for (int i = 0; i < 8; i++)
        RANK_CHECK(memory.data[i] == wanted[i], "float %d is %g, wanted %g", i, memory.data[i], wanted[i]);
    int times = c->size > 1;
    RANK_CHECK(memory.maps == times && memory.unmaps == times, "mapped %d times, unmapped %d times, of %d",
               memory.maps, memory.unmaps, times);
    return GS_OK;
}

TEST(device_memory_is_mapped_and_summed) {
    gs_test_ranks_ok(&(gs_test_layout){"1 thread", 0, {1}}, sum_on_device, NULL);
    gs_test_ranks_ok(&(gs_test_layout){"3 threads", 0, {3}}, sum_on_device, NULL);
}

static gs_status failing_sum(gs_sync *s, float *data, size_t count) {
    (void)s, (void)data, (void)count;
    return gs_fail(GS_E_PEER, "rank 1 was lost");
}

/* When the sum fails, mapped memory is unmapped, and the message is still the sum's. */
TEST(a_failed_sum_is_unmapped) {
    static const gs_backend ops = {.map = fake_map, .unmap = fake_unmap};
    static const gs_sync_scheme failing = {.name = "failing", .sum = failing_sum};
    fake_memory memory = {0};
    gs_device device = {.ops = &ops, .state = &memory};
    gs_comm *c[2];
    gs_sync *s;
    assert_ok(gs_comm_threads_create(2, 1, c));
    assert_ok(gs_sync_create(&failing, c[0], 8, &s));
    assert_fails(GS_E_PEER, "rank 1 was lost", gs_sync_sum(s, &device, GS_NONE, 8));
    gs_sync_free(s);
    assert_int_equal(memory.maps, 1);
    assert_int_equal(memory.unmaps, 1);
    gs_comm_free(c[0]);
    gs_comm_free(c[1]);
}
