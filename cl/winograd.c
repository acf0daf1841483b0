/* On a CPU, for usual shapes: two kernels that each do all the work for some images, as in conv2d_rows.c; two others
 * transform the weights first, and dw at the end. If the bits must be exact, plain kernels for all other shapes and
 * devices. */
#include "cl/conv2d_common.h"
#include "cl/round16.h"
#include "conv2d_order.h"

/* Also declared in winograd.cl. */
typedef struct winograd {
    cl_ulong images, chunks, first_chunk;
    cl_ulong memory;
    cl_int in_c, out_c, h, w;
    cl_int rows, columns;
    cl_int band;
    cl_int samples, high;
    cl_int bias, relu, has_dx;
} winograd;

typedef struct any_shape {
    cl_ulong images, chunks;
    cl_int in_c, in_h, in_w, out_c, out_h, out_w, pad_h, pad_w;
    cl_int lanes;
    cl_int samples, high;
    cl_int bias, relu;
} any_shape;

enum { PLACES = 16, CHANNELS = 16 /* a multiple of every vector width */ };

static bool is_usual(gs_device *d, const gs_conv2d_sizes *s) {
    const gs_cl_tiles *t = &gs_cl_of(d)->tiles;
    return !t->gpu && !gs_conv2d_is_grouped(s) && s->kernel_h == 3 && s->kernel_w == 3 && s->stride_h == 1 &&
           s->stride_w == 1 && s->pad_h == 1 && s->pad_w == 1 && s->in_c % CHANNELS == 0 &&
           s->out_c % CHANNELS == 0 && s->in_h * s->in_w >= t->vector;
}

bool gs_cl_winograd_pays(gs_device *d, const gs_conv2d_sizes *s) {
    /* With more weights, their 16 matrices would not fit in a core's L2 cache. */
    enum { MOST = 128 * 128 };
    return gs_cl_is_exact(d) ? gs_winograd_pays(s) : is_usual(d, s) && s->in_c * s->out_c <= MOST;
}

/* About this many floats of v and m fit in a core's L2 cache. */
enum { CACHED = 1 << 16 };

static winograd shape_of(const gs_conv2d_sizes *s, size_t n) {
    winograd t = {.images = n, .in_c = s->in_c, .out_c = s->out_c, .h = s->in_h, .w = s->in_w};
    const int tiles = CACHED / PLACES / (s->in_c + s->out_c);
    t.rows = (s->in_h + 1) / 2;
    t.columns = (s->in_w + 1) / 2;
    t.band = tiles < t.columns ? 1 : tiles / t.columns < t.rows ? tiles / t.columns : t.rows;
    return t;
}

/* ---- a work-group's memory, as laid out in winograd.cl ---- */

static size_t pixels_of(const winograd *t) {
    return (size_t)(2 * t->rows + 2) * (size_t)(2 * t->columns + 2);
}

static size_t matrices(int tiles, int channels) {
    enum { MORE = 8, APART = 16 }; /* MORE: at least as many as a product's tile has rows */
    return PLACES * ((size_t)(tiles + MORE) * (size_t)channels + APART);
}

/* The floats of the images x and y (or x and dy), and of their matrices. */
static size_t images_and_matrices(const winograd *t, int tiles) {
    return pixels_of(t) * (size_t)(t->in_c + t->out_c) + matrices(tiles, t->in_c) + matrices(tiles, t->out_c);
}

/* Each pixel's index in an image padded with zeros. */
static void fill_places(const gs_conv2d_sizes *s, cl_int *to) {
    const int width = (s->in_w + 1) / 2 * 2 + 2;
    for (int h = 0; h < s->in_h; h++)
        for (int w = 0; w < s->in_w; w++) *to++ = (h + 1) * width + w + 1;
}

/* One table serves all channels; its key is a set of sizes that no convolution has. */
static gs_status find_places(gs_device *d, const winograd *t, gs_mem *place) {
    const gs_conv2d_sizes image = {.in_h = t->h, .in_w = t->w};
    return gs_cl_conv2d_table(d, &image, (size_t)t->h * (size_t)t->w, fill_places, place);
}

/* *u = the 16 matrices of w; if `turned`, those for dx. */
static gs_status find_kernels(gs_device *d, gs_mem w, const gs_conv2d_sizes *s, bool turned, gs_mem *u) {
    const int of_out = 9 * s->in_c, count = turned ? s->in_c : s->out_c, depth = turned ? s->out_c : s->in_c,
              lanes = (count + CHANNELS - 1) / CHANNELS * CHANNELS;
    const gs_cl_grid grid = gs_cl_with_rows(gs_cl_items((size_t)lanes, CHANNELS), (size_t)depth);
    GS_TRY(gs_cl_scratch(d, GS_CL_SCRATCH_W, (size_t)PLACES * (size_t)lanes * (size_t)depth, u));
    return GS_CL_RUN(d, GS_CL_STORED(d, "winograd"), "winograd_kernels", grid, GS_ARG_BUFFER(*u), w,
                     turned ? 9 : of_out, turned ? of_out : 9, (int)turned, lanes, count);
}

/* ---- unusual shapes ---- */

static any_shape any_of(const gs_conv2d_sizes *s, size_t n) {
    const gs_winograd_order order = gs_winograd_order_of(s);
    return (any_shape){.images = n,
                       .in_c = s->in_c,
                       .in_h = s->in_h,
                       .in_w = s->in_w,
                       .out_c = s->out_c,
                       .out_h = s->out_h,
                       .out_w = s->out_w,
                       .pad_h = s->pad_h,
                       .pad_w = s->pad_w,
                       .lanes = (s->out_c + CHANNELS - 1) / CHANNELS * CHANNELS,
                       .samples = order.images,
                       .high = order.rows};
}

static gs_cl_grid any_grid(gs_device *d, size_t items, size_t rows) {
    return gs_cl_with_rows(gs_cl_items(items, gs_cl_of(d)->tiles.gpu ? 64 : 1), rows);
}

static gs_status convolve_any(gs_device *d, gs_mem y, gs_mem x, gs_mem u, gs_mem b, size_t n, bool relu,
                              const gs_conv2d_sizes *s) {
    any_shape t = any_of(s, n);
    const size_t tiles = (size_t)((s->out_h + 1) / 2) * (size_t)((s->out_w + 1) / 2);
    t.relu = relu;
    t.bias = b.base != NULL;
    return GS_CL_RUN(d, GS_CL_FLOW(d, y, "winograd"), "winograd_any_forward",
                     any_grid(d, tiles, n * gs_cl_parts((size_t)s->out_c, (size_t)gs_cl_of(d)->tiles.vector)),
                     y, x, GS_ARG_BUFFER(u), t.bias ? b : u, GS_ARG_STRUCT(t));
}

gs_status gs_cl_winograd_dx(gs_device *d, gs_mem dx, gs_mem dy, gs_mem w, size_t n,
                            const gs_conv2d_sizes *s) {
    const gs_conv2d_sizes back = gs_winograd_back(s);
    gs_mem u;
    GS_TRY(find_kernels(d, w, s, true, &u));
    return convolve_any(d, dx, dy, u, GS_NONE, n, false, &back);
}

/* ---- */

/* Compute y without pooling. */
static gs_status convolve(gs_device *d, gs_mem y, gs_mem x, gs_mem u, gs_mem b, winograd t,
                          const gs_conv2d_sizes *s) {
    gs_mem place, scratch;
    size_t groups = 0;
    if (!is_usual(d, s)) return convolve_any(d, y, x, u, b, t.images, t.relu, s);
    GS_TRY(gs_cl_conv2d_sharers(d, s, t.images, t.memory, &groups));
    GS_TRY(find_places(d, &t, &place));
    GS_TRY(gs_cl_scratch(d, GS_CL_SCRATCH_X, groups * t.memory, &scratch));
    return GS_CL_RUN_TASKS(d, GS_CL_FLOW(d, y, "winograd"), "winograd_forward", groups, t.images, y, x,
                           GS_ARG_BUFFER(u), t.bias ? b : u, GS_ARG_BUFFER(place), GS_ARG_BUFFER(scratch),
                           GS_ARG_STRUCT(t));
}

/* With pooling, a few images are processed at a time, and their y is pooled while it is still cached. */
gs_status gs_cl_winograd_forward(gs_device *d, gs_mem y, gs_mem x, gs_mem w, gs_mem b, size_t n,
                                 const gs_conv2d_sizes *s, const gs_epilogue *e) {
    enum { NEAR = 1 << 20 };
    const size_t in = gs_conv2d_x(s), out = gs_conv2d_y(s, NULL), fit = NEAR / out + 1,
                 some = fit < n ? fit : n;
    winograd t = shape_of(s, n);
    gs_mem u, unpooled, pooled = GS_NONE;
    t.bias = b.base != NULL;
    t.relu = e->relu;
    t.memory = images_and_matrices(&t, t.band * t.columns);
    GS_TRY(find_kernels(d, w, s, false, &u));
    if (!e->pool) return convolve(d, y, x, u, b, t, s);
    GS_TRY(gs_cl_scratch(d, GS_CL_SCRATCH_DY, some * out, &unpooled));
    if (y.half) GS_TRY(gs_cl_scratch(d, GS_CL_SCRATCH_FLOATS, some * (out / 4), &pooled));
    for (size_t first = 0; first < n; first += some) {
        const size_t at = first * (out / 4);
        t.images = n - first < some ? n - first : some;
        GS_TRY(convolve(d, unpooled, gs_cl_sample(x, first, in), u, b, t, s));
        const gs_mem to = gs_cl_sample(y, first, out / 4);
        GS_TRY(gs_cl_max_pool2d_forward(d, y.half ? pooled : to, gs_at(e->index, at), unpooled, t.images,
                                        e->pool));
        if (y.half) GS_TRY(gs_cl_narrow(d, to, pooled, t.images * (out / 4), true));
    }
    return GS_OK;
}

/* dx, and the du of `chunks` chunks of images in `part`. */
static gs_status usual_backward(gs_device *d, gs_mem dx, gs_mem part, gs_mem dy, gs_mem x, gs_mem w, size_t n,
                                const gs_conv2d_sizes *s, size_t chunks) {
    const gs_winograd_order order = gs_winograd_order_of(s);
    winograd t = shape_of(s, n);
    gs_mem u = part, place, scratch;
    size_t groups = 0;
    t.has_dx = dx.base != NULL;
    t.chunks = chunks;
    t.samples = (cl_int)gs_smaller((size_t)order.images, n);
    t.high = order.rows;
    t.memory = images_and_matrices(&t, t.samples * t.high * t.columns);
    if (t.has_dx)
        t.memory += pixels_of(&t) * (size_t)t.in_c + matrices(t.band * t.columns, t.in_c) +
                    matrices(t.band * t.columns, t.out_c);
    const char *file = GS_CL_FLOW(d, dx.base ? dx : dy, "winograd");
    const size_t of_x = gs_conv2d_x(s), of_y = gs_conv2d_y(s, NULL),
                 some = gs_cl_conv2d_at_once(d, n, chunks, gs_cl_copied(x, of_x) + gs_cl_copied(dy, of_y));
    GS_TRY(gs_cl_conv2d_sharers(d, s, some, t.memory, &groups));
    GS_TRY(find_places(d, &t, &place));
    GS_TRY(gs_cl_scratch(d, GS_CL_SCRATCH_X, groups * t.memory, &scratch));
    GS_TRY(gs_cl_rounded(d, 1, &(gs_cl_operand){&w, gs_conv2d_w(s), false}));
    if (t.has_dx) GS_TRY(find_kernels(d, w, s, true, &u));
    for (size_t chunk = 0, end; chunk < chunks; chunk = end) {
        end = gs_cl_conv2d_end(n, chunks, chunk + some);
        const size_t first = n * chunk / chunks, here = n * end / chunks - first;
        gs_mem dy_here = gs_cl_sample(dy, first, of_y), x_here = gs_cl_sample(x, first, of_x);
        const gs_mem dx_here = t.has_dx ? gs_cl_sample(dx, first, of_x) : part,
                     part_here = gs_at(part, chunk * PLACES * (size_t)(s->in_c * s->out_c));
        t.first_chunk = chunk;
        GS_TRY(gs_cl_rounded(
            d, 2, (gs_cl_operand[]){{&x_here, here * of_x, false}, {&dy_here, here * of_y, false}}));
        GS_TRY(GS_CL_RUN_TASKS(d, file, "winograd_backward", groups, end - chunk, dx_here, part_here, dy_here,
                               x_here, GS_ARG_BUFFER(u), GS_ARG_BUFFER(place), GS_ARG_BUFFER(scratch),
                               GS_ARG_STRUCT(t)));
    }
    return GS_OK;
}

gs_status gs_cl_winograd_backward(gs_device *d, gs_mem dx, gs_mem dw, gs_mem db, gs_mem dy, gs_mem x,
                                  gs_mem w, size_t n, const gs_conv2d_sizes *s, bool add) {
    const size_t pairs = (size_t)s->in_c * (size_t)s->out_c,
                 chunks = gs_cl_conv2d_chunks(d, s, n, PLACES * pairs);
    const char *file = GS_CL_STORED(d, "winograd");
    gs_mem part;
    GS_TRY(gs_cl_scratch(d, GS_CL_SCRATCH_PARTIAL, chunks * PLACES * pairs, &part));
    if (is_usual(d, s))
        GS_TRY(usual_backward(d, dx, part, dy, x, w, n, s, chunks));
    else {
        any_shape t = any_of(s, n);
        t.chunks = chunks;
        GS_TRY(GS_CL_RUN(d, file, "winograd_any_weights", any_grid(d, pairs, chunks), GS_ARG_BUFFER(part), dy,
                         x, GS_ARG_STRUCT(t)));
        if (dx.base) GS_TRY(gs_cl_winograd_dx(d, dx, dy, w, n, s));
    }
    GS_TRY(GS_CL_RUN(d, file, "winograd_weights", gs_cl_elements(d, pairs), dw, GS_ARG_BUFFER(part), chunks,
                     (int)pairs, (int)add));
    return db.base ? gs_cl_conv2d_weights_in_order(d, GS_NONE, db, dy, GS_NONE, n, s, add) : GS_OK;
}
