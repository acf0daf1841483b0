#include "cl/cl.h"

/* One work-item for each element of C. */
static gs_cl_grid elements(const gs_cl_gemm_sizes *s) {
    gs_cl_grid grid = gs_cl_items(s->n, 64);
    grid.groups[1] = s->m;
    return grid;
}

/* On a GPU. Where C has few tiles, the sum is cut into slices of at least 128 terms, so that more work-groups share the
 * work; how many depends on the sizes alone, so that the result is the same on every GPU. */
static gs_status tiles(gs_device *d, gs_mem c, gs_mem a, gs_mem b, gs_mem bias, const gs_cl_gemm_sizes *s) {
    enum { ENOUGH = 256, SHORTEST = 128 };
    const gs_cl *cl = gs_cl_of(d);
    size_t across = gs_cl_parts(s->n, (size_t)cl->tiles.tile),
           down = gs_cl_parts(s->m, (size_t)cl->tiles.tile), slices = gs_cl_parts(ENOUGH, across * down);
    if (slices > s->k / SHORTEST) slices = s->k / SHORTEST;
    gs_cl_grid grid = {{across, down, slices}, {gs_cl_group(&cl->tiles), 1, 1}};
    if (slices <= 1) {
        grid.groups[2] = 1;
        return GS_CL_RUN(d, "gemm", "gemm_tile", grid, GS_ARG(c), GS_ARG(a), GS_ARG(b), GS_ARG(bias),
                         GS_ARG_STRUCT(*s), GS_ARG((size_t)s->k));
    }
    size_t length = gs_cl_parts(s->k, slices);
    gs_cl_gemm_sizes slice = *s;
    slice.add = slice.has_bias = slice.relu = 0;
    gs_mem part;
    GS_TRY(gs_cl_scratch(d, GS_CL_SCRATCH_PARTIAL, slices * s->m * s->n, &part));
    GS_TRY(GS_CL_RUN(d, "gemm", "gemm_tile", grid, GS_ARG(part), GS_ARG(a), GS_ARG(b), GS_ARG(bias),
                     GS_ARG_STRUCT(slice), GS_ARG(length)));
    return GS_CL_RUN(d, "gemm", "gemm_sum", elements(s), GS_ARG(c), GS_ARG(part), GS_ARG(bias),
                     GS_ARG_STRUCT(*s), GS_ARG(slices));
}

/* On a CPU: the work is cut into columns first, since each task copies what B has of its columns; then into rows, if there
 * are few columns. There are several tasks for each core, so that none waits long for the other; but where B lies across,
 * copying it takes longer. */
static gs_status broadcast(gs_device *d, gs_mem c, gs_mem a, gs_mem b, gs_mem bias,
                           const gs_cl_gemm_sizes *s) {
    const gs_cl *cl = gs_cl_of(d);
    const gs_cl_tiles *t = &cl->tiles;
    const size_t across = gs_cl_parts(s->n, 2 * (size_t)t->vector), down = gs_cl_parts(s->m, (size_t)t->rows),
                 enough = (s->b_col == 1 ? 16 : 4) * cl->units;
    const size_t each = gs_cl_parts(down, gs_cl_parts(enough, across)), blocks = gs_cl_parts(s->k, GS_PACK),
                 block = s->k ? gs_cl_parts(s->k, blocks * 16) * 16 : 1;
    const int is_packed = 2 * s->n >= (size_t)t->pack && s->k > 0 && s->m > (size_t)t->rows;
    if (is_packed) {
        const gs_cl_grid grid = {{blocks, down, 1}, {1, 1, 1}};
        gs_mem tiles;
        GS_TRY(gs_cl_scratch(d, GS_CL_SCRATCH_TILES, down * (size_t)t->rows * s->k, &tiles));
        GS_TRY(GS_CL_RUN(d, "gemm", "gemm_pack", grid, GS_ARG(tiles), GS_ARG(a), GS_ARG_STRUCT(*s)));
        a = tiles;
    }
    const size_t tasks = gs_cl_parts(down, each) * across;
    return GS_CL_RUN_TASKS(d, "gemm", "gemm_broadcast", gs_cl_takers(d, tasks), tasks, GS_ARG(c), GS_ARG(a),
                           GS_ARG(b), GS_ARG(bias), GS_ARG_STRUCT(*s), GS_ARG(each), GS_ARG(block),
                           GS_ARG(is_packed));
}

gs_status gs_cl_gemm(gs_device *d, gs_mem c, gs_mem a, gs_mem b, gs_mem bias, gs_cl_gemm_sizes s) {
    const gs_cl *cl = gs_cl_of(d);
    if (s.m == 0 || s.n == 0) return GS_OK;
    s.has_bias = bias.base != NULL;
    if (!bias.base) bias = a; /* a kernel's buffer must exist; this one is not touched */
    if (cl->tiles.gpu) return tiles(d, c, a, b, bias, &s);
    return broadcast(d, c, a, b, bias, &s);
}
