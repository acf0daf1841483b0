/* The numbers that represent an array in a record (train/digest/sketch.h). */
#include "tests/support/test.h"

#include <math.h>

#include "train/digest/sketch.h"

/* The numbers of the parts add up to those of the whole if indices count from the start of the whole. */
TEST(numbers_of_parts_add_up) {
    float x[100];
    gs_sketch whole = {0}, parts = {0};
    for (int i = 0; i < 100; i++) x[i] = (float)(i * i % 17) - 7;
    gs_sketch_add(&whole, x, 100, 5);
    gs_sketch_add(&parts, x + 30, 70, 35);
    gs_sketch_add(&parts, x, 30, 5);
    assert_near(parts.sum, whole.sum, 1e-9, 0);
    assert_near(parts.squares, whole.squares, 1e-9, 0);
    for (int k = 0; k < GS_ALONG; k++) assert_near(parts.along[k], whole.along[k], 1e-9, 0);
    assert_near(parts.n, 100, 0, 0);
}

/* How much the most sensitive number changes if one element moves from index i to index j, in units of |d|. */
static double seen_of_a_move(uint64_t i, uint64_t j) {
    static const float here[] = {1}, gone[] = {-1};
    gs_sketch moved = {0};
    double most = 0;
    gs_sketch_add(&moved, here, 1, i);
    gs_sketch_add(&moved, gone, 1, j);
    for (int k = 0; k < GS_ALONG; k++) most = fmax(most, fabs(moved.along[k]));
    return most / sqrt(2.0);
}

/* For all pairs of indices, a move is visible, and as few moves are nearly invisible as train/digest/sketch.h says. */
TEST(a_move_between_any_two_places_is_seen) {
    enum { PLACES = 2000 };
    double least = 2, tenth = 0, quarter = 0;
    for (uint64_t i = 0; i < PLACES; i++)
        for (uint64_t j = 0; j < i; j++) {
            const double seen = seen_of_a_move(i, j);
            least = fmin(least, seen);
            tenth += seen < 0.1;
            quarter += seen < 0.25;
        }
    const double pairs = PLACES * (PLACES - 1) / 2.0;
    assert_true(least > 0.01);
    assert_near(tenth / pairs, 4e-5, 1e-5, 0);
    assert_near(quarter / pairs, 1.4e-3, 1e-4, 0);
}

/* Weights have mean 0, variance 1 and at most GS_ALONG_MOST, and those at one index are independent of each other. */
TEST(weights_are_spread_as_they_should_be) {
    enum { PLACES = 100000 };
    double sum[GS_ALONG] = {0}, products[GS_ALONG][GS_ALONG] = {{0}};
    for (uint64_t i = 0; i < PLACES; i++) {
        double w[GS_ALONG];
        for (int k = 0; k < GS_ALONG; k++) {
            w[k] = gs_weight_of(gs_bits_of(i), k);
            assert_true(fabs(w[k]) <= GS_ALONG_MOST);
            sum[k] += w[k];
            for (int q = 0; q <= k; q++) products[k][q] += w[k] * w[q];
        }
    }
    for (int k = 0; k < GS_ALONG; k++) { /* within four standard deviations */
        assert_near(sum[k] / PLACES, 0, 4 / sqrt(PLACES), 0);
        for (int q = 0; q <= k; q++) assert_near(products[k][q] / PLACES, q == k, 4 / sqrt(PLACES), 0);
    }
}

TEST(sums_of_whole_numbers_are_exact) {
    enum { COUNT = 5000 };
    float x[COUNT];
    gs_sketch whole = {0}, parts = {0};
    for (int i = 0; i < COUNT; i++) x[i] = (float)(i * 37 % 256);
    gs_sketch_add(&whole, x, COUNT, 0);
    for (int from = COUNT - 50; from >= 0; from -= 50) gs_sketch_add(&parts, x + from, 50, (uint64_t)from);
    for (int k = 0; k < GS_ALONG; k++) assert_true(parts.along[k] == whole.along[k]);
}
