#include "cl/cl.h"

gs_status gs_cl_fma_loop(gs_device *d, gs_mem y, float scale, float shift, size_t count, size_t rounds) {
    const gs_cl *cl = gs_cl_of(d);
    size_t vector = cl->tiles.gpu ? 1 : (size_t)cl->tiles.vector,
           block = vector == 16 ? 12 : 8; /* must match BLOCK in peak.cl */
    size_t items = gs_cl_parts(count, block * vector);
    return GS_CL_RUN(d, "peak", "fma_loop", gs_cl_items(items, cl->tiles.gpu ? 256 : 1), y, scale, shift,
                     count, rounds);
}

gs_status gs_cl_triad(gs_device *d, gs_mem y, gs_mem a, gs_mem b, float scale, size_t count) {
    return GS_CL_RUN(d, "peak", "triad", gs_cl_elements(d, count), y, a, b, scale, count);
}
