/* The parts of a backend that are not in the table of operators: memory, data, dropout, and special values.
 */
#include <math.h>
#include "cl/cl.h"
#include "tests/devices.h"
#include "tests/operators.h"
#include "tests/test.h"

/* Run a test on every device. */
static void on_every_device(void (*test)(gs_device *)) {
    int count;
    gs_device *const *devices = gs_test_devices(&count);
    for (int d = 0; d < count; d++) test(devices[d]);
}

#define ON_EVERY_DEVICE(name)                                                                                \
    static void name(void **state) {                                                                         \
        (void)state;                                                                                         \
        on_every_device(name##_on);                                                                          \
    }

static gs_mem new_mem(gs_device *d, const void *data, size_t count) {
    gs_mem m;
    assert_ok(d->ops->alloc(d, count * sizeof(float), &m));
    if (data) assert_ok(d->ops->write(d, m, data, count * sizeof(float)));
    return m;
}

static void check_floats(gs_device *d, gs_mem m, const float *want, size_t count, const char *what) {
    float *got = malloc((count + 1) * sizeof *got);
    assert_non_null(got);
    assert_ok(d->ops->read(d, got, m, count * sizeof *got));
    for (size_t i = 0; i < count; i++)
        if (got[i] != want[i])
            fail_msg("%s on %s: element %zu is %.9g, wanted %.9g", what, d->name, i, (double)got[i],
                     (double)want[i]);
    free(got);
}

/* But for host_memory; the layers with relu, which are there all four or not at all; and those with max pooling too, all three or
 * none. */
static void no_slot_is_empty_on(gs_device *d) {
    const gs_backend *ops = d->ops;
    bool fuses = ops->linear_relu_forward;
    assert_true(fuses == (ops->linear_relu_backward != NULL));
    assert_true(fuses == (ops->conv2d_relu_forward != NULL));
    assert_true(fuses == (ops->conv2d_relu_backward != NULL));
    bool pools = ops->fuses_max_pool2d;
    assert_true(pools == (ops->conv2d_relu_max_pool2d_forward != NULL));
    assert_true(pools == (ops->conv2d_relu_max_pool2d_backward != NULL));
    const size_t first = offsetof(gs_backend, alloc), size = sizeof(void (*)(void));
    for (size_t at = first; at < sizeof(gs_backend); at += size) {
        void (*slot)(void);
        if (at == offsetof(gs_backend, host_memory)) continue;
        if (!fuses && at >= offsetof(gs_backend, linear_relu_forward) &&
            at <= offsetof(gs_backend, conv2d_relu_backward))
            continue;
        if (!pools && at >= offsetof(gs_backend, fuses_max_pool2d) &&
            at <= offsetof(gs_backend, conv2d_relu_max_pool2d_backward))
            continue;
        memcpy(&slot, (const char *)d->ops + at, size);
        if (!slot) fail_msg("%s: slot %zu of the table is empty", d->name, (at - first) / size);
    }
}
ON_EVERY_DEVICE(no_slot_is_empty)

/* ---- memory ---- */

enum { COUNT = 57 };

static void numbers(float *v, size_t count, uint32_t salt) {
    for (size_t i = 0; i < count; i++) v[i] = test_value(i, salt);
}

static void memory_on(gs_device *d) {
    const gs_backend *ops = d->ops;
    float a[COUNT], want[COUNT] = {0};
    gs_mem m = new_mem(d, NULL, COUNT);
    check_floats(d, m, want, COUNT, "new memory");

    numbers(a, COUNT, 1);
    assert_ok(ops->write(d, gs_at(m, 3), a, 20 * sizeof(float)));
    memcpy(want + 3, a, 20 * sizeof(float));
    memset(a, 0, sizeof a); /* write has taken its copy */
    check_floats(d, m, want, COUNT, "write");
    check_floats(d, gs_at(m, 7), want + 7, 11, "read from the middle");

    assert_ok(ops->fill(d, gs_at(m, 30), 2.5f, 9));
    for (int i = 30; i < 39; i++) want[i] = 2.5f;
    check_floats(d, m, want, COUNT, "fill");

    gs_mem other = new_mem(d, NULL, COUNT);
    assert_ok(ops->copy(d, gs_at(other, 2), gs_at(m, 5), 40));
    float moved[COUNT] = {0};
    memcpy(moved + 2, want + 5, 40 * sizeof(float));
    check_floats(d, other, moved, COUNT, "copy");
    assert_ok(ops->copy(d, gs_at(m, 50), gs_at(m, 3), 5));
    memcpy(want + 50, want + 3, 5 * sizeof(float));
    check_floats(d, m, want, COUNT, "copy within one allocation");

    float before[20];
    assert_ok(ops->read_begin(d, before, gs_at(m, 3), sizeof before));
    assert_ok(ops->fill(d, gs_at(m, 5), -1, 4));
    assert_ok(ops->read_end(d));
    assert_memory_equal(before, want + 3, sizeof before); /* what came after it does not show */
    for (int i = 5; i < 9; i++) want[i] = -1;
    check_floats(d, m, want, COUNT, "work between read_begin and read_end");

    assert_ok(ops->write(d, m, a, 0));
    assert_ok(ops->read(d, a, m, 0));
    assert_ok(ops->read_begin(d, a, m, 0));
    assert_ok(ops->read_end(d));
    assert_ok(ops->fill(d, m, 9, 0));
    assert_ok(ops->copy(d, m, other, 0));
    check_floats(d, m, want, COUNT, "operations on nothing");
    assert_ok(ops->finish(d));
    ops->free(d, m);
    ops->free(d, other);
    ops->free(d, GS_NONE);
    assert_ok(ops->alloc(d, 0, &m));
    assert_non_null(m.base);
    ops->free(d, m);
}
ON_EVERY_DEVICE(memory)

/* OpenCL on a CPU: the counter from which kernels take their tasks is never set back. Here it passes its largest value. */
static void task_counter_on(gs_device *d) {
    enum { N = 40, K = 3, M = 70, BEFORE = 2 };
    if (strcmp(d->ops->name, "cl") != 0 || gs_cl_of(d)->tiles.gpu) return;
    float x[N * K], w[M * K], want[N * M];
    numbers(x, N * K, 1);
    numbers(w, M * K, 2);
    gs_mem mx = new_mem(d, x, N * K), mw = new_mem(d, w, M * K), y = new_mem(d, NULL, N * M);
    assert_ok(d->ops->linear_forward(d, y, mx, mw, GS_NONE, N, K, M));
    assert_ok(d->ops->read(d, want, y, sizeof want));
    gs_cl_of(d)->taken = UINT32_MAX - BEFORE;
    assert_ok(d->ops->write(d, gs_cl_of(d)->next, &gs_cl_of(d)->taken, sizeof gs_cl_of(d)->taken));
    for (int round = 0; round < 2; round++) {
        assert_ok(d->ops->fill(d, y, -1, N * M));
        assert_ok(d->ops->linear_forward(d, y, mx, mw, GS_NONE, N, K, M));
        check_floats(d, y, want, N * M, "a product whose tasks begin near the largest number");
    }
    assert_true(gs_cl_of(d)->taken < UINT32_MAX / 2);
    d->ops->free(d, mx);
    d->ops->free(d, mw);
    d->ops->free(d, y);
}
ON_EVERY_DEVICE(task_counter)

static void map_on(gs_device *d) {
    const gs_backend *ops = d->ops;
    float want[COUNT] = {0};
    gs_mem m = new_mem(d, NULL, COUNT);
    assert_ok(ops->fill(d, m, 4, COUNT));
    for (int round = 0; round < 2; round++) {
        float *host;
        assert_ok(ops->map(d, gs_at(m, 5), 10 * sizeof(float), (void **)&host));
        for (int i = 0; i < 10; i++) {
            assert_true(host[i] ==
                        (round == 0 ? 4.0f : (float)i)); /* what the device wrote before, or we did */
            host[i] = (float)i;
        }
        assert_ok(ops->unmap(d, gs_at(m, 5), host));
    }
    for (int i = 0; i < COUNT; i++) want[i] = i >= 5 && i < 15 ? (float)(i - 5) : 4;
    check_floats(d, m, want, COUNT, "map");
    assert_ok(ops->add(d, m, m, m, COUNT)); /* the device sees what the host wrote */
    for (int i = 0; i < COUNT; i++) want[i] *= 2;
    check_floats(d, m, want, COUNT, "map, then add");
    ops->free(d, m);
}
ON_EVERY_DEVICE(map)

/* ---- from data to tensors ---- */

static void bytes_to_float_on(gs_device *d) {
    unsigned char bytes[260];
    float want[260], scale = 1.0f / 255.0f;
    for (int i = 0; i < 260; i++) bytes[i] = (unsigned char)i;
    gs_mem from = new_mem(d, bytes, sizeof bytes / sizeof(float)), to = new_mem(d, NULL, 262);
    const size_t counts[] = {0, 1, 7, 33, 257};
    for (int k = 0; k < 5; k++) {
        assert_ok(d->ops->bytes_to_float(d, gs_at(to, 1), from, scale, 0, counts[k]));
        for (size_t i = 0; i < counts[k]; i++) want[i] = scale * (float)bytes[i];
        check_floats(d, gs_at(to, 1), want, counts[k], "bytes_to_float");
    }
    assert_ok(d->ops->fill(d, to, 5, 262));
    assert_ok(d->ops->bytes_to_float(d, gs_at(to, 1), from, 0.5f, -3, 257));
    for (int i = 0; i < 257; i++) want[i + 1] = 0.5f * (float)bytes[i] - 3;
    want[0] = want[258] = 5;
    check_floats(d, to, want, 259, "bytes_to_float with a shift");
    if (d->ops->host_memory) {
        assert_ok(d->ops->fill(d, to, 5, 262));
        assert_ok(d->ops->bytes_to_float(d, gs_at(to, 1), d->ops->host_memory(bytes), 0.5f, -3, 257));
        check_floats(d, to, want, 259, "bytes_to_float from the host's memory");
    }
    d->ops->free(d, from);
    d->ops->free(d, to);
}
ON_EVERY_DEVICE(bytes_to_float)

static void one_hot_on(gs_device *d) {
    enum { N = 33, CLASSES = 7 };
    int32_t labels[N];
    float want[N * CLASSES + 2] = {0};
    for (int i = 0; i < N; i++) {
        labels[i] = (int32_t)(test_hash((size_t)i, 5) % CLASSES);
        want[1 + i * CLASSES + labels[i]] = 1;
    }
    gs_mem from = new_mem(d, labels, N), to = new_mem(d, NULL, N * CLASSES + 2);
    assert_ok(d->ops->fill(d, gs_at(to, 1), NAN, (size_t)N * CLASSES));
    assert_ok(d->ops->one_hot(d, gs_at(to, 1), from, N, CLASSES));
    assert_ok(d->ops->one_hot(d, to, from, 0, CLASSES));
    check_floats(d, to, want, N * CLASSES + 2, "one_hot");
    d->ops->free(d, from);
    d->ops->free(d, to);
}
ON_EVERY_DEVICE(one_hot)

static void add_on(gs_device *d) {
    const size_t counts[] = {0, 1, 7, 33, 257, 40003};
    for (int k = 0; k < (gs_test_small() ? 4 : 6); k++) {
        size_t n = counts[k];
        float *a = calloc(3 * n + 3, sizeof *a), *b = a + n + 1, *sum = b + n + 1;
        assert_non_null(a);
        numbers(a, n, 1);
        numbers(b, n, 2);
        for (size_t i = 0; i < n; i++) sum[i] = a[i] + b[i];
        gs_mem x = new_mem(d, a, n), y = new_mem(d, b, n), z = new_mem(d, NULL, n + 1);
        assert_ok(d->ops->add(d, gs_at(z, 1), x, y, n));
        check_floats(d, gs_at(z, 1), sum, n, "add");
        assert_ok(d->ops->add(d, x, x, y, n)); /* over its first */
        check_floats(d, x, sum, n, "add over a");
        assert_ok(d->ops->write(d, x, a, n * sizeof(float)));
        assert_ok(d->ops->add(d, y, x, y, n)); /* over its second */
        check_floats(d, y, sum, n, "add over b");
        d->ops->free(d, x);
        d->ops->free(d, y);
        d->ops->free(d, z);
        free(a);
    }
}
ON_EVERY_DEVICE(add)

/* ---- dropout ---- */

/* What backend.h says, element by element. */
static float dropped(float x, size_t i, gs_dropout_draw draw) {
    uint32_t word[4];
    gs_philox(draw.key, draw.hi, (draw.first + i) / 4, word);
    return gs_uniform(word[(draw.first + i) % 4]) >= draw.p ? x * (1.0f / (1.0f - draw.p)) : 0;
}

static void check_dropout(gs_device *d, gs_dropout_draw draw, size_t count) {
    float *x = calloc(count + 1, sizeof *x), *want = calloc(count + 1, sizeof *want),
          *got = calloc(count + 1, sizeof *got);
    assert_true(x && want && got);
    size_t zeros = 0;
    for (size_t i = 0; i < count; i++) {
        x[i] = test_value(i, 1) + 2; /* never 0 */
        want[i] = dropped(x[i], i, draw);
        zeros += want[i] == 0;
    }
    gs_mem a = new_mem(d, x, count), y = new_mem(d, NULL, count + 3);
    gs_mem places[] = {gs_at(y, 3), a}; /* then in place */
    for (int k = 0; k < 4; k++) {
        gs_status (*op)(gs_device *, gs_mem, gs_mem, size_t, gs_dropout_draw) =
            k % 2 ? d->ops->dropout_backward : d->ops->dropout_forward; /* the same function of x and of dy */
        assert_ok(d->ops->write(d, a, x, count * sizeof *x));
        assert_ok(op(d, places[k / 2], a, count, draw));
        assert_ok(d->ops->read(d, got, places[k / 2], count * sizeof *got));
        for (size_t i = 0; i < count; i++) {
            if ((got[i] == 0) != (want[i] == 0))
                fail_msg("dropout on %s: element %zu of %zu (first %llu) is %g, wanted %g", d->name, i, count,
                         (unsigned long long)draw.first, (double)got[i], (double)want[i]);
            assert_near(got[i], want[i], 0, 1e-6); /* 1 / (1 - p) may be rounded in another way */
        }
    }
    if (count > 200) assert_near((double)zeros / (double)count, draw.p, 5 * sqrt(0.25 / (double)count), 0);
    d->ops->free(d, a);
    d->ops->free(d, y);
    free(x);
    free(want);
    free(got);
}

static void dropout_mask_on(gs_device *d) {
    const size_t counts[] = {0, 1, 7, 33, 257, 4099};
    const uint64_t firsts[] = {0, 1, 2, 3, 5, (UINT64_C(1) << 34) + 3};
    for (int k = 0; k < (gs_test_small() ? 4 : 6); k++)
        for (int f = 0; f < 6; f++) {
            gs_dropout_draw draw = {.p = k == 2 ? 0 : 0.3f,
                                    .key = 0x123456789abcdef0u + (uint64_t)k,
                                    .hi = gs_stream_hi(GS_STREAM_DROPOUT, (uint64_t)7 << 40 | 12345),
                                    .first = firsts[f]};
            check_dropout(d, draw, counts[k]);
        }
}
ON_EVERY_DEVICE(dropout_mask)

/* ---- values that need care ---- */

static void max_pool2d_ties_and_nan_on(gs_device *d) {
    /* 4 windows of 1x3: all equal; the largest twice; NaN in the middle; all -infinity */
    const float x[12] = {2, 2, 2, 1, 3, 3, 9, NAN, 10, -INFINITY, -INFINITY, -INFINITY};
    const int32_t want_index[4] = {0, 4, 7, 9};
    gs_pool2d_sizes s = {1, 1, 12, 1, 4, 1, 3, 1, 3, 0, 0};
    gs_mem from = new_mem(d, x, 12), y = new_mem(d, NULL, 4), index = new_mem(d, NULL, 4);
    assert_ok(d->ops->max_pool2d_forward(d, y, index, from, 1, &s));
    float got[4];
    int32_t got_index[4];
    assert_ok(d->ops->read(d, got, y, sizeof got));
    assert_ok(d->ops->read(d, got_index, index, sizeof got_index));
    for (int i = 0; i < 4; i++) {
        assert_int_equal(got_index[i], want_index[i]);
        assert_true(got[i] == x[want_index[i]] || (isnan(got[i]) && isnan(x[want_index[i]])));
    }
    d->ops->free(d, from);
    d->ops->free(d, y);
    d->ops->free(d, index);
}
ON_EVERY_DEVICE(max_pool2d_ties_and_nan)

/* Windows of 2x2 have loops of their own: widths that end inside of a vector, odd sizes, planes one behind the other, ties
 * (values are 0, 1, 2), at most one NaN in a window; and backward, which must write what no window covers. */
enum {
    POOL_PLANES = 3,
    POOL_MOST_H = 6,
    POOL_MOST_W = 37,
    POOL_MOST = POOL_PLANES * POOL_MOST_H * POOL_MOST_W
};

static void pool_2x2_of(gs_device *d, int height, int width) {
    gs_pool2d_sizes s = {POOL_PLANES, height, width, height / 2, width / 2, 2, 2, 2, 2, 0, 0};
    const size_t in = (size_t)(POOL_PLANES * height * width), out = (size_t)(POOL_PLANES * s.out_h * s.out_w);
    float x[POOL_MOST], want_dx[POOL_MOST] = {0}, dy[POOL_MOST];
    int32_t want[POOL_MOST], got[POOL_MOST];
    for (size_t i = 0; i < in; i++) x[i] = i % 53 == 7 ? NAN : (float)(test_hash(i, 1) % 3);
    for (size_t i = 0; i < out; i++) {
        dy[i] = (float)i + 1;
        int plane = (int)i / (s.out_h * s.out_w), r = (int)i / s.out_w % s.out_h, o = (int)i % s.out_w;
        const float *from = x + (size_t)(plane * height * width);
        want[i] = 2 * r * width + 2 * o;
        for (int k = 1; k < 4; k++) {
            int place = (2 * r + k / 2) * width + 2 * o + k % 2;
            if (from[place] > from[want[i]] || isnan(from[place])) want[i] = place;
        }
        want_dx[(size_t)(plane * height * width) + (size_t)want[i]] = dy[i];
    }
    gs_mem from = new_mem(d, x, in), y = new_mem(d, NULL, out), index = new_mem(d, NULL, out),
           above = new_mem(d, dy, out), dx = new_mem(d, x, in);
    assert_ok(d->ops->max_pool2d_forward(d, y, index, from, 1, &s));
    assert_ok(d->ops->read(d, got, index, out * sizeof *got));
    for (size_t i = 0; i < out; i++) assert_int_equal(got[i], want[i]);
    assert_ok(d->ops->max_pool2d_backward(d, dx, above, index, 1, &s));
    check_floats(d, dx, want_dx, in, "max_pool2d_backward");
    const gs_mem all[] = {from, y, index, above, dx};
    for (int i = 0; i < 5; i++) d->ops->free(d, all[i]);
}

static void max_pool2d_2x2_on(gs_device *d) {
    const int widths[] = {2, 7, 8, 10, 15, 16, 19, 28, POOL_MOST_W};
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        pool_2x2_of(d, 5, widths[i]);
        pool_2x2_of(d, POOL_MOST_H, widths[i]);
    }
}
ON_EVERY_DEVICE(max_pool2d_2x2)

/* Huge logits: exp(x) alone would overflow, and log(0) would be infinite. A tie goes to the first. */
static void softmax_extremes_on(gs_device *d) {
    const float x[12] = {1000, 0, -1000, 1000, 0, -1000, 5, 5, 5, -2e4f, -1e4f, -2e4f};
    const int32_t labels[4] = {0, 1, 0, 1};
    const float want_p[12] = {1, 0, 0, 1, 0, 0, 1 / 3.0f, 1 / 3.0f, 1 / 3.0f, 0, 1, 0};
    gs_mem from = new_mem(d, x, 12), p = new_mem(d, NULL, 12), stats = new_mem(d, NULL, LOSS_STATS),
           to = new_mem(d, labels, 4);
    assert_ok(d->ops->softmax_cross_entropy_forward(d, p, stats, from, to, 4, 3));
    float got[12], sums[LOSS_STATS];
    assert_ok(d->ops->read(d, got, p, sizeof got));
    assert_ok(d->ops->read(d, sums, stats, sizeof sums));
    for (int i = 0; i < 12; i++) assert_near(got[i], want_p[i], 1e-7, 1e-6);
    assert_near(sums[GS_STAT_LOSS], 1000 + log(3), 0, 1e-6);
    assert_near(sums[GS_STAT_CORRECT], 3, 0, 0);
    assert_near(sums[GS_STAT_SAMPLES], 4, 0, 0);
    d->ops->free(d, from);
    d->ops->free(d, p);
    d->ops->free(d, stats);
    d->ops->free(d, to);
}
ON_EVERY_DEVICE(softmax_extremes)

GS_TESTS(backend, cmocka_unit_test(no_slot_is_empty), cmocka_unit_test(memory),
         cmocka_unit_test(task_counter), cmocka_unit_test(map), cmocka_unit_test(bytes_to_float),
         cmocka_unit_test(one_hot), cmocka_unit_test(add), cmocka_unit_test(dropout_mask),
         cmocka_unit_test(max_pool2d_ties_and_nan), cmocka_unit_test(max_pool2d_2x2),
         cmocka_unit_test(softmax_extremes))
