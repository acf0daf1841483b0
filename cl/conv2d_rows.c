/* Convolution on a CPU, image by image; explained in conv2d_rows.cl. Each task, in both kernels, does all the work for
 * some images: a core finds in its own cache what it wrote, and kernels rarely wait for each other. */
#include "cl/conv2d_common.h"
#include "cl/round16.h"
#include "conv2d_order.h"

#include <limits.h>

/* Also declared in conv2d_rows.clh. */
typedef struct conv_rows {
    cl_ulong images, chunks, first_chunk;
    cl_ulong memory;
    cl_ulong slack;
    cl_ulong phase, plane, size;
    cl_ulong margin, dy_plane;
    cl_ulong unpooled, image, chains;
    cl_int samples, block, chain_row;
    gs_conv2d_sizes s;
    cl_int bias, relu, has_dx, low;
    cl_int pool;
} conv_rows;

static size_t depth_of(const gs_conv2d_sizes *s) {
    return (size_t)s->in_c * (size_t)s->kernel_h * (size_t)s->kernel_w;
}

enum { ROUND = 16 }; /* a multiple of every vector width */

/* Values derived from the sizes. */
static conv_rows shape_of(const gs_conv2d_sizes *s) {
    const size_t padded_h = (size_t)s->in_h + 2 * (size_t)s->pad_h, out_w = (size_t)s->out_w;
    conv_rows r = {.s = *s, .phase = gs_cl_parts(padded_h, (size_t)s->stride_h) * out_w};
    r.plane = gs_cl_parts((size_t)s->stride_h * r.phase, ROUND) * ROUND + ROUND;
    r.size = (size_t)s->in_c * (size_t)s->kernel_w * r.plane;
    r.slack = gs_cl_parts((size_t)s->kernel_w + (size_t)s->pad_w, ROUND) * ROUND + 2 * ROUND;
    const size_t above = (size_t)((s->kernel_h - 1) / s->stride_h) * out_w;
    r.margin = gs_cl_parts(above, ROUND) * ROUND;
    r.dy_plane = r.margin + gs_cl_parts(r.phase, ROUND) * ROUND + ROUND;
    return r;
}

static size_t table_size(const gs_conv2d_sizes *s) {
    return 2 * depth_of(s) + (size_t)s->out_c + (size_t)(s->in_c * s->kernel_w) +
           2 * (size_t)(s->out_c * s->kernel_h);
}

/* The table lists: for each kernel position, where its row of X starts and its index in a row of w, in the order (c, v,
 * u), in which neighbours share a plane; the starts of the rows of w; the starts of the rows of w^T, indexed by (c, v);
 * for each phase of dX, where the columns (o, u) of w^T start in the copy of dy, and their indices in w. */
static void fill_table(const gs_conv2d_sizes *s, cl_int *to) {
    const conv_rows r = shape_of(s);
    const int depth = (int)depth_of(s), kernel = s->kernel_h * s->kernel_w;
    for (int c = 0; c < s->in_c; c++)
        for (int v = 0; v < s->kernel_w; v++)
            for (int u = 0; u < s->kernel_h; u++) {
                *to++ = (c * s->kernel_w + v) * (int)r.plane + u % s->stride_h * (int)r.phase +
                        u / s->stride_h * s->out_w;
                *to++ = c * kernel + u * s->kernel_w + v;
            }
    for (int o = 0; o < s->out_c; o++) *to++ = o * depth;
    for (int c = 0; c < s->in_c; c++)
        for (int v = 0; v < s->kernel_w; v++) *to++ = c * kernel + v;
    for (int phase = 0; phase < s->stride_h; phase++) {
        const int before = s->pad_h - phase,
                  first = before > 0 ? (before + s->stride_h - 1) / s->stride_h : 0;
        for (int o = 0; o < s->out_c; o++)
            for (int u = phase, tap = 0; u < s->kernel_h; u += s->stride_h, tap++) {
                *to++ = o * (int)r.dy_plane + (int)r.margin + (first - tap) * s->out_w;
                *to++ = o * depth + u * s->kernel_w;
            }
    }
}

/* True if `low` tiles (three vectors wide) waste less work past the edges of a product than high tiles (two wide).
 * Strips of one vector fill the rest. (Backward has only `low` tiles: a kernel with both takes longer to compile.) */
static bool use_low(const gs_cl_tiles *t, size_t rows, size_t columns) {
    const size_t high = (size_t)t->rows, low = (size_t)gs_cl_rows_low(t),
                 vectors = gs_cl_parts(columns, (size_t)t->vector);
    return gs_cl_parts(rows, low) * low * (vectors % 3 == 2 ? vectors + 1 : vectors) <
           gs_cl_parts(rows, high) * high * vectors;
}

/* The floats in packed matrices with `columns` columns in total, including one per matrix for its bias. */
static size_t packed_size(const gs_cl_tiles *t, bool low, size_t rows, size_t columns) {
    const size_t height = (size_t)(low ? gs_cl_rows_low(t) : t->rows);
    return gs_cl_parts(rows, height) * height * columns;
}

/* The kernels index with ints, so sizes that do not fit in an int are refused. */
static gs_status find_groups(gs_device *d, const conv_rows *r, size_t tasks, size_t *groups) {
    const bool fits = r->size <= INT_MAX && (size_t)r->s.out_c * r->dy_plane <= INT_MAX &&
                      (size_t)r->s.out_c * depth_of(&r->s) <= INT_MAX;
    return gs_cl_conv2d_sharers(d, &r->s, tasks, fits ? r->memory : SIZE_MAX, groups);
}

gs_status gs_cl_conv2d_rows_forward(gs_device *d, gs_mem y, gs_mem x, gs_mem w, gs_mem b, size_t n,
                                    const gs_conv2d_sizes *s, const gs_epilogue *e) {
    const gs_cl_tiles *t = &gs_cl_of(d)->tiles;
    const size_t out = (size_t)s->out_c * (size_t)s->out_h * (size_t)s->out_w;
    conv_rows r = shape_of(s);
    gs_mem scratch, table;
    size_t groups = 0;
    r.relu = e->relu;
    r.pool = e->pool != NULL;
    if (r.pool || y.half) r.unpooled = gs_cl_parts(out, ROUND) * ROUND + 2 * ROUND;
    r.bias = b.base != NULL;
    r.low = use_low(t, (size_t)s->out_c, (size_t)s->out_h * (size_t)s->out_w);
    r.memory = r.size + 2 * r.slack + r.unpooled + packed_size(t, r.low, (size_t)s->out_c, depth_of(s) + 1);
    GS_TRY(find_groups(d, &r, n, &groups));
    GS_TRY(gs_cl_conv2d_table(d, s, table_size(s), fill_table, &table));
    GS_TRY(gs_cl_scratch(d, GS_CL_SCRATCH_X, groups * r.memory, &scratch));
    return GS_CL_RUN_TASKS(d, GS_CL_FLOW(d, y, "conv2d_rows"), "conv2d_rows_forward", groups, n, y,
                           r.pool ? e->index : y, x, w, r.bias ? b : w, GS_ARG_BUFFER(scratch),
                           GS_ARG_BUFFER(table), GS_ARG_STRUCT(r));
}

gs_status gs_cl_conv2d_rows_backward(gs_device *d, gs_mem dx, gs_mem dw, gs_mem db, gs_mem dy, gs_mem x,
                                     gs_mem w, size_t n, const gs_conv2d_sizes *s, bool add,
                                     const gs_epilogue *e) {
    conv_rows r = shape_of(s);
    gs_mem scratch, part, table;
    size_t groups = 0;
    const size_t out_c = (size_t)s->out_c;
    r.relu = e->relu;
    r.pool = e->pool != NULL;
    r.bias = db.base != NULL;
    r.has_dx = dx.base != NULL;
    const gs_cl_tiles *t = &gs_cl_of(d)->tiles;
    const size_t rows = (size_t)s->in_c * (size_t)s->kernel_w;
    const size_t of_sample = r.size + out_c * r.dy_plane,
                 of_all = r.size + 4 * r.slack +
                          packed_size(t, true, rows, out_c * (size_t)s->kernel_h + (size_t)s->stride_h);
    const size_t of_part = out_c * (depth_of(s) + (size_t)r.bias),
                 chunks = gs_cl_conv2d_chunks(d, s, n, of_part), of_x = gs_conv2d_x(s),
                 of_y = gs_conv2d_y(s, e->pool);
    const gs_conv2d_order order = gs_conv2d_order_of(s);
    r.samples = (int)gs_smaller((size_t)order.images, n);
    if (order.lanes == 1) {
        r.block = order.positions;
        r.chain_row = (int)gs_cl_parts(out_c, ROUND) * ROUND;
        r.chains =
            2 * (size_t)t->vector * (size_t)(r.block + t->vector) + (depth_of(s) + 1) * (size_t)r.chain_row;
    }
    r.images = n;
    r.chunks = chunks;
    if (dx.half && s->stride_w > 1) r.image = gs_cl_parts(of_x, ROUND) * ROUND;
    r.memory = (size_t)r.samples * of_sample + of_all + r.chains + r.image;
    const char *file = GS_CL_FLOW(d, dx.base ? dx : dy, "conv2d_rows");
    const size_t copied = gs_cl_copied(x, of_x) + gs_cl_copied(dy, of_y) + gs_cl_copied(e->y, of_y);
    const size_t some = gs_cl_conv2d_at_once(d, n, chunks, copied);
    GS_TRY(find_groups(d, &r, some, &groups));
    GS_TRY(gs_cl_conv2d_table(d, s, table_size(s), fill_table, &table));
    GS_TRY(gs_cl_scratch(d, GS_CL_SCRATCH_X, groups * r.memory, &scratch));
    GS_TRY(gs_cl_scratch(d, GS_CL_SCRATCH_PARTIAL, chunks * of_part, &part));
    for (size_t chunk = 0, end; chunk < chunks; chunk = end) {
        end = gs_cl_conv2d_end(n, chunks, chunk + some);
        const size_t first = n * chunk / chunks, here = n * end / chunks - first;
        gs_mem dy_here = gs_cl_sample(dy, first, of_y), x_here = gs_cl_sample(x, first, of_x), w_here = w,
               y_here = gs_cl_sample(e->y, first, of_y);
        const gs_mem dx_here = r.has_dx ? gs_cl_sample(dx, first, of_x) : dw,
                     part_here = gs_at(part, chunk * of_part);
        const gs_cl_operand read[] = {{&x_here, here * of_x, false},
                                      {&w_here, gs_conv2d_w(s), false},
                                      {&dy_here, here * of_y, false},
                                      {&y_here, here * of_y, true}};
        r.first_chunk = chunk;
        GS_TRY(gs_cl_rounded(d, 4, read));
        GS_TRY(GS_CL_RUN_TASKS(d, file, "conv2d_rows_backward", groups, end - chunk, dx_here, part_here,
                               dy_here, r.relu ? y_here : dy_here,
                               r.pool ? gs_cl_sample(e->index, first, of_y) : dy_here, x_here, w_here,
                               GS_ARG_BUFFER(scratch), GS_ARG_BUFFER(table), GS_ARG_STRUCT(r)));
    }
    return gs_cl_conv2d_weights_sum(d, file, dw, db, part, chunks, out_c, depth_of(s), add);
}
