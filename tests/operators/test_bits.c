/* Every operator has the bits of its plain loop (cpu/plain/plain.h), with each instruction set and on each device. The
 * kind of NaN may differ. */
#include <math.h>
#include "tests/support/on_devices.h"
#include "tests/support/operators.h"

/* Operators that do not have these bits yet: on the cpu, and on OpenCL devices. Remove a row when its operator does. */
static const struct {
    const char *op, *device;
} other_bits[] = {
    {"linear", "cpu"},
    {"linear", "cl"},
    {"conv2d", "cpu"},
    {"conv2d", "cl"},
    {"conv2d_groups", "cpu"},
    {"conv2d_groups", "cl"},
    {"avg_pool2d", "cpu"},
    {"avg_pool2d", "cl"},
    {"batch_norm", "cpu"},
    {"batch_norm", "cl"},
    {"layer_norm", "cpu"},
    {"layer_norm", "cl"},
    {"attention", "cpu"},
    {"attention", "cl"},
    {"attention_cached", "cpu"},
    {"attention_cached", "cl"},
    {"softmax_cross_entropy", "cpu"},
    {"softmax_cross_entropy", "cl"},
    {"mean_squared_error", "cpu"},
    {"mean_squared_error", "cl"},
    {"tanh", "cpu"},
    {"tanh", "cl"},
    {"sigmoid", "cpu"},
    {"sigmoid", "cl"},
    {"gelu", "cpu"},
    {"gelu", "cl"},
    {"gelu_tanh", "cpu"},
    {"gelu_tanh", "cl"},
    {"silu", "cpu"},
    {"silu", "cl"},
    {"softplus", "cpu"},
    {"softplus", "cl"},
};

static bool has_other_bits(const char *op, const gs_device *d) {
    for (size_t i = 0; i < sizeof other_bits / sizeof *other_bits; i++)
        if (strcmp(op, other_bits[i].op) == 0 &&
            strncmp(d->name, other_bits[i].device, strlen(other_bits[i].device)) == 0)
            return true;
    return false;
}

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

/* The test devices, and the cpu with one and two threads of each instruction set that runs here. */
static int open_all(gs_device **all, int most) {
    static const char *const levels[] = {"v4", "v3", "baseline"};
    int count;
    gs_device *const *devices = gs_test_devices(&count);
    memcpy(all, devices, (size_t)count * sizeof *all);
    for (int i = 0; i < 6; i++) {
        gs_device *d;
        setenv("GRADSUM_ISA", levels[i / 2], 1);
        const gs_status status = gs_device_open("cpu", 1 + i % 2, &d);
        unsetenv("GRADSUM_ISA");
        if (status != GS_OK) continue;
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
        for (int i = 0; i < count; i++) {
            if (has_other_bits(*state, all[i])) continue;
            instance_open(&t, all[i], c, 0);
            instance_run(&t);
            check_bits(&t, &want);
        }
    }
}

#define OPERATOR(op) {#op " as plain", as_plain, NULL, NULL, #op},

GS_TESTS(bits, TESTED_OPERATORS(OPERATOR))
