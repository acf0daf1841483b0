/* softmax_part_*: if ranks share the outputs, the loss equals that of softmax_cross_entropy_*. */
#include <math.h>

#include "tests/support/on_devices.h"
#include "tests/support/operators.h"

enum { N = 37, CLASSES = 43, RANKS_MOST = 5 };

typedef struct loss {
    float stats[GS_STATS], dx[N * CLASSES];
} loss;

static void whole_loss(gs_device *d, const float *x, const int32_t *labels, float smoothing, loss *out) {
    const float zeros[GS_STATS] = {0};
    gs_mem mx = gs_test_new_mem(d, x, N * CLASSES), ml = gs_test_new_mem(d, labels, N),
           p = gs_test_new_mem(d, NULL, N * CLASSES), stats = gs_test_new_mem(d, zeros, GS_STATS);
    assert_ok(d->ops->softmax_cross_entropy_forward(d, p, stats, mx, ml, N, CLASSES, smoothing));
    assert_ok(d->ops->softmax_cross_entropy_backward(d, p, p, ml, N, CLASSES, smoothing));
    assert_ok(d->ops->read(d, out->stats, stats, sizeof out->stats));
    assert_ok(d->ops->read(d, out->dx, p, sizeof out->dx));
}

/* Computes the parts of all ranks, in rank order, and adds them up. leaves: their number over all ranks. */
static void loss_of_ranks(gs_device *d, const float *x, const int32_t *labels, float smoothing, int ranks,
                          int leaves, loss *out) {
    static float part[N * CLASSES], sums[3 * N], one[3 * N];
    gs_mem mx[RANKS_MOST], p[RANKS_MOST], mmost = gs_test_new_mem(d, NULL, (size_t)(ranks * N)),
                                          msums = gs_test_new_mem(d, NULL, (size_t)(3 * N)),
                                          ml = gs_test_new_mem(d, labels, N);
    memset(sums, 0, sizeof sums);
    for (int r = 0; r < ranks; r++) {
        const gs_share share = {r, ranks, CLASSES, leaves / ranks};
        const int first = gs_share_first(&share), count = gs_share_count(&share);
        for (int i = 0; i < N; i++)
            for (int k = 0; k < count; k++) part[i * count + k] = x[i * CLASSES + first + k];
        mx[r] = gs_test_new_mem(d, part, (size_t)(N * count));
        p[r] = gs_test_new_mem(d, NULL, (size_t)(N * count));
        assert_ok(d->ops->softmax_part_largest(d, mmost, mx[r], N, count, &share));
    }
    for (int r = 0; r < ranks; r++) {
        const gs_share share = {r, ranks, CLASSES, leaves / ranks};
        assert_ok(d->ops->softmax_part_sums(d, p[r], msums, mmost, mx[r], ml, N, gs_share_count(&share),
                                            smoothing, &share));
        assert_ok(d->ops->read(d, one, msums, sizeof one));
        for (int i = 0; i < 3 * N; i++) sums[i] += one[i];
    }
    assert_ok(d->ops->write(d, msums, sums, sizeof sums));
    for (int r = 0; r < ranks; r++) {
        const gs_share share = {r, ranks, CLASSES, leaves / ranks};
        const int first = gs_share_first(&share), count = gs_share_count(&share);
        const float zeros[GS_STATS] = {0};
        gs_mem stats = gs_test_new_mem(d, zeros, GS_STATS);
        assert_ok(d->ops->softmax_part_end(d, p[r], stats, msums, N, count));
        assert_ok(d->ops->softmax_part_backward(d, p[r], p[r], ml, N, count, smoothing, &share));
        assert_ok(d->ops->read(d, out->stats, stats, sizeof out->stats));
        assert_ok(d->ops->read(d, part, p[r], (size_t)(N * count) * sizeof *part));
        for (int i = 0; i < N; i++)
            for (int k = 0; k < count; k++) out->dx[i * CLASSES + first + k] = part[i * count + k];
    }
}

static void logits(float *x, int32_t *labels) {
    for (size_t i = 0; i < N * CLASSES; i++) x[i] = 4 * test_value(i, 7);
    for (int i = 0; i < N; i++) labels[i] = i * 17 % CLASSES;
    x[3 * CLASSES + labels[3]] = 50; /* the right class, by far the largest */
    for (int i = 4; i < 7; i++) {    /* the largest value occurs on two ranks; the first one counts */
        x[i * CLASSES + 1] = x[i * CLASSES + 40] = 30;
        labels[i] = i % 2 ? 1 : 40;
    }
}

static void same_as_whole_on(gs_device *d) {
    static const int ranks[] = {1, 2, 3, 5};
    static float x[N * CLASSES];
    static loss whole, parts;
    int32_t labels[N];
    logits(x, labels);
    for (int smooth = 0; smooth < 2; smooth++)
        for (size_t i = 0; i < sizeof ranks / sizeof *ranks; i++) {
            whole_loss(d, x, labels, 0.1f * (float)smooth, &whole);
            loss_of_ranks(d, x, labels, 0.1f * (float)smooth, ranks[i], ranks[i], &parts);
            assert_near(parts.stats[GS_STAT_LOSS], whole.stats[GS_STAT_LOSS], 1e-3, 0);
            assert_true(parts.stats[GS_STAT_CORRECT] == whole.stats[GS_STAT_CORRECT]);
            assert_true(whole.stats[GS_STAT_CORRECT] >= 2 && parts.stats[GS_STAT_SAMPLES] == N);
            for (int k = 0; k < N * CLASSES; k++) assert_near(parts.dx[k], whole.dx[k], 1e-6, 0);
        }
    x[8 * CLASSES + 30] = NAN; /* the NaN of a diverged model must show in the loss */
    loss_of_ranks(d, x, labels, 0, 2, 2, &parts);
    assert_true(isnan(parts.stats[GS_STAT_LOSS]));
}
ON_EVERY_DEVICE(same_as_whole)

/* One and two ranks give the same bits; so would more ranks if loss_of_ranks added neighbours first. */
TEST(bits_do_not_depend_on_the_ranks) {
    static float x[N * CLASSES];
    static loss one, two;
    int32_t labels[N];
    gs_device *d = gs_test_device("cpu", 1);
    logits(x, labels);
    for (int leaves = 4; leaves <= 8; leaves *= 2) {
        loss_of_ranks(d, x, labels, 0.1f, 1, leaves, &one);
        loss_of_ranks(d, x, labels, 0.1f, 2, leaves, &two);
        assert_memory_equal(one.dx, two.dx, sizeof one.dx);
        assert_memory_equal(one.stats, two.stats, sizeof one.stats);
    }
}
