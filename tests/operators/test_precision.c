#include <math.h>
#include "cpu/round16.h"
#include "tests/support/on_devices.h"
#include "tests/support/operators.h"

/* On every device, 16-bit operators (gs_precision) return what f32 operators return for rounded inputs. Such results
 * are as close to f32's as the rounding allows (to_the_nearest in test_product16.c), but not equal to them. */

/* As in test_operators.c: the difference allowed in f32, relative to |wanted| + root mean square. */
static const double TOLERANCE = 1e-5;

/* Half a unit in the last place of 1. */
static double unit_of(gs_precision p) {
    return p == GS_PRECISION_BF16 ? ldexp(1, -8) : ldexp(1, -11);
}

static const char *name_of(gs_precision p) {
    return p == GS_PRECISION_BF16 ? "bf16" : "f16";
}

static float rounded(gs_precision p, float x) {
    return p == GS_PRECISION_BF16 ? gs_round_bf16(x) : gs_round_f16(x);
}

static void change(instance *t, tensor which, gs_precision p) {
    for (size_t i = 0; i < t->count[which]; i++) t->host[which][i] = rounded(p, t->host[which][i]);
    if (t->count[which])
        assert_ok(t->device->ops->write(t->device, t->place[which], t->host[which],
                                        t->count[which] * sizeof(float)));
}

static void check(const instance *t, const instance *want, gs_precision p) {
    static const tensor outputs[] = {Y, DX, DW, DB};
    for (size_t o = 0; o < sizeof outputs / sizeof *outputs; o++) {
        const tensor i = outputs[o];
        const double rms = root_mean_square(want->host[i], t->count[i]);
        for (size_t k = 0; k < t->count[i]; k++) {
            const double expected = (double)want->host[i][k], off = fabs((double)t->host[i][k] - expected),
                         allowed = TOLERANCE * (fabs(expected) + rms);
            if (!(off <= allowed))
                fail_msg("%s on %s in %s, unlike f32 of rounded inputs: %s[%zu] is %.9g, wanted %.9g: off by "
                         "%.2g, tolerance %.2g",
                         operator_case_name(t->c), t->device->name, name_of(p), tensor_names[i], k,
                         (double)t->host[i][k], expected, off, allowed);
        }
    }
}

/* For gelu, silu and the normalisation layers, only backward rounds x (backend.h). */
static bool rounds_backward_alone(const char *op) {
    return !strstr(op, "linear") && !strstr(op, "conv2d") && !strstr(op, "attention");
}

static void keep_rounded(instance *t, gs_precision p) {
    const size_t bytes = t->count[X] * sizeof(float);
    float *x = gs_test_malloc(bytes + 1);
    gs_round16(p, x, t->host[X], t->count[X]);
    t->kept[X] = gs_test_put(t->device, x, bytes);
}

/* f32 operators on rounded inputs compute the same sums of the same products. */
static void like_f32_of_rounded(void **state) {
    gs_test_need_whole();
    int count;
    gs_device *const *devices = gs_test_devices(&count);
    gs_device *cpu = gs_test_device("cpu", 1), *threads = gs_test_device("cpu", 3);
    const bool relu = strcmp(*state, "linear") == 0 || strcmp(*state, "conv2d") == 0;
    for (size_t p = 0; p < 2; p++)
        for (const operator_case *c = next_case(*state, NULL); c; c = next_case(*state, c)) {
            static const tensor inputs[] = {X, W, DY};
            instance want;
            instance_open(&want, cpu, c, 0);
            want.relu = relu && c->arg[0] % 2;
            if (rounds_backward_alone(*state)) keep_rounded(&want, gs_test_16_bits[p]);
            for (int i = 0; i < 3 && !rounds_backward_alone(*state); i++)
                change(&want, inputs[i], gs_test_16_bits[p]);
            instance_run(&want);
            for (int d = 0; d <= count; d++) {
                gs_device *device = d < count ? devices[d] : threads;
                instance t;
                device->precision = gs_test_16_bits[p];
                instance_open(&t, device, c, 3);
                t.relu = want.relu;
                instance_run(&t);
                device->precision = GS_PRECISION_F32;
                check(&t, &want, gs_test_16_bits[p]);
            }
        }
}

/* The largest difference between 16-bit and f32 gradients. If only backward rounds, both are for the same y. */
static double off_f32(gs_device *d, const operator_case *c, gs_precision p) {
    static const tensor gradients[] = {DX, DW};
    instance want, t;
    double most = 0;
    instance_open(&want, d, c, 0);
    instance_run(&want);
    d->precision = p;
    instance_open(&t, d, c, 0);
    instance_run(&t);
    d->precision = GS_PRECISION_F32;
    if (rounds_backward_alone(c->op))
        assert_memory_equal(t.host[Y], want.host[Y], t.count[Y] * sizeof(float));
    for (int i = 0; i < 2; i++)
        for (size_t k = 0; k < t.count[gradients[i]]; k++) {
            const double off = fabs((double)t.host[gradients[i]][k] - (double)want.host[gradients[i]][k]);
            if (off > most) most = off; /* gcc 12 for arm64 ends with an internal error at fmax() here */
        }
    return most;
}

/* The 16-bit operator really rounds: some result differs from f32 by at least a tenth of a unit. */
static void is_rounded(void **state) {
    const bool few = !rounds_backward_alone(*state);
    FOR_EACH_DEVICE (d)
        for (size_t p = 0; p < 2; p++) {
            const operator_case *c = next_case(*state, NULL);
            double most = 0;
            for (int tried = 0; c && (tried < 3 || !few); c = next_case(*state, c)) {
                if (c->arg[0] == 0 || (few && !gs_test_small() && !c->small)) continue;
                const double off = off_f32(d, c, gs_test_16_bits[p]);
                most = off > most ? off : most;
                tried++;
            }
            if (most < 0.1 * unit_of(gs_test_16_bits[p]))
                fail_msg("%s on %s in %s differs from f32 by %g at most", (const char *)*state, d->name,
                         name_of(gs_test_16_bits[p]), most);
        }
}

/* ---- attention in double, and the effect of rounding p and ds ---- */

typedef struct heads {
    int n, length, heads, d, width;
    bool causal;
    const float *x, *dy; /* rounded inputs */
    double *y, *dx, *y_off, *dx_off;
} heads;

static const float *token(const heads *t, int sample, int i, int which, int head) {
    return t->x + (((size_t)sample * (size_t)t->length + (size_t)i) * 3 + (size_t)which) * (size_t)t->width +
           (size_t)(head * t->d);
}

static double dot(const float *a, const float *b, int d, bool sizes) {
    double sum = 0;
    for (int k = 0; k < d; k++)
        sum += sizes ? fabs((double)a[k] * (double)b[k]) : (double)a[k] * (double)b[k];
    return sum;
}

static void one_query(const heads *t, int sample, int head, int i, double u) {
    const int end = t->causal ? i + 1 : t->length;
    const double scale = 1 / sqrt((double)t->d);
    const float *q = token(t, sample, i, 0, head);
    const size_t at =
        ((size_t)sample * (size_t)t->length + (size_t)i) * (size_t)t->width + (size_t)(head * t->d);
    const float *dy = t->dy + at;
    double *p = gs_test_calloc((size_t)end, sizeof *p), sum = 0, dy_y = 0, dy_y_off = 0;
    for (int j = 0; j < end; j++)
        sum += p[j] = exp(dot(q, token(t, sample, j, 1, head), t->d, false) * scale);
    for (int j = 0; j < end; j++) {
        const float *v = token(t, sample, j, 2, head);
        p[j] /= sum;
        for (int k = 0; k < t->d; k++) {
            t->y[at + (size_t)k] += p[j] * (double)v[k];
            t->y_off[at + (size_t)k] += u * p[j] * fabs((double)v[k]);
        }
    }
    for (int k = 0; k < t->d; k++) {
        dy_y += (double)dy[k] * t->y[at + (size_t)k];
        dy_y_off += fabs((double)dy[k]) * t->y_off[at + (size_t)k];
    }
    for (int j = 0; j < end; j++) {
        const float *key = token(t, sample, j, 1, head), *v = token(t, sample, j, 2, head);
        const double ds = p[j] * (dot(dy, v, t->d, false) - dy_y) * scale;
        const double ds_off = u * fabs(ds) + (1 + u) * p[j] * scale * dy_y_off;
        const size_t to_q = (size_t)(q - t->x), to_k = (size_t)(key - t->x), to_v = (size_t)(v - t->x);
        for (int k = 0; k < t->d; k++) {
            t->dx[to_q + (size_t)k] += ds * (double)key[k];
            t->dx_off[to_q + (size_t)k] += ds_off * fabs((double)key[k]);
            t->dx[to_k + (size_t)k] += ds * (double)q[k];
            t->dx_off[to_k + (size_t)k] += ds_off * fabs((double)q[k]);
            t->dx[to_v + (size_t)k] += p[j] * (double)dy[k];
            t->dx_off[to_v + (size_t)k] += u * p[j] * fabs((double)dy[k]);
        }
    }
}

static void check_attention(const instance *t, tensor which, const double *want, const double *off,
                            gs_precision p) {
    double squares = 0;
    for (size_t k = 0; k < t->count[which]; k++) squares += want[k] * want[k];
    const double rms = sqrt(squares / (double)t->count[which]);
    for (size_t k = 0; k < t->count[which]; k++) {
        /* in f16, p < 2^-14 is rounded to a multiple of 2^-24, which adds an error of at most 2^-25 per token */
        const double allowed = off[k] + 2 * TOLERANCE * (fabs(want[k]) + rms) +
                               (p == GS_PRECISION_F16 ? ldexp(t->c->arg[1], -24) : 0);
        if (!(fabs((double)t->host[which][k] - want[k]) <= allowed))
            fail_msg("%s on %s in %s: %s[%zu] is %.9g, wanted %.9g: off by %.2g, allowed are %.2g",
                     operator_case_name(t->c), t->device->name, name_of(p), tensor_names[which], k,
                     (double)t->host[which][k], want[k], fabs((double)t->host[which][k] - want[k]), allowed);
    }
}

/* attention  n, length, heads, d, causal */
TEST_AROUND(attention_as_in_double, gs_test_to_f32, gs_test_to_f32) {
    for (const operator_case *c = next_case("attention", NULL); c; c = next_case("attention", c))
        for (size_t p = 0; p < 2 && c->arg[0] > 0; p++)
            FOR_EACH_DEVICE (d) {
                instance t;
                d->precision = gs_test_16_bits[p];
                instance_open(&t, d, c, 0);
                instance_run(&t);
                d->precision = GS_PRECISION_F32;
                float *x = gs_test_malloc(t.count[X] * sizeof *x),
                      *dy = gs_test_malloc(t.count[DY] * sizeof *dy);
                for (size_t i = 0; i < t.count[X]; i++) x[i] = rounded(gs_test_16_bits[p], t.host[X][i]);
                for (size_t i = 0; i < t.count[DY]; i++) dy[i] = rounded(gs_test_16_bits[p], t.host[DY][i]);
                heads h = {.n = c->arg[0],
                           .length = c->arg[1],
                           .width = (int)(t.count[Y] / (size_t)(c->arg[0] * c->arg[1])),
                           .heads = c->arg[3],
                           .causal = c->arg[4],
                           .x = x,
                           .dy = dy,
                           .y = calloc(t.count[Y], sizeof(double)),
                           .y_off = calloc(t.count[Y], sizeof(double)),
                           .dx = calloc(t.count[X], sizeof(double)),
                           .dx_off = calloc(t.count[X], sizeof(double))};
                assert_true(h.y && h.y_off && h.dx && h.dx_off);
                h.d = h.width / h.heads;
                for (int n = 0; n < h.n; n++)
                    for (int head = 0; head < h.heads; head++)
                        for (int i = 0; i < h.length; i++)
                            one_query(&h, n, head, i, unit_of(gs_test_16_bits[p]));
                check_attention(&t, Y, h.y, h.y_off, gs_test_16_bits[p]);
                check_attention(&t, DX, h.dx, h.dx_off, gs_test_16_bits[p]);
                free(h.y), free(h.y_off), free(h.dx), free(h.dx_off);
            }
}

#define OF(test, op)                                                                                         \
    { #test " of " op, test, gs_test_to_f32, gs_test_to_f32, (void *)(uintptr_t)op }

#define BOTH(op) OF(like_f32_of_rounded, op), OF(is_rounded, op)

GS_TESTS(precision, BOTH("linear"), BOTH("conv2d"), BOTH("conv2d_groups"), BOTH("gelu"), BOTH("gelu_tanh"),
         BOTH("silu"), BOTH("layer_norm"), BOTH("batch_norm"), OF(is_rounded, "attention"))
