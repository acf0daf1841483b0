/* Convolution with groups or dilation; explained in conv2d_groups.cl. */
#include "cl/conv2d_common.h"
#include "cl/round16.h"
#include "conv2d_order.h"

/* Channels per work-item if a group has at least that many; else one. Each case has its own kernel. */
enum { BLOCK = 4 };

static size_t block_of(int channels) {
    return channels >= BLOCK ? BLOCK : 1;
}

/* The number of channel blocks in all groups. */
static size_t blocks_of(const gs_conv2d_sizes *s, int channels) {
    return (size_t)s->groups * gs_cl_parts((size_t)channels, block_of(channels));
}

gs_status gs_cl_conv2d_groups_forward(gs_device *d, gs_mem y, gs_mem x, gs_mem w, gs_mem b, size_t n,
                                      const gs_conv2d_sizes *sizes) {
    const gs_conv2d_sizes s = gs_conv2d_full(sizes);
    const int channels = s.out_c / s.groups, has_bias = b.base != NULL;
    const size_t planes = n * blocks_of(&s, channels);
    return GS_CL_RUN(d, GS_CL_FLOW(d, y, "conv2d_groups"),
                     block_of(channels) == 1 ? "conv2d_groups_forward" : "conv2d_groups_forward_4",
                     gs_cl_planes(d, planes, (size_t)s.out_h), y, x, w, has_bias ? b : w, has_bias, planes,
                     GS_ARG_STRUCT(s));
}

gs_status gs_cl_conv2d_weights_in_order(gs_device *d, gs_mem dw, gs_mem db, gs_mem dy, gs_mem x, size_t n,
                                        const gs_conv2d_sizes *sizes, bool add) {
    const gs_conv2d_sizes s = gs_conv2d_full(sizes);
    const gs_conv2d_order of_dw = gs_conv2d_order_of(&s), of_db = gs_conv2d_order_of_db(&s);
    const size_t inputs = gs_conv2d_w(&s) / (size_t)s.out_c, first = dw.base ? 0 : inputs,
                 columns = inputs - first + (db.base != NULL), out_c = (size_t)s.out_c,
                 chunks = gs_conv2d_chunks(&s, n);
    const char *file = GS_CL_STORED(d, "conv2d_groups");
    const gs_cl_grid all = gs_cl_items(columns, gs_cl_of(d)->tiles.gpu ? 64 : 1),
                     grid = {{all.groups[0], out_c, chunks}, {all.local[0], 1, 1}};
    gs_mem part;
    GS_TRY(gs_cl_scratch(d, GS_CL_SCRATCH_PARTIAL, chunks * out_c * columns, &part));
    GS_TRY(GS_CL_RUN(d, file, "conv2d_weights_in_order", grid, GS_ARG_BUFFER(part), dy, x.base ? x : dy, n,
                     (int)first, (int)columns, GS_ARG_STRUCT(of_dw), GS_ARG_STRUCT(of_db), GS_ARG_STRUCT(s)));
    return gs_cl_conv2d_weights_sum(d, file, dw.base ? dw : db, db, part, chunks, out_c, inputs - first, add);
}

/* Each work-item of the first kernel sums one weight, or a block's weights, over so few rows of dy that the whole
 * device has work. The second kernel adds up these sums. */
static gs_status weights_gradient(gs_device *d, const char *file, gs_mem dw, gs_mem db, gs_mem dy, gs_mem x,
                                  size_t n, const gs_conv2d_sizes *s, bool add) {
    const gs_cl *cl = gs_cl_of(d);
    const int channels = s->out_c / s->groups;
    const size_t inputs = gs_conv2d_w(s) / (size_t)s->out_c, columns = inputs + (db.base != NULL);
    const size_t blocks = blocks_of(s, channels), rows = n * (size_t)s->out_h;
    const size_t enough = cl->tiles.gpu ? (size_t)1 << 16 : 8 * cl->units;
    size_t parts = gs_cl_parts(enough, columns * blocks);
    if (parts > rows) parts = rows;
    gs_mem part;
    GS_TRY(gs_cl_scratch(d, GS_CL_SCRATCH_PARTIAL, parts * (size_t)s->out_c * columns, &part));
    const gs_cl_grid grid = gs_cl_items(parts * blocks * columns, cl->tiles.gpu ? 64 : 1);
    GS_TRY(GS_CL_RUN(d, file, block_of(channels) == 1 ? "conv2d_groups_weights" : "conv2d_groups_weights_4",
                     grid, GS_ARG_BUFFER(part), dy, x, (int)columns, parts, rows, GS_ARG_STRUCT(*s)));
    return gs_cl_conv2d_weights_sum(d, file, dw, db, part, parts, (size_t)s->out_c, inputs, add);
}

gs_status gs_cl_conv2d_groups_backward(gs_device *d, gs_mem dx, gs_mem dw, gs_mem db, gs_mem dy, gs_mem x,
                                       gs_mem w, size_t n, const gs_conv2d_sizes *sizes, bool add) {
    const gs_conv2d_sizes s = gs_conv2d_full(sizes);
    const int channels = s.in_c / s.groups;
    const size_t weights = (size_t)s.out_c * (size_t)channels * (size_t)s.kernel_h * (size_t)s.kernel_w;
    if (n == 0) return add ? GS_OK : gs_clear(d, dw, weights, db, (size_t)s.out_c);
    const char *file = GS_CL_FLOW(d, dx.base ? dx : dy, "conv2d_groups");
    GS_TRY(gs_cl_is_exact(d) ? gs_cl_conv2d_weights_in_order(d, dw, db, dy, x, n, &s, add)
                             : weights_gradient(d, file, dw, db, dy, x, n, &s, add));
    if (!dx.base) return GS_OK;
    const size_t planes = n * blocks_of(&s, channels);
    return GS_CL_RUN(d, file, block_of(channels) == 1 ? "conv2d_groups_dx" : "conv2d_groups_dx_4",
                     gs_cl_planes(d, planes, (size_t)s.in_h), dx, dy, w, planes, GS_ARG_STRUCT(s));
}
