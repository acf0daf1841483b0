#include "cl/round16.h"

/* One work-item per element of C. */
static gs_cl_grid elements(const gs_cl_gemm_sizes *s) {
    gs_cl_grid grid = gs_cl_items(s->n, 64);
    grid.groups[1] = s->m;
    return grid;
}

/* On a GPU. If C has few tiles, a work-group sums only one block of GS_PACK terms, so that more work-groups share the
 * work; gemm_sum adds up the blocks in the order in which a single work-group would. */
static gs_status tiles(gs_device *d, gs_mem c, gs_mem a, gs_mem b, gs_mem bias, const gs_cl_gemm_sizes *s) {
    enum { ENOUGH = 256, MOST = 1 << 25 /* floats of partial sums */ };
    const gs_cl *cl = gs_cl_of(d);
    const size_t across = gs_cl_parts(s->n, (size_t)cl->tiles.tile),
                 down = gs_cl_parts(s->m, (size_t)cl->tiles.tile), blocks = gs_cl_parts(s->k, GS_PACK);
    gs_cl_grid grid = {{across, down, 1}, {gs_cl_group(&cl->tiles), 1, 1}};
    const char *file = GS_CL_STORED(d, "gemm");
    if (blocks <= 1 || across * down >= ENOUGH || blocks > MOST / (s->m * s->n))
        return GS_CL_RUN(d, file, "gemm_tile", grid, c, a, b, bias, GS_ARG_STRUCT(*s), (size_t)s->k);
    gs_cl_gemm_sizes block = *s;
    block.add = block.has_bias = block.relu = block.in_16_bits = 0;
    grid.groups[2] = blocks;
    gs_mem part;
    GS_TRY(gs_cl_scratch(d, GS_CL_SCRATCH_PARTIAL, blocks * s->m * s->n, &part));
    GS_TRY(GS_CL_RUN(d, file, "gemm_tile", grid, part, a, b, bias, GS_ARG_STRUCT(block), (size_t)GS_PACK));
    return GS_CL_RUN(d, file, "gemm_sum", elements(s), c, part, bias, GS_ARG_STRUCT(*s), blocks);
}

/* How gemm_broadcast divides a product into tasks; must match gemm_cut in gemm.cl. */
typedef struct gemm_cut {
    cl_ulong each; /* tiles of rows per task */
    cl_uint tasks;
    cl_int is_packed; /* A is a copy made by gemm_pack */
} gemm_cut;

/* On a CPU: the work is split by columns first, because each task copies its columns of B; then by rows, if there are
 * few columns. Several tasks per core keep cores from waiting long for one another; there are fewer if B is transposed,
 * because it then takes longer to copy. A task uses at most CACHED floats of A, so that its rows are still in a core's
 * L2 cache (1 MB) for the next columns. A 16-bit A is always copied, so that it is read as floats. */
static gemm_cut cut_of(const gs_cl *cl, const gs_cl_gemm_sizes *s, bool half) {
    enum { CACHED = 1 << 18 };
    if (s->m == 0 || s->n == 0) return (gemm_cut){0};
    const gs_cl_tiles *t = &cl->tiles;
    const size_t across = gs_cl_parts(s->n, 2 * (size_t)t->vector), down = gs_cl_parts(s->m, (size_t)t->rows),
                 items = (s->b_col == 1 ? 8 : 4) * cl->units;
    const size_t most = CACHED / ((size_t)t->rows * s->k + 1) + 1;
    size_t each = gs_cl_parts(down, gs_cl_parts(items, across));
    if (s->b_col == 1 && each > most) each = most;
    return (gemm_cut){
        .each = each,
        .tasks = (cl_uint)(gs_cl_parts(down, each) * across),
        .is_packed = s->k > 0 && (half || (2 * s->n >= (size_t)t->pack && s->m > (size_t)t->rows)),
    };
}

/* The floats in A's copy. */
static size_t packed_size(const gs_cl *cl, const gs_cl_gemm_sizes *s, gemm_cut cut) {
    const size_t rows = (size_t)cl->tiles.rows;
    return cut.is_packed ? gs_cl_parts(s->m, rows) * rows * s->k : 0;
}

/* If the cut says so, copy *a to `to` and set *a to the copy. */
static gs_status pack(gs_device *d, gs_mem *a, gs_mem to, const gs_cl_gemm_sizes *s, gemm_cut cut) {
    if (!cut.is_packed) return GS_OK;
    const size_t down = gs_cl_parts(s->m, (size_t)gs_cl_of(d)->tiles.rows);
    const gs_cl_grid grid = {{gs_cl_parts(s->k, GS_PACK), down, 1}, {1, 1, 1}};
    GS_TRY(GS_CL_RUN(d, GS_CL_STORED(d, "gemm"), "gemm_pack", grid, to, *a, GS_ARG_STRUCT(*s)));
    *a = to;
    return GS_OK;
}

/* Both products in one launch. p may have a bias, but only if q has no elements. */
static gs_status broadcast(gs_device *d, gs_cl_product p, gs_mem bias, gs_cl_product q) {
    const gs_cl *cl = gs_cl_of(d);
    const gemm_cut p_cut = cut_of(cl, &p.s, p.a.half), q_cut = cut_of(cl, &q.s, q.a.half);
    const char *file = GS_CL_STORED(d, "gemm");
    const size_t p_size = packed_size(cl, &p.s, p_cut), size = p_size + packed_size(cl, &q.s, q_cut);
    if (size > 0) {
        gs_mem tiles;
        GS_TRY(gs_cl_scratch(d, GS_CL_SCRATCH_TILES, size, &tiles));
        GS_TRY(pack(d, &p.a, tiles, &p.s, p_cut));
        tiles.at += p_size;
        GS_TRY(pack(d, &q.a, tiles, &q.s, q_cut));
    }
    const gs_cl_gemm_sizes *cut = p.s.leaves ? &p.s : &q.s; /* at most one of them is cut into leaves */
    gs_mem sums = p.c;                                      /* of the blocks of leaves that wait for others */
    if (cut->leaves > cut->each) GS_TRY(gs_cl_scratch(d, GS_CL_SCRATCH_SUMS, 3 * cut->m * cut->n, &sums));
    const size_t tasks = p_cut.tasks + q_cut.tasks;
    return GS_CL_RUN_TASKS(d, file, "gemm_broadcast", gs_cl_takers(d, tasks), tasks, p.c, p.a, p.b, bias,
                           GS_ARG_STRUCT(p.s), GS_ARG_STRUCT(p_cut), q.c, q.a, q.b, GS_ARG_STRUCT(q.s),
                           GS_ARG_STRUCT(q_cut), sums);
}

static gs_status product(gs_device *d, gs_mem c, gs_mem a, gs_mem b, gs_mem bias, gs_cl_gemm_sizes s) {
    s.has_bias = bias.base != NULL;
    if (!bias.base) bias = a; /* a kernel's buffer argument must be valid; this one is not touched */
    if (gs_cl_of(d)->tiles.gpu) return tiles(d, c, a, b, bias, &s);
    const gs_cl_product p = {c, a, b, s}, none = {c, a, b, {0}};
    return broadcast(d, p, bias, none);
}

/* On a CPU, products with sums of more than GS_PACK terms keep partial sums in C, so a 16-bit C, or what is added to C,
 * is first computed in floats, some rows at a time. */
static bool needs_floats(gs_device *d, gs_mem c, const gs_cl_gemm_sizes *s) {
    return (c.half || s->add) && s->k > GS_PACK && !gs_cl_of(d)->tiles.gpu;
}

static gs_status by_floats(gs_device *d, gs_mem c, gs_mem a, gs_mem b, gs_mem bias, gs_cl_gemm_sizes s) {
    enum { NEAR = 1 << 18 };
    const size_t m = s.m, n = s.n, row = s.a_row, fit = (NEAR / n + 2) / 2 * 2, some = fit < m ? fit : m;
    gs_mem floats;
    s.add = s.in_16_bits = 0;
    GS_TRY(gs_cl_scratch(d, GS_CL_SCRATCH_FLOATS, some * n, &floats));
    for (size_t first = 0; first < m; first += some) {
        const gs_mem to = gs_cl_sample(c, first, n);
        s.m = m - first < some ? m - first : some;
        GS_TRY(product(d, floats, gs_cl_sample(a, first, row), b, bias, s));
        GS_TRY(c.half ? gs_cl_narrow(d, to, floats, s.m * n, s.relu) : gs_cl_add(d, to, to, floats, s.m * n));
    }
    return GS_OK;
}

gs_status gs_cl_gemm(gs_device *d, gs_mem c, gs_mem a, gs_mem b, gs_mem bias, gs_cl_gemm_sizes s) {
    if (s.m == 0 || s.n == 0) return GS_OK;
    if (needs_floats(d, c, &s)) return by_floats(d, c, a, b, bias, s);
    s.in_16_bits = c.half;
    return product(d, c, a, b, bias, s);
}

gs_status gs_cl_gemm_pair(gs_device *d, gs_cl_product p, gs_cl_product q) {
    p.s.in_16_bits = p.c.half;
    if (!gs_cl_of(d)->tiles.gpu && !needs_floats(d, p.c, &p.s) && !needs_floats(d, q.c, &q.s))
        return broadcast(d, p, p.a, q);
    GS_TRY(gs_cl_gemm(d, p.c, p.a, p.b, GS_NONE, p.s));
    return gs_cl_gemm(d, q.c, q.a, q.b, GS_NONE, q.s);
}
