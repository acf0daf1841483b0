/* linear_tree_*: linear layers' sums, divided among workers and added in an order that does not depend on the
 * division. */
#include <math.h>

#include "tests/support/on_devices.h"

enum { N = 71, IN = 48, OUT = 36, BLOCK = OUT / 3 };

static float numbers[4][N * IN + N * OUT + IN * OUT];

static gs_mem on_cpu(float *floats) {
    return (gs_mem){.base = floats};
}

static gs_mem number_at(int i) {
    return on_cpu(numbers[i]);
}

/* The dx that rank r of `ranks` computes from its share of the outputs. */
static void dx_of_rank(gs_device *d, const float *dy, const float *w, int r, int ranks, float *dx) {
    static float part_dy[N * OUT], part_w[OUT * IN], dw[OUT * IN];
    const int own = OUT / ranks, block = own / 3;
    for (int q = 0; q < 3; q++)
        for (int o = 0; o < block; o++) {
            const int from = q * BLOCK + r * block + o, to = q * block + o;
            for (int i = 0; i < N; i++) part_dy[i * own + to] = dy[i * OUT + from];
            memcpy(part_w + (size_t)to * IN, w + (size_t)from * IN, IN * sizeof(float));
        }
    assert_ok(d->ops->linear_tree_backward(d, on_cpu(dx), on_cpu(dw), GS_NONE, on_cpu(part_dy), number_at(0),
                                           on_cpu(part_w), N, IN, own, false, 8 / ranks, 3, NULL));
}

static void y_of_rank(gs_device *d, const float *x, const float *w, int r, int ranks, float *y) {
    static float part_x[N * IN], part_w[OUT * IN];
    const int own = IN / ranks;
    for (int i = 0; i < N; i++) memcpy(part_x + i * own, x + i * IN + r * own, (size_t)own * sizeof(float));
    for (int o = 0; o < OUT; o++) memcpy(part_w + o * own, w + o * IN + r * own, (size_t)own * sizeof(float));
    assert_ok(
        d->ops->linear_tree_forward(d, on_cpu(y), on_cpu(part_x), on_cpu(part_w), N, own, OUT, 8 / ranks));
}

static void near(const float *x, const double *wanted, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (fabs((double)x[i] - wanted[i]) > 2e-6) fail_msg("%zu: %g, not %g", i, (double)x[i], wanted[i]);
}

/* Ranks that each hold part of a sum, and add neighbours' parts first, get the bits of one rank that holds everything.
 * The results are y = x w^T, dx = dy w, dw += dy^T x and db += sum of dy. */
TEST(sums_do_not_depend_on_the_ranks) {
    static float y[N * OUT], dx[N * IN], dw[OUT * IN], db[OUT], part[4][N * (IN > OUT ? IN : OUT)];
    static double wanted[4][N * (IN > OUT ? IN : OUT)];
    float *x = numbers[0], *w = numbers[1], *dy = numbers[2];
    gs_device *d = gs_test_device("cpu", 1);
    for (int a = 0; a < 3; a++)
        for (int i = 0; i < N * (IN > OUT ? IN : OUT); i++)
            numbers[a][i] = 0.3f * sinf((float)(i * (a + 2) + a));
    for (int i = 0; i < N; i++)
        for (int o = 0; o < OUT; o++)
            for (int k = 0; k < IN; k++) {
                wanted[0][i * OUT + o] += (double)x[i * IN + k] * (double)w[o * IN + k];
                wanted[1][i * IN + k] += (double)dy[i * OUT + o] * (double)w[o * IN + k];
                wanted[2][o * IN + k] += (double)dy[i * OUT + o] * (double)x[i * IN + k];
                if (k == 0) wanted[3][o] += (double)dy[i * OUT + o];
            }
    for (int i = 0; i < OUT * IN; i++) wanted[2][i] += (double)(dw[i] = 1);
    for (int i = 0; i < OUT; i++) wanted[3][i] += (double)(db[i] = 2);
    assert_ok(d->ops->linear_tree_forward(d, on_cpu(y), number_at(0), number_at(1), N, IN, OUT, 8));
    assert_ok(d->ops->linear_tree_backward(d, on_cpu(dx), on_cpu(dw), on_cpu(db), number_at(2), number_at(0),
                                           number_at(1), N, IN, OUT, true, 8, 3, NULL));
    near(y, wanted[0], N * OUT);
    near(dx, wanted[1], N * IN);
    near(dw, wanted[2], OUT * IN);
    near(db, wanted[3], OUT);
    for (int ranks = 1; ranks <= 4; ranks *= 2)
        for (int backward = 0; backward < 2; backward++) {
            for (int r = 0; r < ranks; r++)
                (backward ? dx_of_rank : y_of_rank)(d, backward ? dy : x, w, r, ranks, part[r]);
            const int count = backward ? N * IN : N * OUT;
            for (int distance = 1; distance < ranks; distance *= 2)
                for (int r = 0; r < ranks; r += 2 * distance)
                    for (int i = 0; i < count; i++) part[r][i] += part[r + distance][i];
            assert_memory_equal(part[0], backward ? dx : y, (size_t)count * sizeof(float));
        }
}
