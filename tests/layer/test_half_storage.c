/* 16-bit storage of activations and their gradients (half_storage.h), on devices that support it. Results equal, bit
 * for bit, the rounded results of f32 operators on rounded inputs. Also checks which layers use 16-bit storage, how
 * much accuracy runs lose, and how much memory they save. */
#include <math.h>

#include "cpu/round16.h"
#include "layer/layer.h"
#include "tests/support/on_devices.h"
#include "tests/support/operators.h"
#include "tests/support/training.h"

/* ---- operators ---- */

enum { AROUND = 32, OTHER = 0xabcd }; /* guard elements on either side, and their value */

static gs_mem new_halves(gs_device *d, size_t count) {
    const size_t all = (count + 1) / 2 * 2 + 2 * (size_t)AROUND, bytes = all * sizeof(uint16_t);
    uint16_t *host = gs_test_malloc(bytes);
    for (size_t i = 0; i < all; i++) host[i] = OTHER;
    gs_mem m = gs_test_put(d, host, bytes);
    m.half = true;
    return gs_at_number(m, AROUND);
}

/* Rounds a tensor to values that fit into 16 bits. */
static void round_tensor(instance *t, tensor which, gs_precision p) {
    const size_t count = t->count[which];
    if (count == 0) return;
    for (size_t i = 0; i < count; i++)
        t->host[which][i] =
            p == GS_PRECISION_BF16 ? gs_round_bf16(t->host[which][i]) : gs_round_f16(t->host[which][i]);
    assert_ok(t->device->ops->write(t->device, t->place[which], t->host[which], count * sizeof(float)));
}

static void compare_halves(const instance *a, const instance *b, tensor which, gs_precision p) {
    gs_device *d = b->device;
    const size_t count = a->count[which], all = (count + 1) / 2 * 2 + 2 * (size_t)AROUND;
    uint16_t *halves = gs_test_malloc(all * sizeof *halves);
    float *got = gs_test_malloc((count + 1) * sizeof *got);
    gs_mem from = b->place[which];
    from.at -= AROUND / 2;
    assert_ok(d->ops->read(d, halves, from, all * sizeof *halves));
    gs_wire_widen(p == GS_PRECISION_BF16 ? GS_WIRE_BF16 : GS_WIRE_F16, got, halves + AROUND, count);
    for (size_t i = 0; i < all; i++)
        if ((i < AROUND || i >= AROUND + count) && halves[i] != OTHER)
            fail_msg("%s on %s: %s: number %zu of %zu, after %d, was overwritten", operator_case_name(a->c),
                     d->name, tensor_names[which], i, count, AROUND);
    for (size_t i = 0; i < count; i++) {
        const float x = a->host[which][i], want = p == GS_PRECISION_BF16 ? gs_round_bf16(x) : gs_round_f16(x);
        if (isnan(want) ? !isnan(got[i]) : got[i] < want || got[i] > want)
            fail_msg("%s on %s%s in precision %d: %s[%zu] is %.9g in 16 bits, wanted %.9g, which is %.9g",
                     operator_case_name(a->c), d->name, a->relu ? " with relu" : "", p, tensor_names[which],
                     i, (double)got[i], (double)want, (double)x);
    }
}

static void compare_floats(instance *a, instance *b, tensor which) {
    instance_read(b, which);
    for (size_t i = 0; i < a->count[which]; i++)
        if (bits_of(a->host[which][i]) != bits_of(b->host[which][i]))
            fail_msg("%s on %s%s: %s[%zu] is %.9g from 16 bits, and %.9g from f32", operator_case_name(a->c),
                     a->device->name, a->relu ? " with relu" : "", tensor_names[which], i,
                     (double)b->host[which][i], (double)a->host[which][i]);
}

/* Whether backward reads the rounded y. */
static bool derives_from_y(const operator_case *c) {
    return strcmp(c->op, "tanh") == 0 || strcmp(c->op, "sigmoid") == 0;
}

/* float_dx: dx is one term of a sum over workers, and therefore stored in f32. */
static void one_case(gs_device *d, const operator_case *c, bool relu, gs_precision p, bool float_dx) {
    static const tensor flows[] = {X, DY, Y, DX};
    const bool tokens = strcmp(c->op, "embedding") == 0; /* x holds token numbers */
    const int halves = float_dx ? 3 : 4;
    instance a, b;
    instance_open(&a, d, c, 0); /* Oclgrind 21.10 loses track of writes into the middle */
    instance_open(&b, d, c, 3);
    a.relu = b.relu = relu;
    if (!tokens) round_tensor(&a, X, p);
    round_tensor(&a, DY, p);
    for (int i = 0; i < halves; i++) {
        const tensor t = flows[i];
        if (b.count[t] == 0 || (tokens && t == X)) continue;
        b.place[t] = i < 2 ? test_narrowed(d, a.place[t], b.count[t], false) : new_halves(d, b.count[t]);
    }
    instance_forward(&a);
    if (derives_from_y(c)) {
        instance_read(&a, Y);
        round_tensor(&a, Y, p);
    }
    instance_backward(&a);
    instance_forward(&b);
    instance_backward(&b);
    for (int i = Y; i < TENSORS; i++)
        if (a.place[i].base) instance_read(&a, (tensor)i);
    compare_halves(&a, &b, Y, p);
    if (b.count[DX] && float_dx) compare_floats(&a, &b, DX);
    if (b.count[DX] && !float_dx) compare_halves(&a, &b, DX, p);
    if (b.count[DW]) compare_floats(&a, &b, DW);
    if (b.count[DB] && b.place[DB].base) compare_floats(&a, &b, DB);
}

static const char *operator_tried;

static void operators_on(gs_device *d, gs_precision p) {
    size_t number = p; /* under a slow checker each case runs in one precision, with or without relu */
    const bool has_relu = strcmp(operator_tried, "linear") == 0 || strcmp(operator_tried, "conv2d") == 0,
               sums_dx = has_relu || strcmp(operator_tried, "conv2d_groups") == 0;
    for (const operator_case *c = next_case(operator_tried, NULL); c; c = next_case(operator_tried, c)) {
        if (c->arg[0] == 0 || (gs_test_small() && number++ % 2)) continue;
        if (!gs_test_small() || !has_relu || number % 4 < 2) one_case(d, c, false, p, false);
        if (has_relu && (!gs_test_small() || number % 4 >= 2)) one_case(d, c, true, p, false);
        if (sums_dx && !gs_test_small()) one_case(d, c, has_relu, p, true);
    }
}

static void in_16_bits(void **state) {
    operator_tried = *state;
    gs_test_on_each_with_16_bits(operators_on);
}

/* ---- operators without cases ---- */

static gs_mem room(gs_device *d, size_t floats) {
    return gs_test_alloc(d, floats * sizeof(float));
}

/* Random numbers that are exact in 16 bits. */
static gs_mem drawn(gs_device *d, gs_precision p, size_t count, uint32_t salt) {
    float *x = gs_test_malloc(count * sizeof *x);
    const gs_mem m = room(d, count);
    for (size_t i = 0; i < count; i++) x[i] = test_value(i, salt);
    gs_round16(p, x, x, count);
    assert_ok(d->ops->write(d, m, x, count * sizeof *x));
    return m;
}

/* x in 16 bits; for GS_NONE, an uninitialised tensor. */
static gs_mem halved(gs_device *d, gs_mem x, size_t count) {
    gs_mem m = room(d, (count + 1) / 2);
    m.half = true;
    if (x.base) assert_ok(d->ops->narrow(d, m, x, count, false));
    return m;
}

/* `want` is in f32, not yet rounded; `got` is in 16 bits. */
static void assert_rounded(gs_device *d, gs_precision p, gs_mem want, gs_mem got, size_t count,
                           const char *what) {
    float *x = gs_test_malloc(count * sizeof *x), *y = gs_test_malloc(count * sizeof *y);
    uint16_t *halves = gs_test_malloc((count + 1) / 2 * sizeof *x);
    assert_true(x && y && halves);
    assert_ok(d->ops->read(d, x, want, count * sizeof *x));
    assert_ok(d->ops->read(d, halves, got, (count + 1) / 2 * sizeof *x));
    gs_wire_widen(p == GS_PRECISION_BF16 ? GS_WIRE_BF16 : GS_WIRE_F16, y, halves, count);
    gs_round16(p, x, x, count);
    for (size_t i = 0; i < count; i++)
        if (x[i] < y[i] || x[i] > y[i])
            fail_msg("%s on %s in precision %d: number %zu of %zu is %.9g, wanted %.9g", what, d->name, p, i,
                     count, (double)y[i], (double)x[i]);
}

static void add_and_dropout_on(gs_device *d, gs_precision p) {
    enum { COUNT = 1003 };
    const gs_dropout_draw draw = {.p = 0.3f, .key = 5, .hi = 6, .first = 7};
    const gs_mem a = drawn(d, p, COUNT, 1), b = drawn(d, p, COUNT, 2), y = room(d, COUNT),
                 half_a = halved(d, a, COUNT), half_b = halved(d, b, COUNT),
                 half_y = halved(d, (gs_mem)GS_NONE, COUNT);
    assert_ok(d->ops->add(d, y, a, b, COUNT));
    assert_ok(d->ops->add(d, half_y, half_a, half_b, COUNT));
    assert_rounded(d, p, y, half_y, COUNT, "add");
    assert_ok(d->ops->dropout(d, y, a, COUNT, draw));
    assert_ok(d->ops->dropout(d, half_y, half_a, COUNT, draw));
    assert_rounded(d, p, y, half_y, COUNT, "dropout");
}

TEST_AROUND(add_and_dropout, gs_test_to_f32, gs_test_to_f32) {
    gs_test_on_each_with_16_bits(add_and_dropout_on);
}

/* Derivatives computed from a rounded y differ from those at x by no more than half_storage.h says, and somewhere by at
 * least half of that. `most` is in multiples of `unit`, the rounding error at 1: 2^-8 or 2^-11. */
static void check_slope(const float *x, const float *dx, size_t count, double (*slope)(double), double most,
                        double unit, const char *what) {
    double worst = 0;
    for (size_t i = 0; i < count; i++) {
        const double wanted = slope((double)x[i]), rounding = (double)dx[i] * unit / 2,
                     off = fabs((double)dx[i] - wanted) - rounding;
        if (off > worst) worst = off;
    }
    if (!(worst <= most * unit && worst >= most * unit / 2))
        fail_msg("%s: dx is off by %g units, wanted %g to %g", what, worst / unit, most / 2, most);
}

static double slope_of_tanh(double x) {
    return 1 / (cosh(x) * cosh(x));
}

static double slope_of_sigmoid(double x) {
    return 1 / (2 + 2 * cosh(x));
}

static void derivatives_from_y_on(gs_device *d, gs_precision p) {
    enum { COUNT = 4001 };
    float *x = gs_test_malloc(COUNT * sizeof *x), *dx = gs_test_malloc(COUNT * sizeof *dx);
    uint16_t *halves = gs_test_malloc((COUNT + 1) / 2 * sizeof *dx);
    const gs_mem on = room(d, COUNT), one = room(d, COUNT);
    const double unit = p == GS_PRECISION_BF16 ? 0x1p-8 : 0x1p-11;
    assert_true(x && dx && halves);
    for (size_t i = 0; i < COUNT; i++) x[i] = ((float)i - COUNT / 2) / 200; /* -10 to 10 */
    gs_round16(p, x, x, COUNT);
    assert_ok(d->ops->write(d, on, x, COUNT * sizeof *x));
    assert_ok(d->ops->fill(d, one, 1, COUNT));
    const gs_mem in = halved(d, on, COUNT), dy = halved(d, one, COUNT), y = halved(d, (gs_mem)GS_NONE, COUNT);
    for (int sigmoid = 0; sigmoid < 2; sigmoid++) {
        assert_ok((sigmoid ? d->ops->sigmoid_forward : d->ops->tanh_forward)(d, y, in, COUNT));
        assert_ok((sigmoid ? d->ops->sigmoid_backward : d->ops->tanh_backward)(d, y, dy, y, COUNT));
        assert_ok(d->ops->read(d, halves, y, (COUNT + 1) / 2 * sizeof *dx));
        gs_wire_widen(p == GS_PRECISION_BF16 ? GS_WIRE_BF16 : GS_WIRE_F16, dx, halves, COUNT);
        assert_true(dx[COUNT - 1] == 0); /* here y rounds to 1 */
        check_slope(x, dx, COUNT, sigmoid ? slope_of_sigmoid : slope_of_tanh, sigmoid ? 0.5 : 1, unit,
                    sigmoid ? "sigmoid" : "tanh");
    }
}

TEST_AROUND(derivatives_from_y, gs_test_to_f32, gs_test_to_f32) {
    gs_test_on_each_with_16_bits(derivatives_from_y_on);
}

/* conv, relu and max_pool fused into one operator, which uses Winograd's algorithm if both channel counts are 16. */
static void fused_on(gs_device *d, gs_precision p) {
    static const gs_conv2d_sizes all[] = {{1, 28, 28, 6, 28, 28, 5, 5, 1, 1, 2, 2, 1, 1, 1},
                                          {3, 12, 20, 5, 12, 20, 3, 3, 1, 1, 1, 1, 1, 1, 1},
                                          {16, 32, 32, 16, 32, 32, 3, 3, 1, 1, 1, 1, 1, 1, 1}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const gs_conv2d_sizes *s = &all[i];
        const gs_pool2d_sizes pool = {s->out_c, s->out_h, s->out_w, s->out_h / 2, s->out_w / 2, 2, 2, 2,
                                      2,        0,        0};
        const size_t n = gs_test_small() ? 2 : 67, of_x = n * gs_conv2d_x(s),
                     of_y = n * gs_conv2d_y(s, &pool), of_w = gs_conv2d_w(s);
        const gs_mem x = drawn(d, p, of_x, 1), w = drawn(d, p, of_w, 2), b = drawn(d, p, (size_t)s->out_c, 3),
                     dy = drawn(d, p, of_y, 4);
        gs_epilogue then = {.relu = true, .pool = &pool};
        if (!d->ops->fuses(d, &then)) {
            return;
        }
        const gs_mem in[] = {x, halved(d, x, of_x)}, back[] = {dy, halved(d, dy, of_y)},
                     y[] = {room(d, of_y), halved(d, (gs_mem)GS_NONE, of_y)},
                     dx[] = {room(d, of_x), halved(d, (gs_mem)GS_NONE, of_x)}, dw = room(d, of_w),
                     db = room(d, (size_t)s->out_c);
        then.index = room(d, of_y);
        for (size_t k = 0; k < sizeof y / sizeof *y; k++) {
            then.y = y[k];
            assert_ok(d->ops->conv2d_forward(d, y[k], in[k], w, b, n, s, &then));
            assert_ok(d->ops->conv2d_backward(d, dx[k], dw, db, back[k], in[k], w, n, s, false, &then));
        }
        assert_rounded(d, p, y[0], y[1], of_y, "y of conv, relu, max_pool");
        assert_rounded(d, p, dx[0], dx[1], of_x, "dx of conv, relu, max_pool");
    }
}

TEST_AROUND(fused, gs_test_to_f32, gs_test_to_f32) {
    gs_test_on_each_with_16_bits(fused_on);
}

/* ---- which layers ---- */

/* Appends which of x and y are 16-bit in each executed leaf, in order: "-" neither, "x", "y", "b" both. */
static gs_status describe(gs_layer *l, void *text) {
    if (l->fused || l->children > 0) return GS_OK;
    const char c = l->memory.x_half ? (l->memory.y_half ? 'b' : 'x') : l->memory.y_half ? 'y' : '-';
    assert_true(l->memory.y_buffer < 0 || l->y.half == l->memory.y_half);
    assert_true(l->memory.dx_buffer < 0 || l->dx.half == l->memory.x_half);
    *strchr(text, '\0') = c; /* the buffer is large enough, and zeros follow */
    return GS_OK;
}

static void which_on(gs_device *d, gs_precision p) {
    static const struct {
        const char *model, *wanted;
    } cases[] = {
        {"flatten, linear 60, sigmoid, linear 50, gelu, linear 10", "-ybbbx"},
        {"conv 2 3x3, batch_norm, dropout 0.1, conv 3 3x3, tanh, max_pool 2, conv 4 1x1, flatten, linear 10",
         "ybbbbbbbx"},
        {"batch_norm, conv 2 1x1, flatten, linear 10", "-ybx"},
        {"conv 3 28x28, batch_norm, flatten, linear 10", "----"}, /* samples of 3 values */
        {"conv 2 1x1, residual (conv 2 1x1, batch_norm | tanh), conv 2 1x1, flatten, linear 10", "ybbbbbx"},
        {"conv 2 1x1, residual (conv 3 28x28 pad 13, batch_norm | conv 3 2x2), conv 2 1x1, "
         "flatten, linear 10",
         "yx-xybx"},
        {"conv 2 1x1, residual (conv 2 1x1, batch_norm), conv 2 1x1, flatten, linear 10", "ybbbbx"},
    };
    (void)p;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[64] = "";
        gs_model *m =
            gs_test_model(d, .text = cases[i].model, .in = {2, 28, 28, 0}, .max_batch = 2, .seed = 1);
        assert_ok(gs_layer_walk(m->net, describe, text));
        if (strcmp(text, cases[i].wanted) != 0)
            fail_msg("%s: %s, wanted %s", cases[i].model, text, cases[i].wanted);
    }
}

TEST_AROUND(which_layers, gs_test_to_f32, gs_test_to_f32) {
    gs_test_on_each_with_16_bits(which_on);
}

#define OF(op)                                                                                               \
    { "in_16_bits_" op, in_16_bits, gs_test_to_f32, gs_test_to_f32, (void *)(uintptr_t)op }

#define ELEMENT_WISE(of, name, ...) OF(#name),

GS_TESTS(half_storage, OF("linear"), OF("conv2d"), OF("conv2d_groups"), OF("max_pool2d"), OF("avg_pool2d"),
         OF("batch_norm"), GS_ELEMENT_WISE(ELEMENT_WISE, ELEMENT_WISE, ) OF("layer_norm"), OF("embedding"),
         OF("positions"), OF("attention"))
