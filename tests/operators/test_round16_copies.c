/* In 16-bit precision, convolutions, attention and gelu on OpenCL copy f32 arrays a few samples or numbers at a time
 * (cl/round16.h). Copying all at once or one by one gives the same bits, and the memory for the copies does not grow
 * with the batch. */

#include "cl/cl.h"
#include "core/philox.h"
#include "cpu/round16.h"
#include "tests/support/on_devices.h"
#include "tests/support/training.h"

static gs_device *device;
static gs_precision precision;

static gs_mem room(size_t floats) {
    return gs_test_alloc(device, floats * sizeof(float));
}

/* Random numbers between -1 and 1 that are exact in 16 bits. */
static gs_mem drawn(size_t floats, uint64_t stream) {
    float *x = gs_test_malloc(floats * sizeof *x);
    const gs_mem m = room(floats);
    for (size_t i = 0; i < floats; i++) {
        uint32_t words[4];
        gs_philox(5, stream, i, words);
        x[i] = 2 * gs_uniform(words[0]) - 1;
        x[i] = precision == GS_PRECISION_BF16 ? gs_round_bf16(x[i]) : gs_round_f16(x[i]);
    }
    assert_ok(device->ops->write(device, m, x, floats * sizeof *x));
    return m;
}

static gs_mem halved(gs_mem x, size_t floats, bool relu) {
    gs_mem m = room((floats + 1) / 2);
    m.half = true;
    assert_ok(device->ops->narrow(device, m, x, floats, relu));
    return m;
}

static void assert_alike(gs_mem a, gs_mem b, size_t floats, const char *what) {
    float *x = gs_test_malloc(floats * sizeof *x), *y = gs_test_malloc(floats * sizeof *y);
    assert_ok(device->ops->read(device, x, a, floats * sizeof *x));
    assert_ok(device->ops->read(device, y, b, floats * sizeof *y));
    for (size_t i = 0; i < floats; i++)
        if (memcmp(&x[i], &y[i], sizeof *x) != 0)
            fail_msg("%s on %s: number %zu of %zu is %.9g, wanted %.9g", what, device->name, i, floats,
                     (double)y[i], (double)x[i]);
}

static void (*tried)(void);

static void try_on(gs_device *d, gs_precision p) {
    device = d;
    precision = p;
    tried();
}

static void on_each(void (*test)(void)) {
    gs_test_need_whole();
    tried = test;
    gs_test_on_each_with_16_bits(try_on);
}

/* ---- convolutions ---- */

typedef struct outputs {
    gs_mem y, dx, dw, db;
} outputs;

/* backward reads a 16-bit y where it reads a 16-bit x */
static outputs convolve(const gs_conv2d_sizes *s, size_t n, gs_mem x, gs_mem w, gs_mem b, gs_mem dy,
                        bool relu) {
    const size_t of_y = n * gs_conv2d_y(s, NULL);
    const outputs o = {room(of_y), room(n * gs_conv2d_x(s)), room(gs_conv2d_w(s)),
                       relu ? room((size_t)s->out_c) : (gs_mem)GS_NONE};
    gs_epilogue then = {.relu = relu, .y = o.y};
    relu = relu && device->ops->fuses(device, &then);
    then.relu = relu;
    assert_ok(device->ops->conv2d_forward(device, o.y, x, w, b, n, s, &then));
    if (relu && x.half) then.y = halved(o.y, of_y, true);
    assert_ok(device->ops->conv2d_backward(device, o.dx, o.dw, o.db, dy, x, w, n, s, false, &then));
    return o;
}

/* The reference is f32 precision on the same numbers, where nothing is copied. */
static void check_convolution(const gs_conv2d_sizes *s, size_t n, bool relu) {
    const size_t of_x = n * gs_conv2d_x(s), of_y = n * gs_conv2d_y(s, NULL);
    const gs_mem x = drawn(of_x, 1), w = drawn(gs_conv2d_w(s), 2), dy = drawn(of_y, 3),
                 b = relu ? drawn((size_t)s->out_c, 4) : (gs_mem)GS_NONE;
    device->precision = GS_PRECISION_F32;
    const outputs all = convolve(s, n, x, w, b, dy, relu);
    device->precision = precision;
    const gs_mem in[] = {halved(x, of_x, false), x};
    for (size_t i = 0; i < sizeof in / sizeof *in; i++) {
        const outputs some = convolve(s, n, in[i], w, b, dy, relu);
        assert_alike(all.y, some.y, of_y, "y");
        assert_alike(all.dx, some.dx, of_x, "dx");
        assert_alike(all.dw, some.dw, gs_conv2d_w(s), "dw");
        if (relu) assert_alike(all.db, some.db, (size_t)s->out_c, "db");
    }
}

/* Winograd's algorithm; and images of odd sizes, which may start in the middle of a word. */
static void winograd_on_device(void) {
    check_convolution(&(gs_conv2d_sizes){16, 32, 32, 16, 32, 32, 3, 3, 1, 1, 1, 1, 1, 1, 1}, 37, false);
}

static void rows_on_device(void) {
    check_convolution(&(gs_conv2d_sizes){3, 33, 31, 5, 33, 31, 5, 5, 1, 1, 2, 2, 1, 1, 1}, 151, true);
}

TEST_AROUND(convolutions_of_some_images, gs_test_to_f32, gs_test_to_f32) {
    on_each(winograd_on_device);
    on_each(rows_on_device);
}

/* ---- attention ---- */

static void attention_on_device(void) {
    enum { N = 31, LENGTH = 49, WIDTH = 93, HEADS = 3, TOKENS = LENGTH * WIDTH, ROWS = 2 * HEADS * LENGTH };
    const gs_attention_sizes s = {LENGTH, WIDTH, HEADS, 1};
    const gs_backend *ops = device->ops;
    const gs_mem x = drawn(N * 3 * TOKENS, 1), dy = drawn(N * TOKENS, 2),
                 half = halved(x, N * 3 * TOKENS, false);
    gs_mem y[2], softmax[2], dx[2];
    for (int i = 0; i < 2; i++) {
        y[i] = room(N * TOKENS);
        softmax[i] = room(N * ROWS);
        dx[i] = room(N * 3 * TOKENS);
    }
    for (size_t i = 0; i < N; i++) {
        const gs_mem one = gs_at(x, i * 3 * TOKENS), y_one = gs_at(y[0], i * TOKENS),
                     softmax_one = gs_at(softmax[0], i * ROWS);
        assert_ok(ops->attention_forward(device, y_one, softmax_one, one, 1, &s));
        assert_ok(ops->attention_backward(device, gs_at(dx[0], i * 3 * TOKENS), gs_at(dy, i * TOKENS), one,
                                          y_one, softmax_one, 1, &s));
    }
    assert_ok(ops->attention_forward(device, y[1], softmax[1], half, N, &s));
    assert_ok(ops->attention_backward(device, dx[1], dy, half, y[1], softmax[1], N, &s));
    assert_alike(y[0], y[1], N * TOKENS, "y");
    assert_alike(dx[0], dx[1], N * 3 * TOKENS, "dx");
}

TEST_AROUND(attention_of_some_samples, gs_test_to_f32, gs_test_to_f32) {
    on_each(attention_on_device);
}

/* ---- gelu ---- */

/* More numbers than a CPU device copies at once, and an odd number of them. */
static void gelu_on_device(void) {
    enum { N = (1 << 19) + 12345 };
    const gs_mem x = drawn(N, 1), dy = drawn(N, 2), from[] = {x, halved(x, N, false)},
                 dx[] = {room(N), room(N)};
    for (size_t i = 0; i < sizeof from / sizeof *from; i++)
        assert_ok(device->ops->gelu_backward(device, dx[i], dy, from[i], N));
    assert_alike(dx[0], dx[1], N, "gelu's dx");
}

TEST_AROUND(gelu_of_some_numbers, gs_test_to_f32, gs_test_to_f32) {
    on_each(gelu_on_device);
}

/* ---- memory ---- */

/* Four times the batch needs less than twice the workspace, and f16 needs little more than f32. */
TEST(copies_do_not_grow_with_the_batch) {
    double workspace[3];
    gs_device *cl;
    gs_test_need_opencl();
    assert_ok(gs_device_open("cl", 0, &cl));
    const bool gpu = gs_cl_of(cl)->tiles.gpu; /* on a GPU, backward of a convolution copies the whole batch */
    gs_device_close(cl);
    if (gpu) skip_because("this test is for CPU kernels");
    for (int i = 0; i < 3; i++) {
        gs_settings s = gs_test_settings("cl");
        gs_memory_plan plan;
        s = gs_test_with(s, "--model resnet20 --data colour-fashion-small --batch-norm local");
        s.batch = i == 1 ? 128 : 32;
        s.precision = i < 2 ? GS_PRECISION_F16 : GS_PRECISION_F32;
        if (i == 2) s.batch = 128;
        assert_ok(gs_memory_plan_create(&s, &plan));
        workspace[i] = plan.worker[0].use[GS_ON_DEVICE].bytes[GS_MEMORY_WORKSPACE];
        gs_memory_plan_free(&plan);
    }
    if (workspace[1] >= 2 * workspace[0] || workspace[1] >= workspace[2] + 6e6)
        fail_msg("workspace of batch 32: %g, of 128: %g; in f32 %g", workspace[0], workspace[1],
                 workspace[2]);
}
