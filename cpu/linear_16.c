#include "cpu/linear.h"
#include "cpu/product16.h"

/* A linear layer in 16 bits (linear.h): it uses the products of product16.h, which rounds their inputs. db is the sum
 * of the rounded dy, so that backward as a whole gives the f32 results for rounded inputs.
 *
 *     forward    y  (n, out)  = x (n, in) w^T + b
 *     backward   dx (n, in)   = dy (n, out) w
 *                dw (out, in) (+)= dy^T x
 *                db (out)     (+)= column sums of dy           (+)=: += with `add`, else =
 *
 * A product is divided among the threads along its longer side; each thread copies the data it needs. */
typedef struct linear_16_work {
    gs_precision precision;
    bool instruction;
    gs_linear_task l;
    int parts, dw_parts;
    float *memory; /* memory_part floats per part */
    size_t memory_part;
} linear_16_work;

static int longer(int a, int b) {
    return a > b ? a : b;
}

/* Compute part `part` of `parts` of a product; p describes the whole product. */
static void multiply(const linear_16_work *t, gs_product16 p, int part, int parts, float *memory) {
    const bool by_rows = p.rows >= p.columns;
    const gs_range r = gs_cpu_range((size_t)(by_rows ? p.rows : p.columns), part, parts);
    if (r.begin == r.end) return;
    p.precision = t->precision;
    p.instruction = t->instruction;
    *(by_rows ? &p.rows : &p.columns) = (int)(r.end - r.begin);
    *(by_rows ? &p.a : &p.b) = gs_lines_from(by_rows ? p.a : p.b, r.begin);
    p.c += by_rows ? r.begin * p.c_row : r.begin;
    if (p.bias && !by_rows) p.bias += r.begin;
    GS_ISA(gs_cpu_product16)(&p, memory);
}

static void forward_part(void *context, int part) {
    const linear_16_work *t = context;
    const size_t in = (size_t)t->l.in;
    multiply(t,
             (gs_product16){.rows = t->l.n,
                            .depth = t->l.in,
                            .columns = t->l.out,
                            .a = {t->l.x, in, NULL, true},
                            .b = {t->l.w, in, NULL, true},
                            .c = t->l.y,
                            .c_row = (size_t)t->l.out,
                            .bias = t->l.b,
                            .relu = t->l.relu},
             part, t->parts, t->memory + (size_t)part * t->memory_part);
}

static linear_16_work work_of(gs_device *d, const gs_linear_task *l) {
    const bool instruction = d->precision == GS_PRECISION_BF16 && gs_cpu_of(d)->bf16;
    return (linear_16_work){.precision = d->precision, .instruction = instruction, .l = *l};
}

gs_status GS_ISA(gs_cpu_linear_16_forward)(gs_device *d, const gs_linear_task *l) {
    linear_16_work t = work_of(d, l);
    t.parts = gs_cpu_parts(d, (size_t)longer(l->n, l->out), 32);
    t.memory_part = GS_ISA(gs_cpu_product16_memory)(l->n, l->out);
    GS_TRY(gs_cpu_scratch(d, (size_t)t.parts * t.memory_part, &t.memory));
    return gs_cpu_run(d, t.parts, forward_part, &t);
}

/* All parts of dw, then all of dx: they are independent, so no thread waits in between. */
static void product_part(void *context, int part) {
    const linear_16_work *t = context;
    const size_t in = (size_t)t->l.in, out = (size_t)t->l.out;
    float *memory = t->memory + (size_t)part * t->memory_part;
    if (part < t->dw_parts)
        multiply(t,
                 (gs_product16){.rows = t->l.out,
                                .depth = t->l.n,
                                .columns = t->l.in,
                                .a = {t->l.dy, out, NULL, false},
                                .b = {t->l.x, in, NULL, false},
                                .c = t->l.dw,
                                .c_row = in,
                                .add = t->l.add},
                 part, t->dw_parts, memory);
    else
        multiply(t,
                 (gs_product16){.rows = t->l.n,
                                .depth = t->l.out,
                                .columns = t->l.in,
                                .a = {t->l.dy, out, NULL, true},
                                .b = {t->l.w, in, NULL, false},
                                .c = t->l.dx,
                                .c_row = in},
                 part - t->dw_parts, t->parts - t->dw_parts, memory);
}

gs_status GS_ISA(gs_cpu_linear_16_backward)(gs_device *d, const gs_linear_task *l) {
    const size_t n = (size_t)l->n;
    const int in = l->in, out = l->out;
    linear_16_work t = work_of(d, l);
    t.dw_parts = gs_cpu_parts(d, (size_t)longer(out, in), 32);
    t.memory_part = GS_ISA(gs_cpu_product16_memory)(longer(l->n, out), in);
    t.parts = t.dw_parts + (t.l.dx ? gs_cpu_parts(d, (size_t)longer((int)n, in), 32) : 0);
    const size_t passed = t.l.relu_y ? (n * (size_t)out + 15) / 16 * 16 : 0;
    GS_TRY(gs_cpu_scratch(d, passed + (size_t)t.parts * t.memory_part, &t.memory));
    GS_ISA(gs_cpu_linear_dy)(d, &t.l, t.memory);
    t.memory += passed;
    return gs_cpu_run(d, t.parts, product_part, &t);
}
