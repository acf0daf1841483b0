#include "cl/round16.h"

enum { LINE = 64 }; /* where a copy begins: a multiple of so many floats */

static const char *of(const gs_device *d, const char *bf16, const char *f16) {
    return d->precision == GS_PRECISION_BF16 ? bf16 : f16;
}

gs_status gs_cl_narrow(gs_device *d, gs_mem to, gs_mem x, size_t count, bool relu) {
    return GS_CL_RUN(d, "round16", of(d, "narrow_to_bf16", "narrow_to_f16"), gs_cl_elements(d, count),
                     GS_ARG(to), GS_ARG(x), GS_ARG(count), GS_ARG((int)relu));
}

gs_status gs_cl_pass(gs_device *d, gs_mem dx, gs_mem dy, gs_mem y, size_t count) {
    return GS_CL_RUN(d, "round16", of(d, "pass_by_bf16", "pass_by_f16"), gs_cl_elements(d, count), GS_ARG(dx),
                     GS_ARG(dy), GS_ARG(y), GS_ARG(count));
}

const char *gs_cl_products_file(const gs_device *d, gs_mem m, const char *f32) {
    return m.half ? of(d, "products_bf16", "products_f16") : f32;
}

/* ---- in f32 ---- */

static bool is_copied(const gs_cl_operand *o) {
    return o->place->base && (o->place->half || !o->relu_y);
}

static gs_status copy(gs_device *d, gs_mem to, const gs_cl_operand *o) {
    const char *kernel = !o->place->half ? of(d, "round_to_bf16", "round_to_f16")
                         : o->relu_y     ? of(d, "passes_bf16", "passes_f16")
                                         : of(d, "widen_bf16", "widen_f16");
    return GS_CL_RUN(d, "round16", kernel, gs_cl_elements(d, o->count), GS_ARG(to), GS_ARG(*o->place),
                     GS_ARG(o->count));
}

gs_status gs_cl_rounded(gs_device *d, int count, const gs_cl_operand *operand) {
    size_t all = 0;
    gs_mem memory;
    if (d->precision == GS_PRECISION_F32) return GS_OK;
    for (int i = 0; i < count; i++)
        if (is_copied(&operand[i])) all += gs_cl_parts(operand[i].count, LINE) * LINE;
    if (all == 0) return GS_OK;
    GS_TRY(gs_cl_scratch(d, GS_CL_SCRATCH_ROUNDED, all, &memory));
    for (int i = 0; i < count; i++) {
        if (!is_copied(&operand[i])) continue;
        GS_TRY(copy(d, memory, &operand[i]));
        *operand[i].place = memory;
        memory = gs_at(memory, gs_cl_parts(operand[i].count, LINE) * LINE);
    }
    return GS_OK;
}

size_t gs_cl_at_once(gs_device *d, size_t n, size_t numbers, size_t least) {
    enum { CPU = 1 << 18, GPU = 1 << 24 };
    const size_t budget = gs_cl_of(d)->tiles.gpu ? GPU : CPU, fit = budget / (numbers + 1);
    if (d->precision == GS_PRECISION_F32) return n;
    const size_t some = ((fit > least ? fit : least) + 2) / 2 * 2;
    return some < n ? some : n;
}

/* ---- in 16 bits ---- */

gs_status gs_cl_halves(gs_device *d, int count, const gs_cl_operand *operand) {
    size_t all = 0;
    gs_mem memory;
    for (int i = 0; i < count; i++)
        if (!operand[i].place->half) all += gs_cl_parts(operand[i].count, 2 * LINE) * LINE;
    if (all == 0) return GS_OK;
    GS_TRY(gs_cl_scratch(d, GS_CL_SCRATCH_ROUNDED, all, &memory));
    memory.half = true;
    for (int i = 0; i < count; i++) {
        if (operand[i].place->half) continue;
        GS_TRY(gs_cl_narrow(d, memory, *operand[i].place, operand[i].count, false));
        *operand[i].place = memory;
        memory = gs_at(memory, gs_cl_parts(operand[i].count, 2 * LINE) * LINE);
    }
    return GS_OK;
}
