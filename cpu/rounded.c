#include "cpu/round16.h"

typedef struct round_work {
    gs_precision precision;
    float *to;
    const float *from;
    size_t count;
    int parts;
} round_work;

static void round_part(void *context, int part) {
    const round_work *t = context;
    gs_range r = gs_cpu_range(t->count, part, t->parts);
    gs_round16(t->precision, t->to + r.begin, t->from + r.begin, r.end - r.begin);
}

gs_status GS_ISA(gs_cpu_rounded)(gs_device *d, int count, const gs_operand *operand) {
    size_t all = 0, at = 0;
    float *memory;
    if (d->precision == GS_PRECISION_F32) return GS_OK;
    for (int i = 0; i < count; i++) all += (operand[i].count + 15) / 16 * 16;
    GS_TRY(gs_cpu_scratch_rounded(d, all, &memory));
    for (int i = 0; i < count; i++) {
        round_work t = {d->precision, memory + at, gs_cpu_floats(*operand[i].place), operand[i].count,
                        gs_cpu_parts(d, operand[i].count, 1 << 15)};
        gs_pool_run(gs_cpu_of(d)->pool, t.parts, round_part, &t);
        *operand[i].place = (gs_mem){.base = memory, .at = at};
        at += (operand[i].count + 15) / 16 * 16;
    }
    return GS_OK;
}
