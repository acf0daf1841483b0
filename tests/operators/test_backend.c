/* What a backend provides besides the operators in the table: memory, data and dropout. */
#include <math.h>
#include "cl/cl.h"
#include "core/philox.h"
#include "tests/support/on_devices.h"
#include "tests/support/operators.h"

/* Exceptions: host_memory, and 16-bit values on cpu. */
static void no_slot_is_empty_on(gs_device *d) {
    const size_t first = offsetof(gs_backend, alloc), size = sizeof(void (*)(void));
    for (size_t at = first; at < sizeof(gs_backend); at += size) {
        void (*slot)(void);
        if (at == offsetof(gs_backend, host_memory)) continue;
        if (at == offsetof(gs_backend, narrow) && strcmp(d->ops->name, "cpu") == 0) continue;
        memcpy(&slot, (const char *)d->ops + at, size);
        if (!slot) fail_msg("%s: slot %zu of the table is empty", d->name, (at - first) / size);
    }
}
ON_EVERY_DEVICE(no_slot_is_empty)

/* Checks the ends of the lists: a word too many or too few shifts all names after it. */
TEST(errors_of_opencl_have_names) {
    static const struct {
        cl_int error;
        const char *says;
    } all[] = {{-1, "x: CL_DEVICE_NOT_FOUND (-1)"},
               {-18, "x: CL_DEVICE_PARTITION_FAILED (-18)"},
               {-20, "x: an OpenCL error without a name (-20)"},
               {-29, "x: an OpenCL error without a name (-29)"},
               {-30, "x: CL_INVALID_VALUE (-30)"},
               {-68, "x: CL_INVALID_DEVICE_PARTITION_COUNT (-68)"},
               {-69, "x: an OpenCL error without a name (-69)"},
               {-1001, "x: CL_PLATFORM_NOT_FOUND_KHR (-1001)"}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        assert_fails(GS_E_OPENCL, all[i].says, gs_cl_check(all[i].error, "x"));
}

/* ---- memory ---- */

enum { COUNT = 57 };

static void numbers(float *v, size_t count, uint32_t salt) {
    for (size_t i = 0; i < count; i++) v[i] = test_value(i, salt);
}

static void memory_on(gs_device *d) {
    const gs_backend *ops = d->ops;
    float a[COUNT], want[COUNT] = {0};
    gs_mem m = gs_test_new_mem(d, NULL, COUNT);
    gs_test_check_floats(d, m, want, COUNT, "new memory");

    numbers(a, COUNT, 1);
    assert_ok(ops->write(d, gs_at(m, 3), a, 20 * sizeof(float)));
    memcpy(want + 3, a, 20 * sizeof(float));
    memset(a, 0, sizeof a); /* write must have copied it */
    gs_test_check_floats(d, m, want, COUNT, "write");
    gs_test_check_floats(d, gs_at(m, 7), want + 7, 11, "read from the middle");

    assert_ok(ops->fill(d, gs_at(m, 30), 2.5f, 9));
    for (int i = 30; i < 39; i++) want[i] = 2.5f;
    gs_test_check_floats(d, m, want, COUNT, "fill");

    gs_mem other = gs_test_new_mem(d, NULL, COUNT);
    assert_ok(ops->copy(d, gs_at(other, 2), gs_at(m, 5), 40));
    float moved[COUNT] = {0};
    memcpy(moved + 2, want + 5, 40 * sizeof(float));
    gs_test_check_floats(d, other, moved, COUNT, "copy");
    assert_ok(ops->copy(d, gs_at(m, 50), gs_at(m, 3), 5));
    memcpy(want + 50, want + 3, 5 * sizeof(float));
    gs_test_check_floats(d, m, want, COUNT, "copy within one allocation");

    float before[20];
    assert_ok(ops->read_begin(d, before, gs_at(m, 3), sizeof before));
    assert_ok(ops->fill(d, gs_at(m, 5), -1, 4));
    assert_ok(ops->read_end(d));
    assert_memory_equal(before, want + 3, sizeof before); /* later changes have no effect */
    for (int i = 5; i < 9; i++) want[i] = -1;
    gs_test_check_floats(d, m, want, COUNT, "work between read_begin and read_end");

    assert_ok(ops->write(d, m, a, 0));
    assert_ok(ops->read(d, a, m, 0));
    assert_ok(ops->read_begin(d, a, m, 0));
    assert_ok(ops->read_end(d));
    assert_ok(ops->fill(d, m, 9, 0));
    assert_ok(ops->copy(d, m, other, 0));
    gs_test_check_floats(d, m, want, COUNT, "operations on nothing");
    assert_ok(ops->finish(d));
    ops->free(d, GS_NONE);
    m = gs_test_alloc(d, 0);
    assert_non_null(m.base);
}
ON_EVERY_DEVICE(memory)

/* On a CPU, the counter from which OpenCL kernels take their tasks is never reset. This test makes it overflow. */
static void task_counter_on(gs_device *d) {
    enum { N = 40, K = 3, M = 70, BEFORE = 2 };
    if (strcmp(d->ops->name, "cl") != 0 || gs_cl_of(d)->tiles.gpu) return;
    float x[N * K], w[M * K], want[N * M];
    numbers(x, N * K, 1);
    numbers(w, M * K, 2);
    gs_mem mx = gs_test_new_mem(d, x, N * K), mw = gs_test_new_mem(d, w, M * K),
           y = gs_test_new_mem(d, NULL, N * M);
    assert_ok(d->ops->linear_forward(d, y, mx, mw, GS_NONE, N, K, M, NULL));
    assert_ok(d->ops->read(d, want, y, sizeof want));
    gs_cl_of(d)->taken = UINT32_MAX - BEFORE;
    assert_ok(d->ops->write(d, gs_cl_of(d)->next, &gs_cl_of(d)->taken, sizeof gs_cl_of(d)->taken));
    for (int round = 0; round < 2; round++) {
        assert_ok(d->ops->fill(d, y, -1, N * M));
        assert_ok(d->ops->linear_forward(d, y, mx, mw, GS_NONE, N, K, M, NULL));
        gs_test_check_floats(d, y, want, N * M, "a product whose tasks begin near the largest number");
    }
    assert_true(gs_cl_of(d)->taken < UINT32_MAX / 2);
}
ON_EVERY_DEVICE(task_counter)

static void map_on(gs_device *d) {
    const gs_backend *ops = d->ops;
    float want[COUNT] = {0};
    gs_mem m = gs_test_new_mem(d, NULL, COUNT);
    assert_ok(ops->fill(d, m, 4, COUNT));
    for (int round = 0; round < 2; round++) {
        float *host;
        assert_ok(ops->map(d, gs_at(m, 5), 10 * sizeof(float), (void **)&host));
        for (int i = 0; i < 10; i++) {
            assert_true(host[i] ==
                        (round == 0 ? 4.0f : (float)i)); /* as written by the device, then by the host */
            host[i] = (float)i;
        }
        assert_ok(ops->unmap(d, gs_at(m, 5), host));
    }
    for (int i = 0; i < COUNT; i++) want[i] = i >= 5 && i < 15 ? (float)(i - 5) : 4;
    gs_test_check_floats(d, m, want, COUNT, "map");
    assert_ok(ops->add(d, m, m, m, COUNT)); /* the device sees what the host wrote */
    for (int i = 0; i < COUNT; i++) want[i] *= 2;
    gs_test_check_floats(d, m, want, COUNT, "map, then add");
}
ON_EVERY_DEVICE(map)

/* ---- from data to tensors ---- */

static void bytes_to_float_on(gs_device *d) {
    unsigned char bytes[260];
    float want[260], scale = 1.0f / 255.0f;
    for (int i = 0; i < 260; i++) bytes[i] = (unsigned char)i;
    gs_mem from = gs_test_new_mem(d, bytes, sizeof bytes / sizeof(float)), to = gs_test_new_mem(d, NULL, 262);
    const size_t counts[] = {0, 1, 7, 33, 257};
    for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) {
        const gs_byte_scale s = {.channels = 1, .scale = {scale}};
        assert_ok(d->ops->bytes_to_float(d, gs_at(to, 1), from, &s, counts[k]));
        for (size_t i = 0; i < counts[k]; i++) want[i] = scale * (float)bytes[i];
        gs_test_check_floats(d, gs_at(to, 1), want, counts[k], "bytes_to_float");
    }
    assert_ok(d->ops->fill(d, to, 5, 262));
    const gs_byte_scale half = {.channels = 1, .scale = {0.5f}, .shift = {-3}};
    assert_ok(d->ops->bytes_to_float(d, gs_at(to, 1), from, &half, 257));
    for (int i = 0; i < 257; i++) want[i + 1] = 0.5f * (float)bytes[i] - 3;
    want[0] = want[258] = 5;
    gs_test_check_floats(d, to, want, 259, "bytes_to_float with a shift");
    if (d->ops->host_memory) {
        assert_ok(d->ops->fill(d, to, 5, 262));
        assert_ok(d->ops->bytes_to_float(d, gs_at(to, 1), d->ops->host_memory(bytes), &half, 257));
        gs_test_check_floats(d, to, want, 259, "bytes_to_float from the host's memory");
    }
}
ON_EVERY_DEVICE(bytes_to_float)

/* Tests planes of every length, so that a vector covers one, two or many channels, and enough pixels for several
 * threads. Each result follows the formula of torchvision's Normalize. */
static void channels_to_float_on(gs_device *d) {
    enum { MOST = 90000 };
    static unsigned char bytes[MOST];
    static float want[MOST], got[MOST + 2];
    const gs_by_channel mean = {4, {0.5f, 0.25f, 0.75f, 0}}, std = {4, {0.5f, 2, 0.25f, 1}};
    static const size_t planes[] = {1, 3, 8, 15, 16, 17, 33, 64, 1024};
    for (int i = 0; i < MOST; i++) bytes[i] = (unsigned char)(i * 37 + i / 256);
    gs_mem from = gs_test_new_mem(d, bytes, MOST / sizeof(float)), to = gs_test_new_mem(d, NULL, MOST + 2);
    for (size_t p = 0; p < sizeof planes / sizeof *planes; p++)
        for (int channels = 2; channels <= 4; channels++) {
            const size_t plane = planes[p], image = plane * (size_t)channels,
                         count = (gs_test_small() ? 300 : MOST) / image * image;
            gs_byte_scale s = {.channels = channels, .plane = plane};
            for (int c = 0; c < channels; c++) {
                s.scale[c] = 1 / (255 * std.of[c]);
                s.shift[c] = -mean.of[c] / std.of[c];
            }
            for (size_t i = 0; i < count;)
                for (int c = 0; c < channels; c++)
                    for (size_t k = 0; k < plane; k++, i++)
                        want[i] = (float)(((double)bytes[i] / 255 - (double)mean.of[c]) / (double)std.of[c]);
            assert_ok(d->ops->fill(d, to, 7, MOST + 2));
            assert_ok(d->ops->bytes_to_float(d, gs_at(to, 1), from, &s, count));
            assert_ok(d->ops->read(d, got, to, (count + 2) * sizeof *got));
            assert_true(got[0] == 7 && got[count + 1] == 7);
            for (size_t i = 0; i < count; i++) /* values are at most 4, rounded three times */
                assert_near(got[i + 1], want[i], 4 * 3 * 0x1p-24, 0);
        }
}
ON_EVERY_DEVICE(channels_to_float)

static void one_hot_on(gs_device *d) {
    enum { N = 33, CLASSES = 7 };
    int32_t labels[N];
    float want[N * CLASSES + 2] = {0};
    for (int i = 0; i < N; i++) {
        labels[i] = (int32_t)(test_hash((size_t)i, 5) % CLASSES);
        want[1 + i * CLASSES + labels[i]] = 1;
    }
    gs_mem from = gs_test_new_mem(d, labels, N), to = gs_test_new_mem(d, NULL, N * CLASSES + 2);
    assert_ok(d->ops->fill(d, gs_at(to, 1), NAN, (size_t)N * CLASSES));
    assert_ok(d->ops->one_hot(d, gs_at(to, 1), from, N, CLASSES));
    assert_ok(d->ops->one_hot(d, to, from, 0, CLASSES));
    gs_test_check_floats(d, to, want, N * CLASSES + 2, "one_hot");
}
ON_EVERY_DEVICE(one_hot)

/* The predicted class is that of the largest output, or of the first one on a tie. A NaN counts as larger than any
 * number, as in PyTorch's argmax. */
static void right_answers_on(gs_device *d) {
    enum { N = 6, CLASSES = 4 };
    static const float x[N * CLASSES] = {1, 3, 3, 2, /* */ 5,    NAN, 9, NAN, /* */ NAN, INFINITY, 2, 1,
                                         4, 3, 2, 1, /* */ -NAN, 0,   0, 0,   /* */ 1,   2,        3, NAN};
    static const int32_t first[N] = {1, 1, 0, 0, 0, 3}, other[N] = {2, 2, 1, 1, 1, 2};
    float stats[GS_STATS], zeros[N * CLASSES] = {0};
    gs_mem logits = gs_test_new_mem(d, x, N * CLASSES), p = gs_test_new_mem(d, NULL, N * CLASSES),
           sum = gs_test_new_mem(d, NULL, GS_STATS);
    for (int right = 0; right < 2; right++) {
        gs_mem labels = gs_test_new_mem(d, right ? first : other, N),
               target = gs_test_new_mem(d, zeros, N * CLASSES);
        assert_ok(d->ops->fill(d, sum, 0, GS_STATS));
        assert_ok(d->ops->softmax_cross_entropy_forward(d, p, sum, logits, labels, N, CLASSES, 0));
        assert_ok(d->ops->read(d, stats, sum, sizeof stats));
        assert_float_equal(stats[GS_STAT_CORRECT], right ? N : 0, 0);
        assert_ok(d->ops->fill(d, sum, 0, GS_STATS));
        assert_ok(d->ops->one_hot(d, target, labels, N, CLASSES));
        assert_ok(d->ops->mean_squared_error_forward(d, sum, logits, target, N, CLASSES));
        assert_ok(d->ops->read(d, stats, sum, sizeof stats));
        assert_float_equal(stats[GS_STAT_CORRECT], right ? N : 0, 0);
        assert_true(isnan(stats[GS_STAT_LOSS]));
    }
}
ON_EVERY_DEVICE(right_answers)

static void add_on(gs_device *d) {
    const size_t counts[] = {0, 1, 7, 33, 257, 40003};
    for (int k = 0; k < (gs_test_small() ? 4 : 6); k++) {
        size_t n = counts[k];
        float *a = calloc(3 * n + 3, sizeof *a), *b = a + n + 1, *sum = b + n + 1;
        assert_non_null(a);
        numbers(a, n, 1);
        numbers(b, n, 2);
        for (size_t i = 0; i < n; i++) sum[i] = a[i] + b[i];
        gs_mem x = gs_test_new_mem(d, a, n), y = gs_test_new_mem(d, b, n),
               z = gs_test_new_mem(d, NULL, n + 1);
        assert_ok(d->ops->add(d, gs_at(z, 1), x, y, n));
        gs_test_check_floats(d, gs_at(z, 1), sum, n, "add");
        assert_ok(d->ops->add(d, x, x, y, n)); /* overwriting the first input */
        gs_test_check_floats(d, x, sum, n, "add over a");
        assert_ok(d->ops->write(d, x, a, n * sizeof(float)));
        assert_ok(d->ops->add(d, y, x, y, n)); /* overwriting the second input */
        gs_test_check_floats(d, y, sum, n, "add over b");
        free(a);
    }
}
ON_EVERY_DEVICE(add)

/* ---- dropout ---- */

/* Dropout of one element, by the formula in backend.h. */
static float dropped(float x, size_t i, gs_dropout_draw draw) {
    uint32_t word[4];
    gs_philox(draw.key, draw.hi, (draw.first + i) / 4, word);
    return gs_uniform(word[(draw.first + i) % 4]) >= draw.p ? x * (1.0f / (1.0f - draw.p)) : 0;
}

static void check_dropout(gs_device *d, gs_dropout_draw draw, size_t count) {
    float *x = gs_test_calloc(count + 1, sizeof *x), *want = gs_test_calloc(count + 1, sizeof *want),
          *got = calloc(count + 1, sizeof *got);
    assert_true(x && want && got);
    size_t zeros = 0;
    for (size_t i = 0; i < count; i++) {
        x[i] = test_value(i, 1) + 2; /* never 0 */
        want[i] = dropped(x[i], i, draw);
        zeros += want[i] == 0;
    }
    gs_mem a = gs_test_new_mem(d, x, count), y = gs_test_new_mem(d, NULL, count + 3);
    gs_mem places[] = {gs_at(y, 3), a}; /* then in place */
    for (size_t k = 0; k < sizeof places / sizeof *places; k++) {
        assert_ok(d->ops->write(d, a, x, count * sizeof *x));
        assert_ok(d->ops->dropout(d, places[k], a, count, draw));
        assert_ok(d->ops->read(d, got, places[k], count * sizeof *got));
        for (size_t i = 0; i < count; i++) {
            if ((got[i] == 0) != (want[i] == 0))
                fail_msg("dropout on %s: element %zu of %zu (first %llu) is %g, wanted %g", d->name, i, count,
                         (unsigned long long)draw.first, (double)got[i], (double)want[i]);
            assert_near(got[i], want[i], 0, 1e-6); /* 1 / (1 - p) may be rounded differently */
        }
    }
    if (count > 200) assert_near((double)zeros / (double)count, draw.p, 5 * sqrt(0.25 / (double)count), 0);
    free(got);
}

static void dropout_mask_on(gs_device *d) {
    const size_t counts[] = {0, 1, 7, 33, 257, 4099};
    const uint64_t firsts[] = {0, 1, 2, 3, 5, (UINT64_C(1) << 34) + 3};
    for (int k = 0; k < (gs_test_small() ? 4 : 6); k++)
        for (size_t f = 0; f < sizeof firsts / sizeof *firsts; f++) {
            gs_dropout_draw draw = {.p = k == 2 ? 0 : 0.3f,
                                    .key = 0x123456789abcdef0u + (uint64_t)k,
                                    .hi = gs_stream_hi(GS_STREAM_DROPOUT, (uint64_t)7 << 40 | 12345),
                                    .first = firsts[f]};
            check_dropout(d, draw, counts[k]);
        }
}
ON_EVERY_DEVICE(dropout_mask)
