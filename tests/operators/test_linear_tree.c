/* linear_tree_*: linear layers' sums, divided among workers and added in an order that does not depend on the
 * division. */
#include <math.h>

#include "tests/support/on_devices.h"

enum { N = 71, IN = 48, OUT = 36, BLOCK = OUT / 3 };

static float numbers[4][N * IN + N * OUT + IN * OUT];

/* y (N, OUT) on the device, from host memory. */
static void forward(gs_device *d, float *y, const float *x, const float *w, int in, int leaves) {
    const gs_mem to = gs_test_new_mem(d, NULL, N * OUT);
    assert_ok(d->ops->linear_tree_forward(d, to, gs_test_new_mem(d, x, N * (size_t)in),
                                          gs_test_new_mem(d, w, OUT * (size_t)in), N, in, OUT, leaves));
    assert_ok(d->ops->read(d, y, to, N * OUT * sizeof *y));
}

/* dx, dw and, unless NULL, db, of `out` outputs; x is numbers[0]. */
static void backward(gs_device *d, float *dx, float *dw, float *db, const float *dy, const float *w, int out,
                     bool add, int leaves) {
    const size_t o = (size_t)out;
    const gs_mem to = gs_test_new_mem(d, NULL, N * IN), to_dw = gs_test_new_mem(d, dw, o * IN),
                 to_db = db ? gs_test_new_mem(d, db, o) : GS_NONE;
    assert_ok(d->ops->linear_tree_backward(d, to, to_dw, to_db, gs_test_new_mem(d, dy, N * o),
                                           gs_test_new_mem(d, numbers[0], N * IN),
                                           gs_test_new_mem(d, w, o * IN), N, IN, out, add, leaves, 3, NULL));
    assert_ok(d->ops->read(d, dx, to, N * IN * sizeof *dx));
    assert_ok(d->ops->read(d, dw, to_dw, o * IN * sizeof *dw));
    if (db) assert_ok(d->ops->read(d, db, to_db, o * sizeof *db));
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
    backward(d, dx, dw, NULL, part_dy, part_w, own, false, 8 / ranks);
}

static void y_of_rank(gs_device *d, const float *x, const float *w, int r, int ranks, float *y) {
    static float part_x[N * IN], part_w[OUT * IN];
    const int own = IN / ranks;
    for (int i = 0; i < N; i++) memcpy(part_x + i * own, x + i * IN + r * own, (size_t)own * sizeof(float));
    for (int o = 0; o < OUT; o++) memcpy(part_w + o * own, w + o * IN + r * own, (size_t)own * sizeof(float));
    forward(d, y, part_x, part_w, own, 8 / ranks);
}

static void near(const float *x, const double *wanted, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (fabs((double)x[i] - wanted[i]) > 2e-6) fail_msg("%zu: %g, not %g", i, (double)x[i], wanted[i]);
}

/* Ranks that each hold part of a sum, and add neighbours' parts first, get the bits of one rank that holds everything.
 * The results are y = x w^T, dx = dy w, dw += dy^T x and db += sum of dy. */
static void sums_do_not_depend_on_the_ranks_on(gs_device *d) {
    static float y[N * OUT], dx[N * IN], dw[OUT * IN], db[OUT], part[4][N * (IN > OUT ? IN : OUT)];
    double wanted[4][N * (IN > OUT ? IN : OUT)] = {{0}};
    float *x = numbers[0], *w = numbers[1], *dy = numbers[2];
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
    forward(d, y, x, w, IN, 8);
    backward(d, dx, dw, db, dy, w, OUT, true, 8);
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
ON_EVERY_DEVICE(sums_do_not_depend_on_the_ranks)
