/* Convolution. On a GPU: products over padded planes (conv2d.cl), in chunks of images to keep the planes small. On a
 * CPU: conv2d_rows.c; for 3x3 kernels: winograd.c. With groups or dilation: conv2d_groups.c. */
#include "cl/conv2d_common.h"
#include "cl/round16.h"
#include "conv2d_order.h"
#include "core/memory.h"

#include <limits.h>
#include <stdlib.h>

/* ---- shared by all algorithms ---- */

gs_status gs_cl_conv2d_table(gs_device *d, const gs_conv2d_sizes *s, size_t count,
                             void (*fill)(const gs_conv2d_sizes *, cl_int *table), gs_mem *table) {
    gs_cl *cl = gs_cl_of(d);
    for (size_t i = 0; i < cl->table_count; i++)
        if (memcmp(&cl->tables[i].sizes, s, sizeof *s) == 0) {
            *table = cl->tables[i].table;
            return GS_OK;
        }
    const bool room = gs_grow(&cl->tables, cl->table_count, &cl->table_room, sizeof *cl->tables);
    cl_int *places = room ? malloc(count * sizeof *places) : NULL;
    if (!places) return gs_fail(GS_E_MEMORY, "conv2d: no memory for a table of %zu numbers", count);
    fill(s, places);
    gs_status st = gs_cl_alloc(d, count * sizeof *places, table);
    if (st == GS_OK) {
        cl->tables[cl->table_count++] = (gs_cl_table){*s, *table};
        st = gs_cl_write(d, *table, places, count * sizeof *places);
    }
    free(places);
    return st;
}

gs_status gs_cl_conv2d_sharers(gs_device *d, const gs_conv2d_sizes *s, size_t tasks, size_t memory,
                               size_t *groups) {
    const size_t can = gs_cl_of(d)->max_alloc / 2 / sizeof(cl_float) / memory,
                 takers = gs_cl_takers(d, tasks);
    if (can == 0)
        return gs_fail(
            GS_E_MEMORY,
            "conv2d: this device is too small for an image of (%d,%d,%d) and %d kernels of %d x %d", s->in_c,
            s->in_h, s->in_w, s->out_c, s->kernel_h, s->kernel_w);
    *groups = takers < can ? takers : can;
    return GS_OK;
}

size_t gs_cl_conv2d_chunks(gs_device *d, const gs_conv2d_sizes *s, size_t n, size_t floats) {
    enum { PER_CORE = 4, MOST = 1 << 23 };
    const size_t chunks = gs_conv2d_chunks(s, n), cores = gs_cl_of(d)->units, fit = MOST / floats,
                 most = gs_smaller(fit < cores ? cores : gs_smaller(fit, PER_CORE * cores), n);
    return gs_cl_is_exact(d) || most < chunks ? chunks : most;
}

size_t gs_cl_conv2d_at_once(gs_device *d, size_t n, size_t chunks, size_t copied) {
    const size_t least = gs_cl_of(d)->units * gs_cl_parts(n, chunks);
    return gs_cl_parts(gs_cl_at_once(d, n, copied, least) * chunks, n);
}

size_t gs_cl_conv2d_end(size_t n, size_t chunks, size_t end) {
    while (end < chunks && n * end / chunks % 2 != 0) end++;
    return gs_smaller(end, chunks);
}

gs_status gs_cl_conv2d_weights_sum(gs_device *d, const char *file, gs_mem dw, gs_mem db, gs_mem part,
                                   size_t groups, size_t out_c, size_t inputs, bool add) {
    const gs_cl_tiles *t = &gs_cl_of(d)->tiles;
    const size_t columns = inputs + (db.base != NULL);
    gs_cl_grid grid =
        gs_cl_items(t->gpu ? columns : gs_cl_parts(columns, (size_t)t->vector), t->gpu ? 64 : 1);
    grid.groups[1] = out_c;
    return GS_CL_RUN(d, file, "conv2d_weights_sum", grid, dw, db.base ? db : dw, GS_ARG_BUFFER(part), groups,
                     (int)columns, (int)inputs, (int)add);
}

/* ---- on a GPU ---- */

/* The next three structs are also declared in conv2d.cl and conv2d_planes.clh. */

typedef struct planes {
    cl_ulong plane, image; /* floats from plane to plane, from image to image */
    cl_ulong lead, slack;  /* zeros before the first plane and after the last one */
    cl_int c, h, w;        /* of the tensor being copied */
    cl_int stride_h, stride_w, pad_h, pad_w;
    cl_int grid_h, grid_w;
    cl_int ones;  /* 1: a plane of ones follows each image's other planes */
    cl_int gated; /* 1: elements masked by the relu become 0 */
} planes;

typedef struct product {
    cl_ulong image;
    cl_int m, w_row;
    cl_int first, parts, each;
    cl_float start;
    cl_int grid_w, first_row, first_column, rows, columns, x_columns;
    cl_int h, w, stride_h, stride_w, first_h, first_w;
    cl_int has_bias, relu;
} product;

typedef struct weights {
    cl_ulong lead, plane, dy_image, x_image;
    cl_ulong images, group;
    cl_int m, n, positions;
} weights;

/* Values derived from the sizes. */
typedef struct plan {
    planes x, dy;
    int taps_h, taps_w;    /* kernel positions that fall on one phase of x */
    size_t inputs;         /* per output: in_c kernel_h kernel_w */
    size_t x_size, y_size; /* floats per image */
} plan;

static int larger(int a, int b) {
    return a > b ? a : b;
}

static gs_status make_plan(const gs_conv2d_sizes *s, plan *p) {
    enum { ROUND = 16, SLACK = 64 }; /* planes are whole vectors; tiles may read SLACK elements past a row */
    p->taps_h = (s->kernel_h + s->stride_h - 1) / s->stride_h;
    p->taps_w = (s->kernel_w + s->stride_w - 1) / s->stride_w;
    /* all windows with their padding, and all pixels of x, even those that no window covers */
    int grid_h = larger(s->out_h + p->taps_h - 1, (s->in_h + s->pad_h + s->stride_h - 1) / s->stride_h);
    int grid_w = larger(s->out_w + p->taps_w - 1, (s->in_w + s->pad_w + s->stride_w - 1) / s->stride_w);
    size_t plane = gs_cl_parts((size_t)grid_h * (size_t)grid_w, ROUND) * ROUND;
    size_t x_planes = (size_t)s->in_c * (size_t)s->stride_h * (size_t)s->stride_w + 1;
    size_t lead =
        gs_cl_parts((size_t)(p->taps_h - 1) * (size_t)grid_w + (size_t)p->taps_w - 1, ROUND) * ROUND;
    p->x = (planes){.plane = plane,
                    .image = x_planes * plane,
                    .slack = SLACK,
                    .c = s->in_c,
                    .h = s->in_h,
                    .w = s->in_w,
                    .stride_h = s->stride_h,
                    .stride_w = s->stride_w,
                    .pad_h = s->pad_h,
                    .pad_w = s->pad_w,
                    .grid_h = grid_h,
                    .grid_w = grid_w,
                    .ones = 1};
    p->dy = (planes){.plane = plane,
                     .image = (size_t)s->out_c * plane,
                     .lead = lead,
                     .slack = SLACK,
                     .c = s->out_c,
                     .h = s->out_h,
                     .w = s->out_w,
                     .stride_h = 1,
                     .stride_w = 1,
                     .grid_h = grid_h,
                     .grid_w = grid_w};
    p->inputs = (size_t)s->in_c * (size_t)s->kernel_h * (size_t)s->kernel_w;
    p->x_size = gs_conv2d_x(s);
    p->y_size = gs_conv2d_y(s, NULL);
    size_t most = p->x.image > p->dy.image + lead ? p->x.image : p->dy.image + lead;
    if (most > INT_MAX)
        return gs_fail(GS_E_MEMORY,
                       "conv2d: an image of (%d,%d,%d) with padding has %zu elements; at most %d are allowed",
                       s->in_c, s->in_h, s->in_w, most, INT_MAX);
    return GS_OK;
}

/* The number of images to process at once; in 16 bits it is even, so that each chunk starts at a float boundary. */
static size_t chunk_of(gs_device *d, const plan *p, size_t n) {
    const gs_cl *cl = gs_cl_of(d);
    size_t budget = (size_t)256 << 20, limit = 65534; /* even; a grid's third dimension is at most 65535 */
    if (budget > cl->max_alloc / 2) budget = cl->max_alloc / 2;
    size_t largest = p->x.image > p->dy.image ? p->x.image : p->dy.image;
    size_t images = budget / (largest * sizeof(cl_float));
    if (images == 0) images = 1;
    if (images > limit) images = limit;
    if (d->precision != GS_PRECISION_F32) images = (images + 1) / 2 * 2;
    return images < n ? images : n;
}

/* Scratch memory for `count` elements, which are 16-bit if the precision is. */
static gs_status scratch_of_stored(gs_device *d, gs_cl_scratch_use use, size_t count, gs_mem *out) {
    const bool half = d->precision != GS_PRECISION_F32;
    GS_TRY(gs_cl_scratch(d, use, half ? gs_cl_parts(count, 2) : count, out));
    out->half = half;
    return GS_OK;
}

/* *out = the planes of n images of a tensor, masked by the relu whose y is `gate` unless gate is GS_NONE */
static gs_status make_planes(gs_device *d, const char *file, gs_cl_scratch_use use, gs_mem from, gs_mem gate,
                             size_t n, planes p, gs_mem *out) {
    const size_t count = p.image / p.plane;
    gs_cl_grid grid = gs_cl_planes(d, count, (size_t)p.grid_h);
    grid.groups[2] = n;
    p.gated = gate.base != NULL;
    if (!gate.base) gate = from; /* a kernel's buffer argument must be valid; this one is not touched */
    GS_TRY(scratch_of_stored(d, use, p.lead + n * p.image + p.slack, out));
    return GS_CL_RUN(d, file, "conv2d_planes", grid, GS_ARG_BUFFER(*out), from, gate, GS_ARG_STRUCT(p));
}

/* Pairs of numbers: where the k-th row of the planes starts, and the k-th weight's index in a row of w. First for y and
 * dw, with k = (c, v, u) and a last entry for the plane of ones; then for dx, for each phase, with k = (v, o, u), where
 * u and v are the kernel positions that fall on the phase. */
static void fill_places(const gs_conv2d_sizes *s, cl_int *to) {
    plan p;
    if (make_plan(s, &p) != GS_OK) return; /* callers make the plan before they request a table */
    const int plane = (int)p.x.plane, grid_w = p.x.grid_w;
    for (int c = 0; c < s->in_c; c++)
        for (int v = 0; v < s->kernel_w; v++)
            for (int u = 0; u < s->kernel_h; u++) {
                const int number = (c * s->stride_h + u % s->stride_h) * s->stride_w + v % s->stride_w;
                *to++ = number * plane + u / s->stride_h * grid_w + v / s->stride_w;
                *to++ = (c * s->kernel_h + u) * s->kernel_w + v;
            }
    *to++ = s->in_c * s->stride_h * s->stride_w * plane;
    *to++ = (int)p.inputs;
    for (int phase = 0; phase < s->stride_h * s->stride_w; phase++)
        for (int v = phase % s->stride_w; v < s->kernel_w; v += s->stride_w)
            for (int o = 0; o < s->out_c; o++)
                for (int u = phase / s->stride_w; u < s->kernel_h; u += s->stride_h) {
                    *to++ = (int)p.dy.lead + o * plane - u / s->stride_h * grid_w - v / s->stride_w;
                    *to++ = o * (int)p.inputs + u * s->kernel_w + v;
                }
}

static gs_status find_places(gs_device *d, const gs_conv2d_sizes *s, const plan *p, gs_mem *x, gs_mem *dy) {
    const size_t x_count = p->inputs + 1,
                 dy_count = (size_t)s->out_c * (size_t)s->kernel_h * (size_t)s->kernel_w;
    GS_TRY(gs_cl_conv2d_table(d, s, 2 * (x_count + dy_count), fill_places, x));
    *dy = gs_at(*x, 2 * x_count);
    return GS_OK;
}

/* *out = `rows` rows of `count` weights in the order of `places`; a row starts `apart` weights after the one before. */
static gs_status order_w(gs_device *d, const char *file, gs_mem w, gs_mem places, int rows, int count,
                         int apart, gs_mem *out) {
    const gs_cl_grid grid = gs_cl_with_rows(gs_cl_items((size_t)count, 64), (size_t)rows);
    GS_TRY(scratch_of_stored(d, GS_CL_SCRATCH_W, (size_t)rows * (size_t)count, out));
    return GS_CL_RUN(d, file, "conv2d_order_w", grid, GS_ARG_BUFFER(*out), w, places, rows, count, apart);
}

/* If the rows of the grid and of the result are as long as the computed rows (as for 1 x 1 kernels), they form one long
 * row, which splits into tiles with less waste. */
static void join_rows(product *p) {
    if (p->stride_h != 1 || p->stride_w != 1 || p->first_h != 0 || p->first_w != 0 || p->parts != 1) return;
    if (p->columns != p->grid_w || p->columns != p->w) return;
    p->columns = p->x_columns = p->grid_w = p->w = p->columns * p->rows;
    p->rows = p->h = 1;
}

/* y = the product of w (m, k) and the planes x of n images. */
static gs_status multiply(gs_device *d, const char *file, gs_mem y, gs_mem w, gs_mem bias, gs_mem x,
                          gs_mem places, size_t n, product p) {
    const gs_cl *cl = gs_cl_of(d);
    const size_t tile = (size_t)cl->tiles.tile;
    join_rows(&p);
    p.has_bias = bias.base != NULL;
    if (!bias.base) bias = w; /* a kernel's buffer argument must be valid; this one is not touched */
    const gs_cl_grid grid = {
        {gs_cl_parts((size_t)p.rows * (size_t)p.columns, tile), gs_cl_parts((size_t)p.m, tile), n},
        {gs_cl_group(&cl->tiles), 1, 1}};
    return GS_CL_RUN(d, file, "conv2d_product", grid, y, w, bias, GS_ARG_BUFFER(x), places, GS_ARG_STRUCT(p));
}

/* On a GPU, pooling is a separate operator. */
bool gs_cl_fuses(gs_device *d, const gs_epilogue *e) {
    return e->relu && (!e->pool || (!gs_cl_of(d)->tiles.gpu && gs_pool2d_is_2x2(e->pool)));
}

static gs_status forward(gs_device *d, gs_mem y, gs_mem x, gs_mem w, gs_mem b, size_t n,
                         const gs_conv2d_sizes *s, gs_epilogue e) {
    GS_TRY(
        gs_cl_rounded(d, 2, (gs_cl_operand[]){{&x, n * gs_conv2d_x(s), false}, {&w, gs_conv2d_w(s), false}}));
    if (gs_conv2d_is_grouped(s)) return gs_cl_conv2d_groups_forward(d, y, x, w, b, n, s);
    if (gs_cl_winograd_pays(d, s)) return gs_cl_winograd_forward(d, y, x, w, b, n, s, &e);
    if (!gs_cl_of(d)->tiles.gpu) return gs_cl_conv2d_rows_forward(d, y, x, w, b, n, s, &e);
    plan p;
    const char *file = GS_CL_FLOW(d, y, "conv2d");
    gs_mem x_planes, x_places, dy_places, ordered;
    GS_TRY(make_plan(s, &p));
    GS_TRY(find_places(d, s, &p, &x_places, &dy_places));
    GS_TRY(order_w(d, file, w, x_places, s->out_c, (int)p.inputs, (int)p.inputs, &ordered));
    product times_w = {.image = p.x.image,
                       .m = s->out_c,
                       .w_row = (int)p.inputs,
                       .parts = 1,
                       .each = (int)p.inputs,
                       .start = -0.0f,
                       .grid_w = p.x.grid_w,
                       .rows = s->out_h,
                       .columns = s->out_w,
                       .x_columns = s->out_w,
                       .h = s->out_h,
                       .w = s->out_w,
                       .stride_h = 1,
                       .stride_w = 1,
                       .relu = e.relu};
    const size_t chunk = chunk_of(d, &p, n);
    for (size_t first = 0; first < n; first += chunk) {
        size_t images = n - first < chunk ? n - first : chunk;
        GS_TRY(make_planes(d, file, GS_CL_SCRATCH_X, gs_cl_sample(x, first, p.x_size), GS_NONE, images, p.x,
                           &x_planes));
        GS_TRY(multiply(d, file, gs_cl_sample(y, first, p.y_size), ordered, b, x_planes, x_places, images,
                        times_w));
    }
    return GS_OK;
}

/* y = w x + b, or max(w x + b, 0): computed for groups of images if x must be copied. */
gs_status gs_cl_conv2d_forward(gs_device *d, gs_mem y, gs_mem x, gs_mem w, gs_mem b, size_t n,
                               const gs_conv2d_sizes *s, const gs_epilogue *then) {
    const gs_epilogue e = gs_epilogue_of(d, then, s);
    const size_t of_x = gs_conv2d_x(s), of_y = gs_conv2d_y(s, e.pool),
                 some = gs_cl_at_once(d, n, gs_cl_copied(x, of_x), 2 * gs_cl_of(d)->units);
    for (size_t i = 0; i < n; i += some) {
        gs_epilogue here = e;
        here.index = gs_cl_sample(e.index, i, of_y);
        GS_TRY(forward(d, gs_cl_sample(y, i, of_y), gs_cl_sample(x, i, of_x), w, b,
                       n - i < some ? n - i : some, s, here));
    }
    return GS_OK;
}

/* dw = dy x^T and db = dy 1^T over n images; += with `add` */
static gs_status weights_gradient(gs_device *d, const char *file, gs_mem dw, gs_mem db, gs_mem dy, gs_mem x,
                                  gs_mem x_places, size_t n, const gs_conv2d_sizes *s, const plan *p,
                                  bool add) {
    const gs_cl *cl = gs_cl_of(d);
    const bool bias = db.base != NULL;
    weights t = {.lead = p->dy.lead,
                 .plane = p->dy.plane,
                 .dy_image = p->dy.image,
                 .x_image = p->x.image,
                 .images = n,
                 .m = s->out_c,
                 .n = (int)p->inputs + bias,
                 .positions = (s->out_h - 1) * p->dy.grid_w + s->out_w};
    const size_t m = (size_t)t.m, columns = (size_t)t.n;
    /* Each group of images is summed in registers, then the groups are added up. Groups are small enough to give the
     * whole GPU work. */
    enum { ENOUGH = 512 };
    gs_cl_grid grid = {
        {gs_cl_parts(columns, (size_t)cl->tiles.tile), gs_cl_parts(m, (size_t)cl->tiles.tile), 1},
        {gs_cl_group(&cl->tiles), 1, 1}};
    t.group = gs_cl_parts(n * grid.groups[0] * grid.groups[1], ENOUGH);
    if (t.group > n) t.group = n;
    const size_t groups = grid.groups[2] = gs_cl_parts(n, t.group);
    gs_mem part;
    GS_TRY(gs_cl_scratch(d, GS_CL_SCRATCH_PARTIAL, groups * m * columns, &part));
    GS_TRY(GS_CL_RUN(d, file, "conv2d_weights", grid, GS_ARG_BUFFER(part), GS_ARG_BUFFER(dy),
                     GS_ARG_BUFFER(x), x_places, GS_ARG_STRUCT(t)));
    return gs_cl_conv2d_weights_sum(d, file, dw, db, part, groups, m, p->inputs, add);
}

/* dx of n images, phase by phase; ordered: from order_w. */
static gs_status inputs_gradient(gs_device *d, const char *file, gs_mem dx, gs_mem ordered, gs_mem dy_planes,
                                 gs_mem places, size_t n, const gs_conv2d_sizes *s, const plan *p) {
    product back = {.image = p->dy.image,
                    .m = s->in_c,
                    .w_row = s->out_c * s->kernel_h * s->kernel_w,
                    .grid_w = p->dy.grid_w,
                    .x_columns = s->out_w,
                    .h = s->in_h,
                    .w = s->in_w,
                    .stride_h = s->stride_h,
                    .stride_w = s->stride_w};
    for (int phase = 0; phase < s->stride_h * s->stride_w; phase++) {
        const int u = phase / s->stride_w, v = phase % s->stride_w,
                  taps = u < s->kernel_h ? (s->kernel_h - 1 - u) / s->stride_h + 1 : 0;
        back.first_h = u - s->pad_h, back.first_w = v - s->pad_w;
        back.first_row = s->pad_h / s->stride_h, back.first_column = s->pad_w / s->stride_w;
        back.rows = (s->in_h - 1 + s->pad_h) / s->stride_h - back.first_row + 1;
        back.columns = (s->in_w - 1 + s->pad_w) / s->stride_w - back.first_column + 1;
        back.parts = v < s->kernel_w ? (s->kernel_w - 1 - v) / s->stride_w + 1 : 0;
        back.each = s->out_c * taps;
        GS_TRY(multiply(d, file, dx, ordered, GS_NONE, dy_planes, places, n, back));
        back.first += back.parts * back.each;
    }
    return GS_OK;
}

/* *dy = what reaches y through the epilogue, which is then empty; in scratch memory. */
static gs_status unfuse(gs_device *d, gs_mem *dy, gs_epilogue *e, size_t n, const gs_conv2d_sizes *s) {
    const gs_mem from = *dy;
    const size_t count = n * gs_conv2d_y(s, e->pool);
    GS_TRY(gs_cl_scratch(d, GS_CL_SCRATCH_PASSED, count, dy));
    GS_TRY(gs_cl_relu_backward(d, *dy, from, e->y, count));
    if (e->pool) {
        gs_mem all;
        GS_TRY(gs_cl_scratch(d, GS_CL_SCRATCH_DY, n * gs_conv2d_y(s, NULL), &all));
        GS_TRY(gs_cl_max_pool2d_backward(d, all, *dy, e->index, n, e->pool));
        *dy = all;
    }
    *e = (gs_epilogue){0};
    return GS_OK;
}

/* forward: y = w x + b, so dw = dy x^T, db = dy 1^T, dx = w^T dy; a relu after it passes dy only where y > 0 */
gs_status gs_cl_conv2d_backward(gs_device *d, gs_mem dx, gs_mem dw, gs_mem db, gs_mem dy, gs_mem x, gs_mem w,
                                size_t n, const gs_conv2d_sizes *s, bool add, const gs_epilogue *then) {
    gs_epilogue e = gs_epilogue_of(d, then, s);
    if (!e.relu) e.y = GS_NONE;
    const bool exact = gs_cl_is_exact(d), winograd = gs_cl_winograd_pays(d, s), gpu = gs_cl_of(d)->tiles.gpu;
    if (n > 0 && exact && e.relu && (winograd || gpu)) GS_TRY(unfuse(d, &dy, &e, n, s));
    if (n > 0 && winograd && (exact || (!db.base && !e.relu))) {
        if (!exact || gs_winograd_dw_pays(s))
            return gs_cl_winograd_backward(d, dx, dw, db, dy, x, w, n, s, add);
        if (dx.base) GS_TRY(gs_cl_winograd_dx(d, dx, dy, w, n, s));
        dx = GS_NONE;
    }
    if (n > 0 && !gs_conv2d_is_grouped(s) && !gpu)
        return gs_cl_conv2d_rows_backward(d, dx, dw, db, dy, x, w, n, s, add, &e);
    const size_t y_count = n * gs_conv2d_y(s, e.pool);
    const gs_cl_operand read[] = {{&x, n * gs_conv2d_x(s), false},
                                  {&w, gs_conv2d_w(s), false},
                                  {&dy, y_count, false},
                                  {&e.y, y_count, true}};
    GS_TRY(gs_cl_rounded(d, n > 0 ? 4 : 0, read));
    if (gs_conv2d_is_grouped(s)) return gs_cl_conv2d_groups_backward(d, dx, dw, db, dy, x, w, n, s, add);
    plan p;
    const char *file = GS_CL_FLOW(d, dx.base ? dx : dy, "conv2d");
    gs_mem x_planes, dy_planes, x_places, dy_places, ordered = GS_NONE;
    GS_TRY(make_plan(s, &p));
    if (n == 0) return add ? GS_OK : gs_clear(d, dw, (size_t)s->out_c * p.inputs, db, (size_t)s->out_c);
    GS_TRY(find_places(d, s, &p, &x_places, &dy_places));
    const int kernel = s->kernel_h * s->kernel_w;
    if (dx.base) GS_TRY(order_w(d, file, w, dy_places, s->in_c, s->out_c * kernel, kernel, &ordered));
    if (exact) GS_TRY(gs_cl_conv2d_weights_in_order(d, dw, db, dy, x, n, s, add));
    const size_t chunk = chunk_of(d, &p, n);
    for (size_t first = 0; first < n; first += chunk) {
        size_t images = n - first < chunk ? n - first : chunk;
        const gs_mem gate = e.relu ? gs_cl_sample(e.y, first, p.y_size) : GS_NONE;
        GS_TRY(make_planes(d, file, GS_CL_SCRATCH_DY, gs_cl_sample(dy, first, p.y_size), gate, images, p.dy,
                           &dy_planes));
        if (!exact) {
            GS_TRY(make_planes(d, file, GS_CL_SCRATCH_X, gs_cl_sample(x, first, p.x_size), GS_NONE, images,
                               p.x, &x_planes));
            GS_TRY(weights_gradient(d, file, dw, db, dy_planes, x_planes, x_places, images, s, &p,
                                    add || first > 0));
        }
        if (dx.base)
            GS_TRY(inputs_gradient(d, file, gs_cl_sample(dx, first, p.x_size), ordered, dy_planes, dy_places,
                                   images, s, &p));
    }
    return GS_OK;
}
