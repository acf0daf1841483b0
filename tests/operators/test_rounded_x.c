/* In 16 bits backward of the layers that normalise, of gelu and of silu reads x rounded (backend.h), on every device:
 * as f32 does with an x that was rounded before; and to the bit from memory of 16 bits, where a device keeps it so. */
#include <math.h>
#include <string.h>

#include "cpu/round16.h"
#include "tests/support/on_devices.h"
#include "tests/support/operators.h"
#include "tests/support/test.h"

/* As in test_precision.c. */
static const double TOLERANCE = 1e-5;

static const tensor gradients[] = {DX, DW, DB};

static void run(instance *t) {
    instance_forward(t);
    instance_backward(t);
    instance_read(t, Y);
    for (size_t i = 0; i < sizeof gradients / sizeof *gradients; i++)
        if (t->place[gradients[i]].base) instance_read(t, gradients[i]);
}

/* ---- what f32 gives ---- */

static void keep_rounded(instance *t, gs_precision p) {
    const size_t bytes = t->count[X] * sizeof(float);
    float *x = gs_test_malloc(bytes + 1);
    gs_round16(p, x, t->host[X], t->count[X]);
    t->kept[X] = gs_test_put(t->device, x, bytes);
}

static void check(const instance *t, const instance *want, tensor which, gs_precision p) {
    double squares = 0;
    for (size_t k = 0; k < t->count[which]; k++)
        squares += (double)want->host[which][k] * (double)want->host[which][k];
    const double rms = sqrt(squares / (double)(t->count[which] + 1));
    for (size_t k = 0; k < t->count[which]; k++) {
        const double is = (double)t->host[which][k], expected = (double)want->host[which][k];
        if (!(fabs(is - expected) <= TOLERANCE * (fabs(expected) + rms)))
            fail_msg("%s on %s in precision %d: %s[%zu] is %.9g, wanted %.9g", operator_case_name(t->c),
                     t->device->name, p, tensor_names[which], k, is, expected);
    }
}

static void like_f32_of_rounded(void **state) {
    gs_test_need_whole();
    int count;
    gs_device *const *devices = gs_test_devices(&count);
    gs_device *cpu = gs_test_device("cpu", 1), *threads = gs_test_device("cpu", 3);
    for (size_t p = 0; p < 2; p++)
        for (const operator_case *c = next_case(*state, NULL); c; c = next_case(*state, c)) {
            instance want;
            instance_open(&want, cpu, c, 0);
            keep_rounded(&want, gs_test_16_bits[p]);
            run(&want);
            for (int d = 0; d <= count; d++) {
                gs_device *device = d < count ? devices[d] : threads;
                instance t;
                device->precision = gs_test_16_bits[p];
                instance_open(&t, device, c, 3);
                run(&t);
                device->precision = GS_PRECISION_F32;
                check(&t, &want, Y, gs_test_16_bits[p]);
                for (size_t i = 0; i < sizeof gradients / sizeof *gradients; i++)
                    check(&t, &want, gradients[i], gs_test_16_bits[p]);
            }
        }
}

/* ---- 16 bits in memory ---- */

static void same(const instance *a, const instance *b, tensor which) {
    for (size_t i = 0; i < a->count[which]; i++)
        if (bits_of(a->host[which][i]) != bits_of(b->host[which][i]))
            fail_msg("%s on %s: %s[%zu] is %.9g from 16 bits, and %.9g from f32", operator_case_name(a->c),
                     a->device->name, tensor_names[which], i, (double)b->host[which][i],
                     (double)a->host[which][i]);
}

/* And x is not read as it is: somewhere something is off by a tenth of a unit of 1. */
static double one_case(gs_device *d, const operator_case *c, gs_precision p) {
    instance exact, a, b;
    double most = 0;
    d->precision = GS_PRECISION_F32;
    instance_open(&exact, d, c, 3);
    run(&exact);
    d->precision = p;
    instance_open(&a, d, c, 3);
    run(&a);
    instance_open(&b, d, c, 3);
    if (d->ops->narrow) b.kept[X] = test_narrowed(d, b.place[X], b.count[X], false);
    run(&b);
    same(&exact, &a, Y);
    for (size_t i = 0; i < sizeof gradients / sizeof *gradients; i++) {
        if (!a.place[gradients[i]].base) continue;
        same(&a, &b, gradients[i]);
        for (size_t k = 0; k < a.count[gradients[i]]; k++) {
            const double off = fabs((double)a.host[gradients[i]][k] - (double)exact.host[gradients[i]][k]);
            if (off > most) most = off; /* gcc 12 for arm64 ends with an internal error at fmax() here */
        }
    }
    return most;
}

static const char *operator_tried;

static void the_same_bits_on(gs_device *d) {
    for (int p = 0; p < 2; p++) {
        size_t number = (size_t)p; /* under a slow checker each case in one precision */
        double most = 0;
        for (const operator_case *c = next_case(operator_tried, NULL); c; c = next_case(operator_tried, c)) {
            if (c->arg[0] == 0 || (gs_test_small() && number++ % 2)) continue;
            most = fmax(most, one_case(d, c, gs_test_16_bits[p]));
        }
        d->precision = GS_PRECISION_F32;
        const double unit = gs_test_16_bits[p] == GS_PRECISION_BF16 ? 0x1p-8 : 0x1p-11;
        if (most < unit / 10)
            fail_msg("%s on %s in precision %d differs from f32 by %g at most", operator_tried, d->name,
                     gs_test_16_bits[p], most);
    }
}

static void the_same_bits_from_16(void **state) {
    operator_tried = *state;
    gs_test_on_every_device(the_same_bits_on);
}

#define OF(test, op)                                                                                         \
    { #test " of " op, test, gs_test_to_f32, gs_test_to_f32, (void *)(uintptr_t)op }
#define BOTH(op) OF(like_f32_of_rounded, op), OF(the_same_bits_from_16, op)

/* Of element-wise operators, those whose backward reads x. */
#define IF_x(op) BOTH(op),
#define IF_y(op)
#define ELEMENT_WISE(of, name, forward, backward, reads, ...) IF_##reads(#name)
#define ELEMENT_WISE_(of, name, forward, backward, reads) ELEMENT_WISE(of, name, forward, backward, reads, )

GS_TESTS(rounded_x, GS_ELEMENT_WISE(ELEMENT_WISE_, ELEMENT_WISE, ) BOTH("layer_norm"), BOTH("batch_norm"))
