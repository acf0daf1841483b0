#include "cl/cl.h"

/* Add up the work-groups' results (squares.cl). */
static void add_up(const uint32_t *part, size_t groups, uint32_t top, gs_squares *out) {
    *out = (gs_squares){.top = top};
    for (size_t g = 0; g < groups; g++) {
        const uint32_t *sums = part + groups + 4 * g;
        if (part[g] > out->largest) out->largest = part[g];
        out->high += sums[0] | (uint64_t)sums[1] << 32;
        out->low += sums[2] | (uint64_t)sums[3] << 32;
    }
    if (out->largest >> 23 > top) out->top = out->largest >> 23;
}

gs_status gs_cl_squares(gs_device *d, gs_mem x, size_t count, uint32_t top, gs_squares *out) {
    enum {
        MOST = 128 /* groups */,
        EACH = 1024 /* elements per group, at least */,
        WORDS = 5 /* per group's result */
    };
    const gs_cl *cl = gs_cl_of(d);
    const size_t most = cl->tiles.gpu ? MOST : gs_smaller(4 * cl->units, MOST),
                 groups = gs_smaller(gs_cl_parts(count, EACH), most);
    const gs_cl_grid grid = gs_cl_groups(d, groups);
    uint32_t part[MOST * WORDS];
    gs_mem parts;
    if (top < 1) top = 1;
    if (groups > 0) {
        GS_TRY(gs_cl_scratch(d, GS_CL_SCRATCH_PARTIAL, MOST * WORDS, &parts));
        GS_TRY(GS_CL_RUN(d, "squares", "squares_largest", grid, parts, x, count, (int)groups));
        GS_TRY(GS_CL_RUN(d, "squares", "squares_sum", grid, parts, x, count, (int)groups, (int)top));
        GS_TRY(gs_cl_read(d, part, parts, groups * WORDS * sizeof *part));
    }
    add_up(part, groups, top, out);
    return GS_OK;
}
