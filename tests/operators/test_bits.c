/* Every operator has the bits of its plain loop (cpu/plain/plain.h), with each instruction set and on each device. The
 * kind of NaN may differ. */
#include <math.h>
#include "tests/support/on_devices.h"
#include "tests/support/operators.h"
#include "tests/support/program.h"

static void check_bits(const instance *t, const instance *want, tensor end) {
    for (int i = Y; i <= (int)end; i++)
        for (size_t k = 0; k < t->count[i]; k++) {
            const float got = t->host[i][k], wanted = want->host[i][k];
            if (bits_of(got) != bits_of(wanted) && !(i != INDEX && isnan(got) && isnan(wanted)))
                fail_msg("%s on %s (%s): %s[%zu] is %a, by the plain loop %a", operator_case_name(t->c),
                         t->device->name, t->device->description, tensor_names[i], k, (double)got,
                         (double)wanted);
        }
}

/* Backward again, which adds to dw and db. */
static void instance_add(instance *t) {
    t->add = true;
    instance_backward(t);
    for (int i = DX; i < TENSORS; i++)
        if (t->place[i].base) instance_read(t, (tensor)i);
}

/* all[0]: the plain loops. The others, as for --exact: the test devices other than the cpu, with the kernels for each
 * kind of OpenCL device; and the cpu with one and two threads of each instruction set that runs here. */
static gs_device *all[17];
static int others;

static void add_device(const char *name, int threads, const char *variable, const char *value) {
    assert_true(++others < (int)(sizeof all / sizeof *all));
    setenv(variable, value, 1);
    if (gs_device_open(name, threads, &all[others]) == GS_OK) {
        assert_ok(gs_device_set_exact(gs_test_own(all[others], (void (*)(void *))gs_device_close)));
    } else {
        assert_string_equal(variable, "GRADSUM_ISA");
        others--;
    }
    unsetenv(variable);
}

static void open_all(void) {
    static const char *const levels[] = {"v4", "v3", "baseline"}, *const tiles[] = {"", "gpu", "cpu4",
                                                                                    "cpu8"};
    all[others = 0] = gs_test_open_plain();
    FOR_EACH_DEVICE (d)
        for (int i = 0; i < 4 && strncmp(d->name, "cpu", 3) != 0; i++)
            add_device(d->name, 0, "GRADSUM_CL_TILES", tiles[i]);
    for (int i = 0; i < 6; i++) add_device("cpu", 1 + i % 2, "GRADSUM_ISA", levels[i / 2]);
}

/* MIXED: half have magnitudes from 2^-16 to 2^8, a quarter any bits, a quarter is special (sums are mostly NaN).
 * FINITE: these magnitudes; TINY: from the smallest subnormal number to 2^12; RARE: FINITE, but one in 97 special. */
typedef enum values { MIXED, FINITE, TINY, RARE, GIVEN } values;

static float drawn(size_t i, uint32_t salt, values v) {
    static const float special[] = {0,  -0.0f,     INFINITY,   -INFINITY, NAN,     1,
                                    -1, 88.72284f, -87.33655f, 0x1p-149f, 0x1p127f};
    const uint32_t bits = test_hash(i, salt), other = test_hash(i, salt + 1);
    if (v == MIXED ? other % 4 == 0 : v == RARE && other % 97 == 0)
        return special[bits % (sizeof special / sizeof *special)];
    if (v == MIXED && other % 4 == 1) return float_of(bits);
    return float_of((bits & 0x807fffff) | (v == TINY ? other % 140 : 111 + bits % 24) << 23);
}

/* Runs a case on each device. A convolution's dx and dw are compared for finite inputs only: its kernels also multiply
 * by zeros around an image, and 0 x infinity is NaN. The plain loop leaves these terms out. */
static void compare(const operator_case *c, values v, uint32_t salt) {
    const tensor end = strncmp(c->op, "conv2d", 6) == 0 && (v == MIXED || v == RARE) ? Y : DB;
    instance want, t;
    for (int i = 0; i <= others; i++) {
        instance *one = i == 0 ? &want : &t;
        instance_open(one, all[i], c, i == 0 ? 5 : 0);
        for (tensor in = X; in <= DY && v != GIVEN; in++) {
            if (in == LABELS || (in == X && one->op->x == TOKENS)) continue;
            for (size_t k = 0; k < one->count[in]; k++) one->host[in][k] = drawn(k, salt + 2 * in, v);
            assert_ok(
                all[i]->ops->write(all[i], one->place[in], one->host[in], one->count[in] * sizeof(float)));
        }
        instance_run(one);
        instance_add(one);
        if (i > 0) check_bits(&t, &want, end);
    }
}

/* An element-wise operator, on many values. */
static void drawn_as_plain(void **state) {
    open_all();
    operator_case c = *next_case(*state, NULL);
    c.arg[0] = gs_test_small() ? 1003 : getenv("GRADSUM_TEST_DRAWN") ? 1000003 : 100003;
    compare(&c, MIXED, 0);
}

/* The smallest and largest numbers of a drawn case, as in operator_cases.h, but: sizes of images and caches are what
 * exceeds the kernel or the tokens, channels are those of a group, widths those of a head. Other operators are
 * element-wise. */
static const struct {
    const char *op;
    int least[15], most[15];
} ranges[] = {
    {"linear", {0, 1, 1, 0}, {40, 700, 80, 1}},
    {"conv2d_groups",
     {0, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 1, 1, 1, 0},
     {3, 5, 12, 20, 5, 5, 5, 3, 3, 3, 3, 7, 3, 3, 1}},
    {"conv2d", {0, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0}, {3, 32, 12, 20, 32, 5, 5, 3, 3, 3, 3, 1}},
    {"pool2d", {0, 1, 1, 1, 1, 1, 1, 1}, {3, 9, 12, 20, 5, 5, 3, 3, 2, 2}},
    {"batch_norm", {0, 1, 1, 0}, {70, 40, 70, 1}},
    {"layer_norm", {0, 1}, {70, 600}},
    {"embedding", {0, 1, 1}, {300, 300, 70}},
    {"positions", {0, 1}, {40, 300}},
    {"attention_cached", {0, 1, 0, 0, 1, 1}, {3, 20, 130, 30, 40, 4}},
    {"attention", {0, 1, 1, 1, 0}, {3, 130, 40, 4, 1}},
    {"softmax_cross_entropy", {0, 1, 0}, {130, 300, 90}},
    {"mean_squared_error", {0, 1}, {130, 300}},
    {NULL, {0, 1}, {3000, 3}},
};

static operator_case drawn_case(const char *op, int number) {
    operator_case c = {.op = op};
    int *a = c.arg, row = 0;
    while (ranges[row].op && !strstr(op, ranges[row].op)) row++;
    for (int i = 0; i < 15; i++)
        a[i] = ranges[row].least[i] + (int)(test_hash((size_t)number, 100 + (uint32_t)i) %
                                            (uint32_t)(1 + ranges[row].most[i] - ranges[row].least[i]));
    if (strncmp(op, "conv2d", 6) == 0) {
        const bool groups = strcmp(op, "conv2d_groups") == 0;
        if (number % 2 == 1) a[5] = a[6] = 3, a[7] = a[8] = 1; /* as Winograd's algorithm wants it */
        if (number % 4 == 1 && !groups) a[1] = 16 * (1 + a[1] % 2), a[4] = 16 * (1 + a[4] % 2);
        if (groups) a[1] *= a[11], a[4] *= a[11];
        a[2] += (a[5] - 1) * (groups ? a[12] : 1), a[3] += (a[6] - 1) * (groups ? a[13] : 1);
    } else if (strstr(op, "pool2d"))
        a[2] += a[4] - 1, a[3] += a[5] - 1, a[8] %= 1 + a[4] / 2, a[9] %= 1 + a[5] / 2;
    else if (strcmp(op, "attention") == 0)
        a[2] *= a[3];
    else if (strcmp(op, "attention_cached") == 0)
        a[3] += a[1] + a[2], a[4] *= a[5];
    return c;
}

/* All cases, and drawn ones: few, or as many as GRADSUM_TEST_DRAWN says. */
static void as_plain(void **state) {
    const char *most = getenv("GRADSUM_TEST_DRAWN");
    gs_test_need_whole();
    open_all();
    for (const operator_case *c = next_case(*state, NULL); c; c = next_case(*state, c)) compare(c, GIVEN, 0);
    const void *before = gs_test_mark();
    for (int i = 0; i < (most ? atoi(most) : 4); i++) {
        const operator_case c = drawn_case(*state, i);
        compare(&c, (values)((i + i / 4) % GIVEN), 1000 * (uint32_t)i);
        gs_test_free_since(before);
    }
}

/* Scores that have several blocks of terms. */
TEST(attention_with_wide_heads) {
    gs_test_need_whole();
    open_all();
    compare(&(operator_case){"attention", false, {1, 70, 300, 1, 1}}, GIVEN, 0);
    compare(&(operator_case){"attention", false, {1, 5, 1542, 2, 0}}, GIVEN, 0);
}

/* linear_tree_*, which are not in the table of cases: leaves without terms, of several blocks of 256 terms, and of a
 * rank with a share of the outputs. The tensors are x, w, dy, y, dx, dw and db. */
TEST(linear_tree_as_plain) {
    enum { MOST = 55000, AS = 7 };
    static const struct {
        int n, in, out, leaves, blocks;
        gs_share share;
    } cases[] = {{5, 3, 6, 8, 3, {0}},
                 {70, 784, 33, 2, 1, {0}},
                 {9, 39, 600, 2, 2, {0}},
                 {3, 7, 67, 4, 1, {1, 2, 133, 4}},
                 {17, 1030, 20, 1, 1, {0}}};
    static float x[MOST + 100], want[AS][MOST], got[MOST];
    gs_test_need_whole();
    open_all();
    for (size_t i = 0; i < MOST + 100; i++) x[i] = test_value(i, SALT_X) + test_value(i, SALT_W) / 4096;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        for (int k = 0; k <= others; k++) {
            const gs_backend *ops = all[k]->ops;
            const size_t n = (size_t)cases[c].n, in = (size_t)cases[c].in, out = (size_t)cases[c].out,
                         size[] = {n * in, out * in, n * out, n * out, n * in, out * in, out};
            gs_mem m[AS];
            for (int i = 0; i < AS; i++) {
                assert_true(size[i] <= MOST);
                m[i] = gs_at(gs_test_new_mem(all[k], NULL, size[i] + 3), 3);
                assert_ok(ops->write(all[k], m[i], x + (i < 3 ? i * 7 : 100), size[i] * sizeof *x));
            }
            assert_ok(ops->linear_tree_forward(all[k], m[3], m[0], m[1], n, cases[c].in, cases[c].out,
                                               cases[c].leaves));
            assert_ok(ops->linear_tree_backward(all[k], m[4], m[5], m[6], m[2], m[0], m[1], n, cases[c].in,
                                                cases[c].out, true, cases[c].leaves, cases[c].blocks,
                                                cases[c].share.ranks ? &cases[c].share : NULL));
            for (int i = 3; i < AS; i++) {
                assert_ok(ops->read(all[k], k == 0 ? want[i] : got, m[i], size[i] * sizeof *x));
                for (size_t j = 0; j < size[i] && k > 0; j++)
                    if (bits_of(got[j]) != bits_of(want[i][j]))
                        fail_msg("case %zu on %s (%s): tensor %d, %zu: %a, by the plain loop %a", c,
                                 all[k]->name, all[k]->description, i, j, (double)got[j], (double)want[i][j]);
            }
        }
}

/* dw (out, in) and, after it, db (out), by the plain loops: leaf by leaf, then added in their tree. */
static void sum_plain_leaves(const float *x, const float *dy, int in, int out, const gs_leaves *leaves,
                             size_t count, float *to) {
    float *sum[GS_LEAVES];
    gs_mem dw = gs_test_new_mem(all[0], NULL, count), w = gs_test_new_mem(all[0], NULL, count);
    for (int k = 0; k < GS_LEAVES; k++) {
        const size_t first = leaves->at[k], n = leaves->at[k + 1] - first;
        sum[k] = gs_test_own(calloc(count, sizeof **sum), free);
        assert_ok(all[0]->ops->linear_backward(
            all[0], GS_NONE, dw, gs_at(dw, count - (size_t)out),
            gs_test_new_mem(all[0], dy + first * (size_t)out, n * (size_t)out),
            gs_test_new_mem(all[0], x + first * (size_t)in, n * (size_t)in), w, n, in, out, false, NULL));
        assert_ok(all[0]->ops->read(all[0], sum[k], dw, count * sizeof **sum));
    }
    for (int by = 1; by < GS_LEAVES; by *= 2)
        for (int k = 0; k < GS_LEAVES; k += 2 * by)
            for (size_t j = 0; j < count; j++) sum[k][j] += sum[k + by][j];
    memcpy(to, sum[0], count * sizeof *to);
}

/* dw and db over leaves of samples: some of them empty, several or one in a block of 256 terms, and longer than one. */
TEST(leaves_as_plain) {
    enum { MOST = 40000 };
    static const int cases[][3] = {{5, 9, 40}, {128, 70, 37}, {130, 64, 64}, {700, 33, 50}, {2400, 8, 5}};
    static float x[MOST], dy[MOST], want[MOST], got[MOST];
    gs_test_need_whole();
    open_all();
    for (size_t i = 0; i < MOST; i++) x[i] = drawn(i, 70, FINITE), dy[i] = drawn(i, 72, FINITE);
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const int n = cases[c][0], in = cases[c][1], out = cases[c][2];
        const size_t rows = (size_t)n, i = (size_t)in, o = (size_t)out, count = (i + 1) * o;
        gs_leaves leaves = {GS_LEAVES, {0}};
        for (int k = 0; k < GS_LEAVES; k++)
            leaves.at[k + 1] = leaves.at[k] + gs_shard_of(rows, k, GS_LEAVES).count;
        assert_true(rows * i <= MOST && rows * o <= MOST && count <= MOST);
        sum_plain_leaves(x, dy, in, out, &leaves, count, want);
        for (int k = 1; k <= others; k++) {
            gs_device *d = all[k];
            gs_mem dw = gs_test_new_mem(d, NULL, count), w = gs_test_new_mem(d, x, i * o);
            assert_ok(d->ops->linear_backward(
                d, gs_test_new_mem(d, NULL, rows * i), dw, gs_at(dw, i * o), gs_test_new_mem(d, dy, rows * o),
                gs_test_new_mem(d, x, rows * i), w, rows, in, out, false, &(gs_epilogue){.leaves = &leaves}));
            assert_ok(d->ops->read(d, got, dw, count * sizeof *got));
            for (size_t j = 0; j < count; j++)
                if (bits_of(got[j]) != bits_of(want[j]))
                    fail_msg("case %zu on %s (%s): %zu: %a, by the plain loop %a", c, d->name, d->description,
                             j, (double)got[j], (double)want[j]);
        }
    }
}

/* ---- the self-test ---- */

static const gs_backend *right;
static int wrong; /* the operation whose last result has another last bit */

static gs_status arithmetic_with_a_wrong_bit(gs_device *d, gs_mem y, gs_mem a, gs_mem b, gs_mem c,
                                             size_t count) {
    const gs_mem last = gs_at(y, count * ((size_t)wrong + 1) - 1);
    uint32_t bits;
    assert_ok(right->arithmetic(d, y, a, b, c, count));
    assert_ok(right->read(d, &bits, last, sizeof bits));
    bits ^= 1;
    return right->write(d, last, &bits, sizeof bits);
}

static void a_wrong_operation_is_named_on(gs_device *shared) {
    static const char *const says[] = {"addition is not",         "multiplication is not",
                                       "division is not",         "the square root is not",
                                       "fma does not round once", "rounded separately"};
    gs_device *d = gs_test_device(shared->name, 1);
    right = d->ops;
    gs_backend table = *right;
    table.arithmetic = arithmetic_with_a_wrong_bit;
    for (wrong = 0; wrong < 6; wrong++) {
        assert_ok(gs_device_set_exact(d));
        d->ops = &table;
        assert_fails(GS_E_DEVICE, says[wrong], gs_device_set_exact(d));
        d->ops = right;
    }
}
ON_EVERY_DEVICE(a_wrong_operation_is_named)

#if defined(__x86_64__)
/* The modes of a processor: round towards 0, flush subnormal results, read subnormal numbers as 0. */
TEST(a_wrong_mode_is_named) {
    static const struct {
        unsigned bits;
        const char *says;
    } modes[] = {{0x6000, "addition is not correctly"},
                 {0x8000, "subnormal numbers become 0"},
                 {0x40, "device 'cpu'"}};
    gs_device *d = gs_test_device("cpu", 1);
    for (int i = 0; i < 3; i++) {
        const unsigned usual = __builtin_ia32_stmxcsr();
        __builtin_ia32_ldmxcsr(usual | modes[i].bits);
        const gs_status status = gs_device_set_exact(d);
        __builtin_ia32_ldmxcsr(usual);
        assert_fails(GS_E_DEVICE, modes[i].says, status);
    }
}
#endif

/* A kernel of the user's fuses what it must not. test_doctor.c has one that divides as fast compilers do. */
TEST(a_wrong_kernel_is_named) {
    gs_test_need_opencl();
    const char *output = gs_test_shell_output(
        1,
        "cd %s && cp %s/cl/*.cl* . && sed -i 's|store(a . b + c|store(fma(a, b, c)|' arithmetic.cl && "
        "GRADSUM_KERNELS=. %s/gradsum train --exact --steps 1 --devices cl 2>&1",
        gs_test_folder(), GS_SOURCE_DIR, GS_BUILD_DIR);
    assert_has(output, "--exact: device 'cl': ", "a product and a sum are not rounded separately");
}

#define OPERATOR(op) {#op " as plain", as_plain, NULL, NULL, #op},
#define ELEMENT_WISE(of, op, ...) {#op " of drawn bits as plain", drawn_as_plain, NULL, NULL, #op},

GS_TESTS(bits, TESTED_OPERATORS(OPERATOR) GS_ELEMENT_WISE(ELEMENT_WISE, ELEMENT_WISE, ))
