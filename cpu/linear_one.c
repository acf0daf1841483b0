#include "cpu/linear.h"
#include "cpu/product.h"

/* A linear layer for one sample: a matrix-vector product. Only x is reused, so the speed is limited by reading the
 * weights from memory. All threads share that work, and each weight is read once, in order.
 *
 *     y[o] = b[o] + sum_k w[o][k] x[k]
 *
 * GS_VECTOR rows of w are multiplied by x at a time, each into its own vector of sums. At the end these vectors are
 * reduced together: adding neighbouring elements turns two vectors into one, until one is left, whose element r is the
 * sum of row r:
 *
 *     a0 a1 a2 a3        a0+a1 a2+a3 b0+b1 b2+b3
 *     b0 b1 b2 b3                                     a b c d
 *     c0 c1 c2 c3        c0+c1 c2+c3 d0+d1 d2+d3
 *     d0 d1 d2 d3
 */
typedef struct one_work {
    gs_linear_task l;
    size_t in, out;
    int parts;
} one_work;

static gs_vector neighbours(gs_vector a, gs_vector b) {
    return gs_even(a, b) + gs_odd(a, b);
}

static void finish(const one_work *t, size_t o, float sum) {
    if (t->l.b) sum += t->l.b[o];
    t->l.y[o] = t->l.relu && sum < 0.0f ? 0.0f : sum;
}

/* Outputs o .. o + GS_VECTOR - 1. */
static void rows_at(const one_work *t, size_t o) {
    const float *w = t->l.w + o * t->in, *x = t->l.x;
    gs_vector sum[GS_VECTOR] = {{0}};
    size_t k = 0;
    for (; k + GS_VECTOR <= t->in; k += GS_VECTOR) {
        const gs_vector v = gs_load(x + k);
        _Pragma("GCC unroll 16") for (int r = 0; r < GS_VECTOR; r++) sum[r] +=
            gs_load(w + (size_t)r * t->in + k) * v;
    }
    _Pragma("GCC unroll 4") for (int count = GS_VECTOR / 2; count > 0; count /= 2)
        _Pragma("GCC unroll 8") for (int r = 0; r < count; r++) sum[r] =
            neighbours(sum[2 * r], sum[2 * r + 1]);
    for (int r = 0; r < GS_VECTOR; r++) {
        float all = sum[0][r];
        for (size_t rest = k; rest < t->in; rest++) all += w[(size_t)r * t->in + rest] * x[rest];
        finish(t, o + (size_t)r, all);
    }
}

/* One of the last outputs, if fewer than GS_VECTOR are left. */
static void row_at(const one_work *t, size_t o) {
    const float *w = t->l.w + o * t->in;
    gs_vector sum = {0};
    size_t k = 0;
    float all = 0;
    for (; k + GS_VECTOR <= t->in; k += GS_VECTOR) sum += gs_load(w + k) * gs_load(t->l.x + k);
    for (int i = 0; i < GS_VECTOR; i++) all += sum[i];
    for (; k < t->in; k++) all += w[k] * t->l.x[k];
    finish(t, o, all);
}

/* Parts are whole blocks of 16 outputs, so that the last outputs do not depend on the division. */
static void forward_part(void *context, int part) {
    const one_work *t = context;
    const gs_range r = gs_cpu_range(t->out, part, t->parts);
    size_t o = r.begin;
    for (; o + GS_VECTOR <= r.end; o += GS_VECTOR) rows_at(t, o);
    for (; o < r.end; o++) row_at(t, o);
}

gs_status GS_ISA(gs_cpu_linear_one_forward)(gs_device *d, const gs_linear_task *l) {
    one_work t = {.l = *l, .in = (size_t)l->in, .out = (size_t)l->out};
    t.parts = gs_cpu_parts(d, t.in * t.out, 1 << 15);
    return gs_cpu_run(d, t.parts, forward_part, &t);
}
