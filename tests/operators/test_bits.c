/* Every operator has the bits of its plain loop (cpu/plain/plain.h), with each instruction set and on each device. The
 * kind of NaN may differ. */
#include <math.h>
#include "tests/support/on_devices.h"
#include "tests/support/operators.h"

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
            gs_device_set_exact(all[count++]);
            unsetenv("GRADSUM_CL_TILES");
        }
    for (int i = 0; i < 6; i++) {
        gs_device *d;
        setenv("GRADSUM_ISA", levels[i / 2], 1);
        const gs_status status = gs_device_open("cpu", 1 + i % 2, &d);
        unsetenv("GRADSUM_ISA");
        if (status != GS_OK) continue;
        gs_device_set_exact(d);
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

#define OPERATOR(op) {#op " as plain", as_plain, NULL, NULL, #op},
#define ELEMENT_WISE(of, op, ...) {#op " of drawn bits as plain", drawn_as_plain, NULL, NULL, #op},

GS_TESTS(bits, TESTED_OPERATORS(OPERATOR) GS_ELEMENT_WISE(ELEMENT_WISE, ELEMENT_WISE, ))
