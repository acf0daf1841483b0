/* Convolution with groups or dilation; explained in conv2d_groups.cl. */
#include "cl/conv2d_common.h"
#include "cl/round16.h"

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

/* Each work-item of the first kernel sums one weight, or a block's weights, over so few rows of dy that the whole
 * device has work. The second kernel adds up these sums. */
static gs_status weights_gradient(gs_device *d, const char *file, gs_mem dw, gs_mem db, gs_mem dy, gs_mem x,
                                  size_t n, const gs_conv2d_sizes *s, bool add) {
    const gs_cl *cl = gs_cl_of(d);
    const int channels = s->out_c / s->groups, has_bias = db.base != NULL;
    gs_conv2d_sizes of_group = *s;
    of_group.in_c = s->in_c / s->groups;
    const size_t inputs = (size_t)of_group.in_c * (size_t)s->kernel_h * (size_t)s->kernel_w,
                 columns = inputs + (size_t)has_bias;
    const size_t blocks = blocks_of(s, channels), rows = n * (size_t)s->out_h;
    const size_t enough = cl->tiles.gpu ? (size_t)1 << 16 : 8 * cl->units;
    size_t parts = gs_cl_parts(enough, columns * blocks);
    if (parts > rows) parts = rows;
    gs_mem part;
    GS_TRY(gs_cl_scratch(d, GS_CL_SCRATCH_PARTIAL, parts * (size_t)s->out_c * columns, &part));
    const gs_cl_grid grid = gs_cl_items(parts * blocks * columns, cl->tiles.gpu ? 64 : 1);
    GS_TRY(GS_CL_RUN(d, file, block_of(channels) == 1 ? "conv2d_groups_weights" : "conv2d_groups_weights_4",
                     grid, GS_ARG_BUFFER(part), dy, x, (int)columns, parts, rows, GS_ARG_STRUCT(*s)));
    return gs_cl_conv2d_weights_sum(d, file, dw, db, part, parts, &of_group, add);
}

gs_status gs_cl_conv2d_groups_backward(gs_device *d, gs_mem dx, gs_mem dw, gs_mem db, gs_mem dy, gs_mem x,
                                       gs_mem w, size_t n, const gs_conv2d_sizes *sizes, bool add) {
    const gs_conv2d_sizes s = gs_conv2d_full(sizes);
    const int channels = s.in_c / s.groups;
    const size_t weights = (size_t)s.out_c * (size_t)channels * (size_t)s.kernel_h * (size_t)s.kernel_w;
    if (n == 0) return add ? GS_OK : gs_clear(d, dw, weights, db, (size_t)s.out_c);
    const char *file = GS_CL_FLOW(d, dx.base ? dx : dy, "conv2d_groups");
    GS_TRY(weights_gradient(d, file, dw, db, dy, x, n, &s, add));
    if (!dx.base) return GS_OK;
    const size_t planes = n * blocks_of(&s, channels);
    return GS_CL_RUN(d, file, block_of(channels) == 1 ? "conv2d_groups_dx" : "conv2d_groups_dx_4",
                     gs_cl_planes(d, planes, (size_t)s.in_h), dx, dy, w, planes, GS_ARG_STRUCT(s));
}
