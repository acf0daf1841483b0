#include "cl/round16.h"

gs_status gs_cl_rounded(gs_device *d, int count, const gs_cl_operand *operand) {
    enum { LINE = 64 }; /* where a copy begins: a multiple of so many floats */
    const char *kernel = d->precision == GS_PRECISION_BF16 ? "round_to_bf16" : "round_to_f16";
    size_t all = 0;
    gs_mem memory;
    if (d->precision == GS_PRECISION_F32) return GS_OK;
    for (int i = 0; i < count; i++) all += gs_cl_parts(operand[i].count, LINE) * LINE;
    GS_TRY(gs_cl_scratch(d, GS_CL_SCRATCH_ROUNDED, all, &memory));
    for (int i = 0; i < count; i++) {
        const size_t floats = operand[i].count;
        GS_TRY(GS_CL_RUN(d, "round16", kernel, gs_cl_elements(d, floats), GS_ARG(memory),
                         GS_ARG(*operand[i].place), GS_ARG(floats)));
        *operand[i].place = memory;
        memory = gs_at(memory, gs_cl_parts(floats, LINE) * LINE);
    }
    return GS_OK;
}
