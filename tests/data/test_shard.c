#include "data/order.h"
#include "tests/support/test.h"

TEST(parts_are_disjoint_and_complete) {
    for (size_t total = 0; total <= 40; total++)
        for (int size = 1; size <= 9; size++) {
            size_t next = 0;
            for (int rank = 0; rank < size; rank++) {
                gs_shard s = gs_shard_of(total, rank, size);
                assert_int_equal(s.first, next);
                assert_int_equal(s.count, total / (size_t)size + ((size_t)rank < total % (size_t)size));
                next += s.count;
            }
            assert_int_equal(next, total);
        }
}

/* More samples than fit into 32 bits: a product must not overflow. */
TEST(large_totals) {
    gs_shard last = gs_shard_of(SIZE_MAX, 2, 3);
    assert_true(last.first + last.count == SIZE_MAX);
}

TEST(order_is_a_permutation) {
    enum { MOST = 300 };
    for (size_t n = 0; n <= MOST; n++) {
        uint32_t order[MOST + 1];
        bool seen[MOST] = {false};
        order[n] = 0xdeadbeef;
        gs_epoch_order(7, n, n, order);
        for (size_t i = 0; i < n; i++) {
            assert_true(order[i] < n);
            assert_false(seen[order[i]]);
            seen[order[i]] = true;
        }
        assert_int_equal(order[n], 0xdeadbeef);
    }
}

/* A second implementation, in Python, computed these values. They must never change: they define what a seed means. */
TEST(known_orders) {
    static const struct {
        uint64_t seed, epoch;
        uint32_t order[10];
    } known[] = {
        {1, 0, {8, 9, 6, 4, 2, 5, 1, 3, 0, 7}},
        {1, 1, {5, 0, 7, 2, 9, 1, 4, 6, 3, 8}},
        {UINT64_MAX, 3, {8, 1, 3, 6, 7, 0, 2, 5, 4, 9}},
    };
    uint32_t order[10];
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        gs_epoch_order(known[i].seed, known[i].epoch, 10, order);
        assert_memory_equal(order, known[i].order, sizeof order);
    }

    enum { MNIST = 60000 };
    uint32_t *all = gs_test_malloc(MNIST * sizeof *all);
    gs_epoch_order(1, 0, MNIST, all);
    assert_memory_equal(all, ((uint32_t[]){16939, 5460, 58740, 5818}), 16);
    assert_memory_equal(all + MNIST - 4, ((uint32_t[]){19683, 44557, 4064, 37866}), 16);
}

/* A forgotten epoch seed (the same order every epoch) is a classic mistake of data-parallel training. */
TEST(epochs_and_seeds_differ) {
    uint32_t a[50], b[50];
    gs_epoch_order(1, 0, 50, a);
    gs_epoch_order(1, 0, 50, b);
    assert_memory_equal(a, b, sizeof a);
    gs_epoch_order(1, 1, 50, b);
    assert_memory_not_equal(a, b, sizeof a);
    gs_epoch_order(2, 0, 50, b);
    assert_memory_not_equal(a, b, sizeof a);
}

/* All 24 orders of 4 elements are about equally frequent. Chi-square with 23 degrees of freedom exceeds 50 with a
 * probability of 0.1 %; the seeds are fixed, so the test always passes or always fails. */
TEST(orders_are_equally_likely) {
    enum { RUNS = 24000 };
    int count[256] = {0};
    for (uint64_t epoch = 0; epoch < RUNS; epoch++) {
        uint32_t o[4];
        gs_epoch_order(42, epoch, 4, o);
        count[o[0] << 6 | o[1] << 4 | o[2] << 2 | o[3]]++;
    }
    int orders = 0;
    double chi = 0, mean = RUNS / 24.0;
    for (int i = 0; i < 256; i++) {
        if (count[i] == 0) continue;
        orders++;
        chi += (count[i] - mean) * (count[i] - mean) / mean;
    }
    assert_int_equal(orders, 24);
    assert_true(chi < 50);
}
