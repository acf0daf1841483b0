/* 16-bit storage (half_storage.h), on devices that support it: the results of operators that read 16-bit tensors, bit
 * by bit; and the loss and memory use of whole runs. */
#include <math.h>
#include "cpu/round16.h"
#include "tests/support/on_devices.h"
#include "tests/support/operators.h"
#include "tests/support/training.h"

/* ---- narrowing ---- */

static float number_of(gs_precision p, uint16_t bits) {
    if (p == GS_PRECISION_BF16) return gs_float_of((uint32_t)bits << 16);
    const int exponent = bits >> 10 & 31, fraction = bits & 0x3ff;
    const float size = exponent == 31  ? (fraction ? NAN : INFINITY)
                       : exponent == 0 ? ldexpf((float)fraction, -24)
                                       : ldexpf((float)(fraction + 1024), exponent - 25);
    return bits & 0x8000 ? -size : size;
}

static void check_bits(gs_precision p, uint16_t got, float x, bool relu) {
    const float want = p == GS_PRECISION_BF16 ? gs_round_bf16(x) : gs_round_f16(x), is = number_of(p, got);
    if (relu && x == 0) assert_int_equal(got, 0x8000);
    if (relu && x == 0) return;
    if (isnan(x) ? !isnan(is) : bits_of(is) != bits_of(want))
        fail_msg("%a becomes %04x, which is %a; wanted %a", (double)x, got, (double)is, (double)want);
}

/* Narrows `count` values whose neighbours must not change. */
static void narrow_some(gs_device *d, gs_precision p, const float *x, size_t count, bool relu) {
    enum { OTHER = 0xabcd, AROUND = 8 };
    const size_t all = (count + 1) / 2 * 2 + 2 * (size_t)AROUND, bytes = all * sizeof(uint16_t);
    uint16_t *halves = gs_test_malloc(bytes);
    float *later =
        gs_test_calloc(count + 3, sizeof *later); /* Oclgrind 21.10 loses track of writes into the middle */
    memcpy(later + 3, x, count * sizeof *x);
    for (size_t i = 0; i < all; i++) halves[i] = OTHER;
    gs_mem from = gs_test_put(d, later, (count + 3) * sizeof *x), to = gs_test_put(d, halves, bytes);
    gs_mem place = gs_at(to, AROUND / 2);
    place.half = true;
    assert_ok(d->ops->narrow(d, place, gs_at(from, 3), count, relu));
    assert_ok(d->ops->read(d, halves, to, bytes));
    for (size_t i = 0; i < all; i++)
        if (i >= AROUND && i < AROUND + count)
            check_bits(p, halves[i], x[i - AROUND], relu);
        else
            assert_int_equal(halves[i], OTHER);
}

/* Every upper half of a float, combined with lower halves at, near and between ties; and remainders of every length. */
static void as_rounded_on(gs_device *d, gs_precision p) {
    static const uint32_t lower[] = {0, 0x0fff, 0x1000, 0x1001, 0x3000, 0x7fff, 0x8000, 0x8001, 0xffff};
    enum { LOWER = sizeof lower / sizeof *lower };
    const uint32_t step = gs_test_small() ? 509 : 1;
    float *x = gs_test_malloc(((size_t)1 << 16) * LOWER * sizeof *x);
    size_t count = 0;
    for (uint32_t upper = 0; upper < 1u << 16; upper += step)
        for (int i = 0; i < LOWER; i++) x[count++] = gs_float_of(upper << 16 | lower[i]);
    narrow_some(d, p, x, count, false);
    for (size_t i = 0; i < count; i++) x[i] = fabsf(x[i]);
    narrow_some(d, p, x, count, true);
    for (size_t few = 0; few < 35; few++) narrow_some(d, p, x + count / 3, few, false);
}

TEST_AROUND(as_rounded, gs_test_to_f32, gs_test_to_f32) {
    gs_test_on_each_with_16_bits(as_rounded_on);
}

/* ---- operators ---- */

static void same(const instance *a, const instance *b, tensor which) {
    for (size_t i = 0; i < a->count[which]; i++)
        if (bits_of(a->host[which][i]) != bits_of(b->host[which][i]))
            fail_msg("%s on %s%s: %s[%zu] is %.9g from 16 bits, and %.9g from f32", operator_case_name(a->c),
                     a->device->name, a->relu ? " with relu" : "", tensor_names[which], i,
                     (double)b->host[which][i], (double)a->host[which][i]);
}

/* Compares f32 x with 16-bit x and, for relu and attention, also the y that backward reads. For gelu, silu and the
 * normalisation layers, only backward reads a 16-bit x. */
static void one_case(gs_device *d, const operator_case *c, bool relu) {
    static const tensor gradients[] = {DX, DW, DB};
    instance a, b;
    instance_open(&a, d, c, 3);
    instance_open(&b, d, c, 3);
    a.relu = b.relu = relu;
    const bool backward_alone = strstr("gelu gelu_tanh silu layer_norm batch_norm", c->op) != NULL;
    *(backward_alone ? &b.kept[X] : &b.place[X]) = test_narrowed(d, b.place[X], b.count[X], false);
    instance_forward(&a);
    instance_forward(&b);
    instance_read(&a, Y);
    instance_read(&b, Y);
    same(&a, &b, Y);
    if (relu) b.place[Y] = test_narrowed(d, b.place[Y], b.count[Y], true);
    if (strcmp(c->op, "attention") == 0) b.kept[Y] = test_narrowed(d, b.place[Y], b.count[Y], false);
    instance_backward(&a);
    instance_backward(&b);
    for (size_t i = 0; i < sizeof gradients / sizeof *gradients; i++) {
        if (!a.place[gradients[i]].base) continue;
        instance_read(&a, gradients[i]);
        instance_read(&b, gradients[i]);
        same(&a, &b, gradients[i]);
    }
}

static const char *operator_tried;

static void same_operators_on(gs_device *d, gs_precision p) {
    size_t number = p; /* under a slow checker each case runs in one precision, with or without relu */
    const bool has_relu = strcmp(operator_tried, "linear") == 0 || strcmp(operator_tried, "conv2d") == 0;
    for (const operator_case *c = next_case(operator_tried, NULL); c; c = next_case(operator_tried, c)) {
        if (c->arg[0] == 0 || (gs_test_small() && number++ % 2)) continue;
        if (!gs_test_small() || !has_relu || number % 4 < 2) one_case(d, c, false);
        if (has_relu && (!gs_test_small() || number % 4 >= 2)) one_case(d, c, true);
    }
}

static void operators_give_the_same_bits(void **state) {
    operator_tried = *state;
    gs_test_on_each_with_16_bits(same_operators_on);
}

/* A positive y that rounds to 0 in 16 bits lets dy pass; y = 0 and NaN do not. */
static void signs_of_a_relu_on(gs_device *d, gs_precision p) {
    enum { COUNT = 37 };
    static const float values[] = {0, 1e-30f, 0x1p-30f, NAN, 2, 0x1p-140f, INFINITY};
    float y[COUNT], dy[COUNT], want[COUNT], got[COUNT];
    gs_mem on_device[2];
    (void)p;
    for (int i = 0; i < COUNT; i++) {
        y[i] = values[i % 7];
        dy[i] = (float)(i + 1);
        want[i] = y[i] > 0 ? dy[i] : 0;
    }
    for (int i = 0; i < 2; i++) {
        on_device[i] = gs_test_put(d, i ? dy : y, sizeof y);
    }
    const gs_mem half = test_narrowed(d, on_device[0], COUNT, true);
    assert_ok(d->ops->relu_backward(d, on_device[1], on_device[1], half, COUNT));
    assert_ok(d->ops->read(d, got, on_device[1], sizeof got));
    assert_memory_equal(got, want, sizeof want);
}

TEST_AROUND(signs_of_a_relu, gs_test_to_f32, gs_test_to_f32) {
    gs_test_on_each_with_16_bits(signs_of_a_relu_on);
}

/* ---- whole runs ---- */

static const char mlp[] = "flatten, linear 60, relu, linear 50, relu, linear 10";
static const char lenet[] = "conv 6 5x5 pad 2, relu, max_pool 2, conv 8 3x3 pad 1, relu, max_pool 2, "
                            "flatten, linear 20, relu, linear 12, dropout 0.2, relu, linear 10";
static const char gpt[] = "block layer = residual (layer_norm, linear 96, attention 2 causal, linear 32), "
                          "residual (layer_norm, linear 128, gelu, linear 32); "
                          "embedding 40 32 std 0.02, positions std 0.02, 2 x layer, layer_norm, tied";

static gs_settings long_run(const char *model) {
    gs_settings s = gs_test_settings("cl --model '%s' --batch 48 --steps 60 --batch-norm local", model);
    s.lr = model == lenet ? 0.05f : 0.01f;
    if (model == lenet) s.momentum = 0.5f; /* with 0.9 the runs soon differ as much as with two seeds */
    if (model != gpt) return s;
    s = gs_test_with(s, "--context 16 --batch 12 --optimizer adamw --lr 0.003 --weight-decay 0");
    s.data = gs_test_format("text:%s", gs_test_text_file());
    return s;
}

/* ---- costs and savings ---- */

static double activations_of(const gs_result *r) {
    return r->worker[0].memory[GS_ON_DEVICE].bytes[GS_MEMORY_ACTIVATIONS];
}

/* Memory is halved, except for the model's input and outputs, the statistics, and the pooling indices. */
TEST(near_the_loss_of_f32_in_less_memory) {
    gs_test_need_whole();
    static const struct {
        const char *model;
        double memory; /* relative to f32, at most */
        double loss;   /* the allowed relative difference */
    } runs[] = {{mlp, 0.6, 0.01}, {lenet, 0.7, 0.02}, {gpt, 0.55, 0.02}};
    gs_test_need_opencl();
    for (size_t m = 0; m < sizeof runs / sizeof *runs; m++) {
        gs_settings s = long_run(runs[m].model);
        gs_result f32 = gs_test_train(&s);
        for (int p = 0; p < 2; p++) {
            s.precision = gs_test_16_bits[p];
            gs_result r = gs_test_train(&s);
            print_message("%.30s: loss %.4f, in f32 %.4f; activations %.0f, %.0f\n", s.model, r.test_loss,
                          f32.test_loss, activations_of(&r), activations_of(&f32));
            assert_near(r.test_loss, f32.test_loss, 0, runs[m].loss);
            assert_true(activations_of(&r) < runs[m].memory * activations_of(&f32));
        }
    }
}

#define OF(op)                                                                                               \
    {                                                                                                        \
        "operators_give_the_same_bits of " op, operators_give_the_same_bits, gs_test_to_f32, gs_test_to_f32, \
            (void *)(uintptr_t)op                                                                            \
    }

GS_TESTS(half_storage_operators, OF("linear"), OF("conv2d"), OF("conv2d_groups"), OF("attention"), OF("gelu"),
         OF("gelu_tanh"), OF("silu"), OF("layer_norm"), OF("batch_norm"))
