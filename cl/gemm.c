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

/* Whether it pays to copy A and B first, tile by tile: each of their elements is copied once, and used 2 n or 2 m times.
 * Where the rows of both are contiguous there is less to gain. */
static bool worth_copying(const gs_cl_tiles *t, const gs_cl_gemm_sizes *s) {
    const size_t flops = 2 * s->m * s->n / (s->m + s->n), pack = (size_t)t->pack;
    return flops >= (s->a_col == 1 && s->b_col == 1 ? pack + pack / 2 : pack);
}

/* On a CPU, for large products. */
static gs_status packed(gs_device *d, gs_mem c, gs_mem a, gs_mem b, gs_mem bias, const gs_cl_gemm_sizes *s) {
    const gs_cl_tiles *t = &gs_cl_of(d)->tiles;
    const size_t rows = (size_t)t->rows, wide = 2 * (size_t)t->vector, down = gs_cl_parts(s->m, rows),
                 across = gs_cl_parts(s->n, wide), blocks = gs_cl_parts(s->k, GS_PACK);
    const gs_cl_grid a_grid = {{blocks, down, 1}, {1, 1, 1}}, b_grid = {{blocks, across, 1}, {1, 1, 1}},
                     grid = {{down, across, 1}, {1, 1, 1}};
    gs_mem a_tiles, b_tiles;
    GS_TRY(gs_cl_scratch(d, GS_CL_SCRATCH_TILES, (down * rows + across * wide) * s->k, &b_tiles));
    a_tiles = gs_at(b_tiles, across * wide * s->k);
    GS_TRY(GS_CL_RUN(d, "gemm_packed", "gemm_pack_a", a_grid, GS_ARG(a_tiles), GS_ARG(a), GS_ARG_STRUCT(*s)));
    GS_TRY(GS_CL_RUN(d, "gemm_packed", "gemm_pack_b", b_grid, GS_ARG(b_tiles), GS_ARG(b), GS_ARG_STRUCT(*s)));
    return GS_CL_RUN(d, "gemm_packed", "gemm_packed", grid, GS_ARG(c), GS_ARG(a_tiles), GS_ARG(b_tiles),
                     GS_ARG(bias), GS_ARG_STRUCT(*s));
}

gs_status gs_cl_gemm(gs_device *d, gs_mem c, gs_mem a, gs_mem b, gs_mem bias, gs_cl_gemm_sizes s) {
    const gs_cl *cl = gs_cl_of(d);
    const size_t vector = (size_t)cl->tiles.vector;
    if (s.m == 0 || s.n == 0) return GS_OK;
    s.has_bias = bias.base != NULL;
    if (!bias.base) bias = a; /* a kernel's buffer must exist; this one is not touched */
    if (cl->tiles.gpu) return tiles(d, c, a, b, bias, &s);
    if (worth_copying(&cl->tiles, &s)) return packed(d, c, a, b, bias, &s);

    /* On a CPU: neighbouring work-items, which a core runs one after the other, share columns of B. */
    if (s.b_col == 1 && s.n >= vector && !s.has_bias && !s.relu) {
        gs_cl_grid grid = {{gs_cl_parts(s.m, (size_t)cl->tiles.rows), gs_cl_parts(s.n, 2 * vector), 1},
                           {1, 1, 1}};
        return GS_CL_RUN(d, "gemm", "gemm_broadcast", grid, GS_ARG(c), GS_ARG(a), GS_ARG(b),
                         GS_ARG_STRUCT(s));
    }
    if (s.a_col == 1 && s.b_row == 1 && s.k >= vector && !s.add) {
        gs_cl_grid grid = {
            {gs_cl_parts(s.m, (size_t)cl->tiles.dot_rows), gs_cl_parts(s.n, GS_DOT_COLUMNS), 1}, {1, 1, 1}};
        return GS_CL_RUN(d, "gemm", "gemm_dot", grid, GS_ARG(c), GS_ARG(a), GS_ARG(b), GS_ARG(bias),
                         GS_ARG_STRUCT(s));
    }
    return GS_CL_RUN(d, "gemm_plain", "gemm_plain", elements(&s), GS_ARG(c), GS_ARG(a), GS_ARG(b),
                     GS_ARG(bias), GS_ARG_STRUCT(s));
}
