#include "cl/round16.h"

enum { LINE = 64 }; /* a copy starts at a multiple of this many floats */

gs_status gs_cl_narrow(gs_device *d, gs_mem to, gs_mem x, size_t count, bool relu) {
    return GS_CL_RUN(d, GS_CL_STORED(d, "round16"), "narrow", gs_cl_elements(d, count), to, x, count,
                     (int)relu);
}

gs_status gs_cl_pass(gs_device *d, gs_mem dx, gs_mem dy, gs_mem y, size_t count) {
    return GS_CL_RUN(d, GS_CL_FLOW(d, dx, "round16"), "pass", gs_cl_elements(d, count), dx, dy, y, count);
}

/* The floats reserved for the operand's copy. */
static size_t room_of(const gs_cl_operand *o) {
    return gs_cl_parts(gs_cl_copied(*o->place, o->count), 2 * LINE) * LINE;
}

gs_status gs_cl_rounded(gs_device *d, int count, const gs_cl_operand *operand) {
    size_t all = 0;
    gs_mem memory;
    if (d->precision == GS_PRECISION_F32) return GS_OK;
    for (int i = 0; i < count; i++) all += room_of(&operand[i]);
    if (all == 0) return GS_OK;
    GS_TRY(gs_cl_scratch(d, GS_CL_SCRATCH_ROUNDED, all, &memory));
    memory.half = true;
    for (int i = 0; i < count; i++) {
        const size_t room = room_of(&operand[i]);
        if (room == 0) continue;
        GS_TRY(gs_cl_narrow(d, memory, *operand[i].place, operand[i].count, operand[i].relu_y));
        *operand[i].place = memory;
        memory = gs_at(memory, room);
    }
    return GS_OK;
}

size_t gs_cl_at_once(gs_device *d, size_t n, size_t copied, size_t least) {
    enum { CPU = 1 << 19, GPU = 1 << 25 }; /* elements */
    const size_t budget = gs_cl_of(d)->tiles.gpu ? GPU : CPU;
    if (d->precision == GS_PRECISION_F32 || copied == 0) return n;
    const size_t fit = budget / copied, some = ((fit > least ? fit : least) + 2) / 2 * 2;
    return some < n ? some : n;
}
