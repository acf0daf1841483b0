/* Every operator has the bits of its plain loop (cpu/plain/plain.h), with each instruction set and on each device. The
 * kind of NaN may differ. */
#include <math.h>
#include "tests/support/on_devices.h"
#include "tests/support/operators.h"
#include "tests/support/program.h"

static void check_bits(const instance *t, const instance *want) {
    for (int i = Y; i < TENSORS; i++)
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

/* As for --exact: the test devices other than the cpu, with the kernels for each kind of OpenCL device; and the cpu
 * with one and two threads of each instruction set that runs here. */
static int open_all(gs_device **all, int most) {
    static const char *const levels[] = {"v4", "v3", "baseline"}, *const tiles[] = {"", "gpu", "cpu4",
                                                                                    "cpu8"};
    int count = 0;
    FOR_EACH_DEVICE (d)
        for (int i = 0; i < 4 && strncmp(d->name, "cpu", 3) != 0; i++) {
            setenv("GRADSUM_CL_TILES", tiles[i], 1);
            assert_true(count < most);
            all[count] = gs_test_device(d->name, 0);
            assert_ok(gs_device_set_exact(all[count++]));
            unsetenv("GRADSUM_CL_TILES");
        }
    for (int i = 0; i < 6; i++) {
        gs_device *d;
        setenv("GRADSUM_ISA", levels[i / 2], 1);
        const gs_status status = gs_device_open("cpu", 1 + i % 2, &d);
        unsetenv("GRADSUM_ISA");
        if (status != GS_OK) continue;
        assert_ok(gs_device_set_exact(d));
        assert_true(count < most);
        all[count++] = gs_test_own(d, (void (*)(void *))gs_device_close);
    }
    return count;
}

static void as_plain(void **state) {
    gs_test_need_whole();
    gs_device *plain = gs_test_open_plain(), *all[16];
    const int count = open_all(all, 16);
    for (const operator_case *c = next_case(*state, NULL); c; c = next_case(*state, c)) {
        instance want, t;
        instance_open(&want, plain, c, 5);
        instance_run(&want);
        instance_add(&want);
        for (int i = 0; i < count; i++) {
            instance_open(&t, all[i], c, 0);
            instance_run(&t);
            instance_add(&t);
            check_bits(&t, &want);
        }
    }
}

/* Half of the values have magnitudes from 2^-16 to 2^8, a quarter has any bits, a quarter is special. */
static float drawn(size_t i, uint32_t salt) {
    static const float special[] = {0,  -0.0f,     INFINITY,   -INFINITY, NAN,     1,
                                    -1, 88.72284f, -87.33655f, 0x1p-149f, 0x1p127f};
    const uint32_t bits = test_hash(i, salt), other = test_hash(i, salt + 1);
    if (other % 4 == 0) return special[bits % (sizeof special / sizeof *special)];
    return float_of(other % 4 == 1 ? bits : (bits & 0x807fffff) | (111 + bits % 24) << 23);
}

/* A case that is not in operator_cases.h; `draws`: with drawn inputs. */
static void further_as_plain(const operator_case *c, bool draws) {
    gs_device *all[17] = {gs_test_open_plain()};
    const int count = open_all(all + 1, 16);
    instance want, t;
    for (int i = 0; i <= count; i++) {
        instance *one = i == 0 ? &want : &t;
        instance_open(one, all[i], c, 0);
        for (tensor in = X; in <= DY && draws; in++) {
            for (size_t k = 0; k < one->count[in]; k++) one->host[in][k] = drawn(k, 2 * in);
            assert_ok(
                all[i]->ops->write(all[i], one->place[in], one->host[in], one->count[in] * sizeof(float)));
        }
        instance_run(one);
        if (i > 0) check_bits(&t, &want);
    }
}

/* An element-wise operator, on many values. */
static void drawn_as_plain(void **state) {
    operator_case c = *next_case(*state, NULL);
    c.arg[0] = gs_test_small() ? 1003 : 100003;
    further_as_plain(&c, true);
}

/* Scores that have several blocks of terms. */
TEST(attention_with_wide_heads) {
    gs_test_need_whole();
    further_as_plain(&(operator_case){"attention", false, {1, 70, 300, 1, 1}}, false);
    further_as_plain(&(operator_case){"attention", false, {1, 5, 1542, 2, 0}}, false);
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
    gs_device *all[17] = {gs_test_open_plain()};
    const int count = open_all(all + 1, 16);
    for (size_t i = 0; i < MOST + 100; i++) x[i] = test_value(i, SALT_X) + test_value(i, SALT_W) / 4096;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        for (int k = 0; k <= count; k++) {
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

/* Kernels in a folder of the user's, one of which divides as fast compilers do, or fuses what it must not. */
TEST(a_wrong_kernel_is_named) {
    static const struct {
        const char *formula, *instead, *says;
    } kernels[] = {{"a / b", "a * (1 / b)", "division is not correctly rounded: a / b is "},
                   {"a . b + c", "fma(a, b, c)", "a product and a sum are not rounded separately"}};
    gs_test_need_opencl();
    for (int i = 0; i < 2; i++) {
        const char *folder = gs_test_folder();
        char *output = gs_test_shell_output(
            1,
            "cd %s && cp %s/cl/*.cl* . && sed -i 's|store(%s|store(%s|' arithmetic.cl && "
            "GRADSUM_KERNELS=. %s/gradsum train --exact --steps 1 --devices cl 2>&1",
            folder, GS_SOURCE_DIR, kernels[i].formula, kernels[i].instead, GS_BUILD_DIR);
        assert_has(output, "--exact: device 'cl': ", kernels[i].says);
    }
}

#define OPERATOR(op) {#op " as plain", as_plain, NULL, NULL, #op},
#define ELEMENT_WISE(of, op, ...) {#op " of drawn bits as plain", drawn_as_plain, NULL, NULL, #op},

GS_TESTS(bits, TESTED_OPERATORS(OPERATOR) GS_ELEMENT_WISE(ELEMENT_WISE, ELEMENT_WISE, ))
