#include "cpu/conv2d_rows.h"
#include "cpu/round16.h"
#include "cpu/winograd.h"

/* Convolution as products with the matrix of patches, which is never written out: see conv2d_rows.h for X, the rows of
 * an image, and product.h for products whose rows may be anywhere in memory. With kernel position k = (c, v, u) and
 * output position p = (r, o):
 *
 *     forward    y[o][p]  = b[o] + sum_k w[o][k] X[at[k] + p]
 *     backward   dw[o][k] (+)= sum_p dy[o][p] X[at[k] + p]
 *                dX[(c, v)][row h] = sum_{o, u} w[o][c][u][v] dy[o][row h - u],  and dx adds up the rows of dX
 *
 * The last formula is a product too: "row h - u of dy" is a row in a copy of dy with zeros above and below. With a
 * stride, row h of dX uses only the u with u = h (mod stride_h); each such phase is one product.
 *
 * With a 3x3 kernel, stride 1 and many channels, all of them take fewer multiplications: see winograd.h.
 *
 * With a fused relu and max pooling, forward computes y in scratch memory, a few images at a time, and pools it while
 * it is cached; backward spreads dy to full size when it copies it. In lenet's first layer y and dy are four times as
 * large as the pooled result, and never reach main memory.
 *
 * Threads share the images; in backward they share chunks of images, and each chunk has its own dw and db. The order of
 * all sums is defined in conv2d_order.h and cpu/plain/conv2d.c. */
typedef struct conv_work {
    const gs_conv2d_sizes *s;
    gs_conv_rows rows;
    float *y, *dx, *dw, *db;
    const float *x, *w, *b, *dy;
    const float *relu_y;         /* backward: dy counts where this is positive; NULL: everywhere */
    bool relu;                   /* forward: y = max(y, 0) */
    const gs_pool2d_sizes *pool; /* y, relu_y, dy and `index` have the pooled shape; NULL: no pooling */
    int32_t *index;
    size_t n, in, out; /* images; floats per image of x and of y, before any pooling, ... */
    size_t pooled;     /* ... and after it */
    int parts, depth, positions;
    size_t chunks;
    int samples; /* images that backward keeps in the cache together: whole blocks of dw's sums */
    int adding;  /* parts of the last pass of backward */
    /* the copy of dy: `margin` zeros, then a plane of dy, then zeros up to dy_plane floats */
    size_t margin, dy_plane;
    /* tables and packed weights, shared by all parts */
    size_t *x_at, *w_at, *dx_at;
    uint32_t *beside_place;
    float *packed;
    bool fast, fast_dw; /* winograd.h computes forward and dx, from this; and dw */
    gs_winograd winograd;
    gs_conv2d_order order;
    bool copies;                           /* backward copies dy */
    size_t rows_at, more_at, dx_memory_at; /* in a part's memory */
    float *sums;                           /* dw and db of each chunk, each_sums floats */
    float *scratch;                        /* `parts` times scratch_part floats */
    size_t scratch_part, each_sums;
} conv_work;

/* About so many floats of y, or twice as many of an image's rows, fit in a core's L2 cache; if Winograd's kernels do
 * not, they should not be read again for each few images. */
enum { CACHED_FLOATS = 1 << 16, MANY_FLOATS = 1 << 20 };

static conv_work work_of(gs_device *d, const gs_conv2d_sizes *s, const gs_pool2d_sizes *pool, size_t n) {
    return (conv_work){.s = s,
                       .rows = gs_conv_rows_of(s),
                       .pool = pool,
                       .n = n,
                       .in = gs_conv2d_x(s),
                       .out = gs_conv2d_y(s, NULL),
                       .pooled = gs_conv2d_y(s, pool),
                       .depth = s->in_c * s->kernel_h * s->kernel_w,
                       .positions = s->out_h * s->out_w,
                       .parts = gs_cpu_parts(d, n, 1)};
}

/* Reserve the scratch memory: `tables` entries for shared tables, the packed weights, and each part's own memory. */
static gs_status reserve(gs_device *d, conv_work *t, size_t tables, size_t **table) {
    size_t kernel = t->fast ? GS_WINOGRAD_PLACES : (size_t)(t->s->kernel_h * t->s->kernel_w);
    size_t weights = gs_round_up((size_t)t->s->out_c * (size_t)t->s->in_c * kernel);
    size_t shared = gs_round_up(tables * sizeof(size_t) / sizeof(float)) + weights,
           sums = t->chunks * t->each_sums;
    float *memory;
    t->scratch_part = gs_round_up(t->scratch_part);
    GS_TRY(gs_cpu_scratch(d, shared + sums + t->scratch_part * (size_t)t->parts, &memory));
    t->packed = memory;
    *table = (size_t *)(void *)(memory + weights);
    t->sums = memory + shared;
    t->scratch = t->sums + sums;
    return GS_OK;
}

/* Kernel positions are in the order (c, v, u), in which neighbours share a plane of X: at[k] is where row k of the
 * patches starts in X, w_at[k] its index in a row of w. */
static void list_patch_rows(const conv_work *t, size_t *at, size_t *w_at) {
    const gs_conv2d_sizes *s = t->s;
    for (int c = 0; c < s->in_c; c++)
        for (int v = 0; v < s->kernel_w; v++)
            for (int u = 0; u < s->kernel_h; u++) {
                *at++ = (size_t)(c * s->kernel_w + v) * t->rows.plane + gs_conv_row(&t->rows, u);
                int place = (c * s->kernel_h + u) * s->kernel_w + v;
                *w_at++ = (size_t)place;
            }
}

bool GS_ISA(gs_cpu_fuses)(gs_device *d, const gs_epilogue *e) {
    (void)d;
    return e->relu && (!e->pool || gs_pool2d_is_2x2(e->pool));
}

/* With pooling, the y of this many images is computed before it is pooled ... */
static size_t images_to_pool(const conv_work *t) {
    size_t fit = t->fast ? CACHED_FLOATS / t->out : 1;
    return fit < 1 ? 1 : fit < t->n ? fit : t->n;
}

/* ... in a buffer of this size. */
static size_t own_y_floats(const conv_work *t) {
    return t->pool ? gs_round_up(images_to_pool(t) * t->out) : 0;
}

static void pool_images(const conv_work *t, size_t first, size_t images, const float *y) {
    size_t from = (size_t)t->positions, to = t->pooled / (size_t)t->s->out_c;
    for (size_t plane = first * (size_t)t->s->out_c; images-- > 0;)
        for (int o = 0; o < t->s->out_c; o++, plane++, y += from)
            GS_ISA(gs_cpu_max_pool2d_plane)(t->pool, t->y + plane * to, t->index + plane * to, y);
}

static void forward_part(void *context, int part) {
    const conv_work *t = context;
    const gs_range r = gs_cpu_tasks(t->n, part, t->parts);
    float *memory = t->scratch + t->scratch_part * (size_t)part, *rows = memory + t->rows.slack;
    float *own_y = rows + t->rows.size + t->rows.slack;
    gs_product product = {.rows = t->s->out_c,
                          .depth = t->depth,
                          .columns = t->positions,
                          .a = t->packed,
                          .at = t->x_at,
                          .bias = t->b,
                          .relu = t->relu};
    memset(memory, 0, (t->rows.size + 2 * t->rows.slack) * sizeof(float));
    for (size_t i = r.begin; i < r.end; i++) {
        GS_ISA(gs_cpu_conv_rows_from_image)(&t->rows, rows, t->x + i * t->in);
        GS_ISA(gs_cpu_product)(&product, t->pool ? own_y : t->y + i * t->out, (size_t)t->positions, rows);
        if (t->pool) pool_images(t, i, 1, own_y);
    }
}

/* forward_part with fewer multiplications (winograd.h). */
static void fast_forward_part(void *context, int part) {
    const conv_work *t = context;
    const gs_range r = gs_cpu_tasks(t->n, part, t->parts);
    float *own_y = t->scratch + t->scratch_part * (size_t)part, *memory = own_y + own_y_floats(t);
    size_t some = t->pool ? images_to_pool(t) : t->n;
    for (size_t i = r.begin; i < r.end; i += some) {
        size_t images = r.end - i < some ? r.end - i : some;
        float *y = t->pool ? own_y : t->y + i * t->out;
        GS_ISA(gs_cpu_winograd)(&t->winograd, y, t->x + i * t->in, t->in, images, memory);
        if (t->pool) pool_images(t, i, images, y);
    }
}

static gs_status fast_forward(gs_device *d, conv_work *t) {
    const gs_conv2d_sizes *s = t->s;
    size_t *no_table;
    t->winograd =
        (gs_winograd){.s = *s, .x_plane = (size_t)s->in_h * (size_t)s->in_w, .bias = t->b, .relu = t->relu};
    t->scratch_part = own_y_floats(t) + GS_ISA(gs_cpu_winograd_memory)(&t->winograd);
    GS_TRY(reserve(d, t, 0, &no_table));
    if (d->dry) return GS_OK;
    t->winograd.u = t->packed;
    GS_ISA(gs_cpu_winograd_kernels)(d, &t->winograd, t->packed, t->w, (size_t)t->depth, 9, false);
    return gs_cpu_run(d, t->parts, fast_forward_part, t);
}

gs_status GS_ISA(gs_cpu_conv2d_forward)(gs_device *d, gs_mem y, gs_mem x, gs_mem w, gs_mem b, size_t n,
                                        const gs_conv2d_sizes *s, const gs_epilogue *then) {
    const gs_epilogue e = gs_epilogue_of(d, then, s);
    if (n == 0) return GS_OK;
    const gs_operand products[] = {{&x, n * gs_conv2d_x(s)}, {&w, gs_conv2d_w(s)}};
    GS_TRY(GS_ISA(gs_cpu_rounded)(d, 2, products));
    if (gs_conv2d_is_grouped(s)) return GS_ISA(gs_cpu_conv2d_groups_forward)(d, y, x, w, b, n, s);
    conv_work t = work_of(d, s, e.pool, n);
    t.y = gs_cpu_floats(y), t.x = gs_cpu_floats(x), t.w = gs_cpu_floats(w), t.b = gs_cpu_floats(b);
    t.index = gs_cpu_ints(e.index);
    t.relu = e.relu;
    t.fast = gs_winograd_pays(s);
    if (t.fast) return fast_forward(d, &t);
    t.scratch_part = t.rows.size + 2 * t.rows.slack + own_y_floats(&t);
    size_t depth = (size_t)t.depth, *row_at;
    GS_TRY(reserve(d, &t, 2 * depth + (size_t)s->out_c, &t.x_at));
    t.w_at = t.x_at + depth;
    row_at = t.w_at + depth;
    list_patch_rows(&t, t.x_at, t.w_at);
    for (size_t o = 0; o < (size_t)s->out_c; o++) row_at[o] = o * depth;
    GS_ISA(gs_cpu_pack)(t.packed, t.w, s->out_c, t.depth, row_at, t.w_at);
    return gs_cpu_run(d, t.parts, forward_part, &t);
}

/* One phase of dX: which of its rows are needed, and how many rows of the kernel they use. */
static gs_conv_phase phase_of(const gs_conv2d_sizes *s, int phase) {
    return gs_conv_phase_of(phase, s->in_h, s->pad_h, s->stride_h, s->kernel_h, 1);
}

/* For each phase, pack the matrix with rows (c, v) and columns (o, u), and list where the row for each column starts in
 * the copy of dy. */
static void prepare_dx(conv_work *t, size_t *row_at, size_t *column_at) {
    const gs_conv2d_sizes *s = t->s;
    size_t *at = t->dx_at;
    float *packed = t->packed;
    int rows = s->in_c * s->kernel_w;
    for (int c = 0, i = 0; c < s->in_c; c++)
        for (int v = 0; v < s->kernel_w; v++, i++)
            row_at[i] = (size_t)c * (size_t)(s->kernel_h * s->kernel_w) + (size_t)v;
    for (int phase = 0; phase < s->stride_h; phase++) {
        gs_conv_phase f = phase_of(s, phase);
        for (int k = 0; k < s->out_c * f.taps; k++) {
            int o = k / f.taps, tap = k % f.taps;
            column_at[k] = (size_t)o * (size_t)t->depth + (size_t)((phase + tap * s->stride_h) * s->kernel_w);
            at[k] = (size_t)o * t->dy_plane + t->margin + (size_t)f.first * (size_t)s->out_w -
                    (size_t)tap * (size_t)s->out_w;
        }
        GS_ISA(gs_cpu_pack)(packed, t->w, rows, s->out_c * f.taps, row_at, column_at);
        packed += rows * s->out_c * f.taps;
        at += s->out_c * f.taps;
    }
}

static void image_gradient(const conv_work *t, float *dx, const float *dy, float *drows) {
    const gs_conv2d_sizes *s = t->s;
    gs_product product = {.rows = s->in_c * s->kernel_w, .a = t->packed, .at = t->dx_at};
    for (int phase = 0; phase < s->stride_h; phase++) {
        gs_conv_phase f = phase_of(s, phase);
        product.depth = s->out_c * f.taps;
        product.columns = (f.end - f.first) * s->out_w;
        float *to = drows + (size_t)phase * t->rows.phase + (size_t)f.first * (size_t)s->out_w;
        if (product.columns > 0) GS_ISA(gs_cpu_product)(&product, to, t->rows.plane, dy);
        product.a += product.rows * product.depth;
        product.at += product.depth;
    }
    GS_ISA(gs_cpu_conv_image_from_rows)(&t->rows, dx, drows);
}

/* Copy one image of dy between its margins of zeros, undoing the pooling if there is one and zeroing elements that a
 * relu after y blocks. Add its sums to db. */
static void copy_dy(const conv_work *t, float *to, size_t image, float *db) {
    size_t positions = (size_t)t->positions, pooled = t->pooled / (size_t)t->s->out_c;
    size_t plane = image * (size_t)t->s->out_c;
    to += t->margin;
    for (int o = 0; o < t->s->out_c; o++, plane++, to += t->dy_plane) {
        const float *dy = t->dy + plane * pooled, *y = t->relu_y ? t->relu_y + plane * pooled : NULL;
        const bool is_there = t->pool; /* already copied; only the sum is missing */
        if (is_there) GS_ISA(gs_cpu_max_unpool2d_plane)(t->pool, to, dy, y, t->index + plane * pooled);
        size_t p = 0;
        for (; p + GS_VECTOR <= positions && !is_there; p += GS_VECTOR) {
            const gs_vector v = gs_load(dy + p);
            gs_store(to + p, y ? gs_where(gs_load(y + p) > 0.0f, v) : v);
        }
        for (; p < positions && !is_there; p++) to[p] = !y || y[p] > 0.0f ? dy[p] : 0.0f;
        if (t->db) db[o] += gs_sum_of_plane(to, positions);
    }
}

/* Add one block of images to dw's sums (gs_conv2d_order). With chains dw is (depth, wide): neighbouring lanes are
 * output channels, and so are neighbours in `beside`, a copy of dy. */
static void add_block(const conv_work *t, float *dw, const float *dy, const float *rows, size_t images,
                      float *beside) {
    if (t->order.lanes > 1) {
        const gs_dots dots = {.rows = t->s->out_c,
                              .depth = t->depth,
                              .columns = t->positions,
                              .samples = (int)images,
                              .at = t->x_at,
                              .y_row = t->dy_plane,
                              .y_sample = (size_t)t->s->out_c * t->dy_plane,
                              .x_sample = t->rows.size};
        GS_ISA(gs_cpu_dot_products)(&dots, dw, dy, rows);
        return;
    }
    const size_t positions = (size_t)t->positions, wide = gs_round_up((size_t)t->s->out_c);
    const gs_channels channels = {wide, positions, t->dy_plane};
    gs_product product = {.rows = t->depth,
                          .columns = (int)wide,
                          .a_at = t->x_at,
                          .x_row = wide,
                          .sum = true,
                          .more = (int)images - 1,
                          .a_sample = t->rows.size,
                          .x_sample = positions * wide};
    for (size_t i = 0; i < images; i++)
        gs_beside(&channels, beside + i * positions * wide, GS_VECTOR, t->beside_place,
                  dy + i * (size_t)t->s->out_c * t->dy_plane);
    for (int p = 0; p < t->positions; p += t->order.positions) {
        product.depth = t->positions - p < t->order.positions ? t->positions - p : t->order.positions;
        product.a = rows + p;
        GS_ISA(gs_cpu_product)(&product, dw, wide, beside + (size_t)p * wide);
    }
}

/* One chunk: dw, db, and dx of its images. */
static void backward_images(const conv_work *t, gs_range r, float *dw, float *memory) {
    const size_t out_c = (size_t)t->s->out_c, some = (size_t)t->samples, block = (size_t)t->order.images;
    const size_t dy_image = t->copies ? out_c * t->dy_plane : t->out;
    float *copy = memory, *rows = memory + t->rows_at, *more = memory + t->more_at,
          *of_dx = memory + t->dx_memory_at;
    memset(dw, 0, t->each_sums * sizeof(float));
    for (size_t first = r.begin; first < r.end; first += some) {
        const size_t images = gs_smaller(r.end - first, some);
        const float *x = t->x + first * t->in, *dy = t->copies ? copy + t->margin : t->dy + first * t->out;
        for (size_t i = 0; i < images; i++) {
            if (t->copies) copy_dy(t, copy + i * dy_image, first + i, dw + t->each_sums - gs_round_up(out_c));
            if (!t->fast_dw)
                GS_ISA(gs_cpu_conv_rows_from_image)(&t->rows, rows + i * t->rows.size, x + i * t->in);
        }
        if (t->fast_dw) GS_ISA(gs_cpu_winograd_dw)(t->s, dw, x, dy, t->dy_plane, dy_image, images, more);
        for (size_t i = 0; i < images && !t->fast_dw; i += block)
            add_block(t, dw, dy + i * dy_image, rows + i * t->rows.size, gs_smaller(images - i, block), more);
        float *dx = t->dx ? t->dx + first * t->in : NULL;
        if (t->dx && t->fast) GS_ISA(gs_cpu_winograd)(&t->winograd, dx, dy, dy_image, images, of_dx);
        for (size_t i = 0; i < images && t->dx && !t->fast; i++)
            image_gradient(t, dx + i * t->in, copy + i * dy_image, of_dx);
    }
}

static void backward_part(void *context, int part) {
    const conv_work *t = context;
    const gs_range chunks = gs_cpu_tasks(t->chunks, part, t->parts);
    float *memory = t->scratch + t->scratch_part * (size_t)part;
    memset(memory, 0, (t->fast ? t->more_at : t->scratch_part) * sizeof(float));
    if (t->fast_dw) GS_ISA(gs_cpu_winograd_dw_begin)(t->s, memory + t->more_at);
    for (size_t k = chunks.begin; k < chunks.end; k++)
        backward_images(t, gs_cpu_tasks(t->n, (int)k, (int)t->chunks), t->sums + k * t->each_sums, memory);
}

/* For some output channels: dw and db += the chunks' sums, in order. */
static void add_part(void *context, int part) {
    const conv_work *t = context;
    const size_t out_c = (size_t)t->s->out_c, in_c = (size_t)t->s->in_c, depth = (size_t)t->depth;
    const size_t o_step = t->order.lanes == 1 ? 1 : depth,
                 k_step = t->order.lanes == 1 ? gs_round_up(out_c) : 1;
    const gs_range r = gs_cpu_tasks(out_c, part, t->adding);
    for (size_t at = r.begin * in_c; at < r.end * in_c && t->fast_dw; at += GS_VECTOR)
        GS_ISA(gs_cpu_winograd_dw_finish)
    (t->dw + 9 * at, t->sums + at, out_c * in_c, t->chunks, t->each_sums);
    for (size_t i = 0; i < t->chunks; i++) {
        const float *own = t->sums + i * t->each_sums, *own_db = own + t->each_sums - gs_round_up(out_c);
        for (size_t o = r.begin; o < r.end && !t->fast_dw; o++)
            for (size_t k = 0; k < depth; k++) t->dw[o * depth + t->w_at[k]] += own[o * o_step + k * k_step];
        for (size_t o = r.begin; o < r.end && t->db; o++) t->db[o] += own_db[o];
    }
}

gs_status GS_ISA(gs_cpu_conv2d_backward)(gs_device *d, gs_mem dx, gs_mem dw, gs_mem db, gs_mem dy, gs_mem x,
                                         gs_mem w, size_t n, const gs_conv2d_sizes *s, bool add,
                                         const gs_epilogue *then) {
    const gs_epilogue e = gs_epilogue_of(d, then, s);
    const gs_operand products[] = {
        {&x, n * gs_conv2d_x(s)}, {&w, gs_conv2d_w(s)}, {&dy, n * gs_conv2d_y(s, e.pool)}};
    GS_TRY(GS_ISA(gs_cpu_rounded)(d, 3, products));
    if (gs_conv2d_is_grouped(s))
        return GS_ISA(gs_cpu_conv2d_groups_backward)(d, dx, dw, db, dy, x, w, n, s, add);
    conv_work t = work_of(d, s, e.pool, n);
    size_t depth = (size_t)t.depth, out_c = (size_t)s->out_c, weights = out_c * depth, *row_at;
    if (!add) GS_TRY(gs_clear(d, dw, weights, db, out_c));
    if (n == 0) return GS_OK;
    t.dx = gs_cpu_floats(dx), t.dw = gs_cpu_floats(dw), t.db = gs_cpu_floats(db);
    t.dy = gs_cpu_floats(dy), t.x = gs_cpu_floats(x), t.w = gs_cpu_floats(w);
    t.relu_y = e.relu ? gs_cpu_floats(e.y) : NULL, t.index = gs_cpu_ints(e.index);

    t.fast = gs_winograd_pays(s), t.fast_dw = gs_winograd_dw_pays(s);
    t.copies = !t.fast_dw || t.db || e.relu || e.pool;
    t.order = gs_conv2d_order_of(s);
    const size_t positions = (size_t)t.positions, pairs = out_c * (size_t)s->in_c;
    const size_t wide = t.order.lanes == 1 ? gs_round_up(out_c) : out_c;
    size_t margin_rows = t.dx && !t.fast ? (size_t)((s->kernel_h - 1) / s->stride_h) : 0;
    t.margin = gs_round_up(margin_rows * (size_t)s->out_w);
    t.dy_plane = !t.copies
                     ? positions
                     : t.margin + gs_round_up(t.dx && !t.fast ? t.rows.phase : positions) + GS_CONV2D_LANES;
    t.chunks = gs_cpu_conv2d_chunks(d, s, n);
    t.parts = gs_cpu_parts(d, t.chunks, 1);
    const size_t block = (size_t)(t.fast_dw ? gs_winograd_order_of(s).images : t.order.images);
    const size_t fit = t.fast_dw ? (16 * pairs > 4 * CACHED_FLOATS ? MANY_FLOATS : CACHED_FLOATS) / t.out + 1
                       : t.fast  ? 2 * CACHED_FLOATS / t.rows.size + 1
                                 : block;
    t.samples = (int)gs_smaller(fit < block ? block : fit / block * block, n);
    t.winograd = (gs_winograd){.s = gs_winograd_back(s), .x_plane = t.dy_plane};
    t.rows_at = (t.copies ? (size_t)t.samples * out_c + wide - out_c : 0) * t.dy_plane + t.rows.slack;
    t.more_at = t.rows_at + (t.fast_dw ? 0 : (size_t)t.samples * t.rows.size + t.rows.slack);
    t.dx_memory_at = t.more_at + (t.fast_dw            ? GS_ISA(gs_cpu_winograd_dw_memory)(s)
                                  : t.order.lanes == 1 ? block * positions * wide
                                                       : 0);
    t.scratch_part = t.dx_memory_at + (!t.dx    ? 0
                                       : t.fast ? GS_ISA(gs_cpu_winograd_memory)(&t.winograd)
                                                : t.rows.size + t.rows.slack);
    t.each_sums = gs_round_up(t.fast_dw ? GS_WINOGRAD_PLACES * pairs : depth * wide) + gs_round_up(out_c);
    size_t taps = out_c * (size_t)s->kernel_h;
    GS_TRY(reserve(d, &t, 2 * depth + 2 * taps + (size_t)(s->in_c * s->kernel_w) + positions, &t.x_at));
    if (d->dry) return GS_OK;
    t.w_at = t.x_at + depth;
    t.dx_at = t.w_at + depth;
    row_at = t.dx_at + 2 * taps;
    t.beside_place = (uint32_t *)(void *)(row_at + (size_t)(s->in_c * s->kernel_w));
    for (size_t p = 0; p < positions; p++) t.beside_place[p] = (uint32_t)(p * wide);
    list_patch_rows(&t, t.x_at, t.w_at);
    t.winograd.u = t.packed;
    if (t.dx && t.fast)
        GS_ISA(gs_cpu_winograd_kernels)(d, &t.winograd, t.packed, t.w, 9, depth, true);
    else if (t.dx)
        prepare_dx(&t, row_at, t.dx_at + taps);

    gs_pool_run(gs_cpu_of(d)->pool, t.parts, backward_part, &t);
    t.adding = gs_cpu_at_most(out_c, gs_cpu_parts(d, weights, 1 << 10));
    return gs_cpu_run(d, t.adding, add_part, &t);
}
