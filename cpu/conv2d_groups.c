#include "cpu/conv2d_rows.h"

/* Convolution with groups (including depthwise) and dilation. For each group, the products of product.h read planes:
 * copies of the channels with their padding. A channel has one plane per phase (a, b): the pixels whose padded row
 * modulo stride_h is a, and whose padded column modulo stride_w is b. With stride 1 there is one phase:
 *
 *     plane (c, a, b):  X[h][q] = x[c][h stride_h + a - pad_h][q stride_w + b - pad_w], rows of grid_w, 0 outside of x
 *
 * If rows of y are also grid_w long (out_w elements of the result, then unused ones), the inputs that all outputs (r,
 * s) see through kernel position (u, v) are in one plane, from offset at[k] on, k = (c, v, u). With p = (r, s):
 *
 *     forward    y[o][p]  = b[o] + sum_k w[o][k] X[at[k] + p]
 *     backward   dw[o][k] (+)= sum_p dy[o][p] X[at[k] + p],  with dy 0 where y is unused
 *                dX[(c, a, b)][p] = sum_v sum_{o, u} w[o][c][u][v] dy[o][p - (u, v)'s offset], (u, v) in phase (a, b)
 *
 * Nothing is computed for the gaps of a dilated kernel, nor between groups. conv2d.c copies a plane for each v instead,
 * and so computes no unused elements.
 *
 * The work is cut into groups and chunks of images. In backward each chunk has its own dw and db (gs_conv2d_chunks). */

/* ---- the products on one image's planes, by whichever of three methods wastes least ---- */

/* Copy a row in vectors, the last of which overlaps the one before it; a row shorter than a vector, in smaller ones. */
static inline void copy_row(float *to, const float *from, size_t count) {
    if (count >= GS_VECTOR) {
        for (size_t i = 0; i + GS_VECTOR < count; i += GS_VECTOR) gs_store(to + i, gs_load(from + i));
        gs_store(to + count - GS_VECTOR, gs_load(from + count - GS_VECTOR));
    } else if (count >= 8) {
        const gs_float8 a = *(const gs_float8 *)from, b = *(const gs_float8 *)(from + count - 8);
        *(gs_float8 *)to = a;
        *(gs_float8 *)(to + count - 8) = b;
    } else if (count >= 4) {
        const gs_float4 a = *(const gs_float4 *)from, b = *(const gs_float4 *)(from + count - 4);
        *(gs_float4 *)to = a;
        *(gs_float4 *)(to + count - 4) = b;
    } else {
        for (size_t i = 0; i < count; i++) to[i] = from[i];
    }
}

/* What a gs_product computes for windows on planes of x, whose rows are grid_w apart: `height` rows of `width` elements
 * in each of `rows` planes of y. */
typedef struct group_windows {
    gs_product product; /* its columns are not set */
    int height, width;
    float *y;
    size_t row, plane; /* distances between rows and between planes of y, in floats */
    size_t grid_w,
        wide; /* distances between rows of x, and between planes of the memory `wide`, laid out like x */
} group_windows;

/* For one output plane with few inputs: the sums of one vector in each of up to four rows, in registers. */
ALWAYS_INLINE void gs_windows_rows(const gs_product *p, const int rows, gs_vector *total, const float *x,
                                   size_t grid_w) {
    const gs_vector bias = (gs_vector){0} + (p->bias ? p->bias[0] : 0.0f);
    UNROLL for (int i = 0; i < rows; i++) total[i] = (gs_vector){0};
    for (int part = 0, k = 0; part <= p->more_parts; part++) {
        gs_vector sum[4];
        UNROLL for (int i = 0; i < rows; i++) sum[i] = bias;
        for (const int end = k + p->depth; k < end; k++) {
            const float *from = x + p->at[k];
            UNROLL for (int i = 0; i < rows; i++) sum[i] =
                gs_fma_each(p->a[k], gs_load(from + (size_t)i * grid_w), sum[i]);
        }
        UNROLL for (int i = 0; i < rows; i++) {
            if (p->sum) sum[i] += total[i];
            total[i] = sum[i];
        }
    }
}

static inline void windows_one_plane(const group_windows *w, const float *x) {
    enum { ROWS = 4 };
    const size_t width = (size_t)w->width, grid_w = w->grid_w;
    for (size_t s = 0; s < width; s += GS_VECTOR) {
        /* a row's last vector overlaps the one before it */
        const size_t at = s == 0 || s + GS_VECTOR <= width ? s : width - GS_VECTOR;
        for (int r = 0; r < w->height; r += ROWS) {
            const int rows = w->height - r < ROWS ? w->height - r : ROWS;
            const float *from = x + (size_t)r * grid_w + at;
            gs_vector sum[ROWS];
            if (rows == ROWS)
                gs_windows_rows(&w->product, ROWS, sum, from, grid_w);
            else
                for (int i = 0; i < rows; i++)
                    gs_windows_rows(&w->product, 1, sum + i, from + (size_t)i * grid_w, grid_w);
            for (int i = 0; i < rows; i++) {
                float *y = w->y + (size_t)(r + i) * w->row + at;
                if (width >= GS_VECTOR)
                    gs_store(y, sum[i]);
                else
                    copy_row(y, (const float *)&sum[i], width);
            }
        }
    }
}

/* Compute row by row if that wastes less; otherwise compute all rows with the gaps between them, in `wide`. */
static inline void windows_product(group_windows *w, const float *x, float *wide) {
    gs_product *p = &w->product;
    const size_t grid_w = w->grid_w, width = (size_t)w->width, height = (size_t)w->height;
    if (p->rows == 1 && (p->more_parts + 1) * p->depth <= 64) {
        windows_one_plane(w, x);
        return;
    }
    if (gs_round_up(width) <= grid_w) {
        p->columns = w->width;
        for (size_t r = 0; r < height; r++)
            GS_ISA(gs_cpu_product)(p, w->y + r * w->row, w->plane, x + r * grid_w);
        return;
    }
    p->columns = (int)((height - 1) * grid_w + width);
    GS_ISA(gs_cpu_product)(p, wide, w->wide, x);
    for (size_t i = 0; i < (size_t)p->rows; i++)
        for (size_t r = 0; r < height; r++)
            copy_row(w->y + i * w->plane + r * w->row, wide + i * w->wide + r * grid_w, width);
}

/* ---- the work ---- */

typedef struct group_work {
    gs_conv2d_sizes s;
    int in_c, out_c, depth; /* per group: channels, and kernel positions in all input channels */
    int grid_h, grid_w, positions;
    size_t n, in, out;                  /* images; floats per image of x and of y, all groups */
    size_t plane, x_planes;             /* floats per plane; floats of a group's planes */
    size_t margin, dy_plane, dy_planes; /* for dy, which has `margin` zeros before it */
    const float *x, *w, *b, *dy;
    float *y, *dx;
    int chunks, parts, samples; /* samples: images that backward keeps in the cache together */
    float *packed, *sums;       /* weights for `product`; dw and db for each chunk */
    size_t *x_at, *w_at, *dx_at, weights;
    const gs_conv_phase *phase_h, *phase_w; /* backward: one per phase */
    float *scratch;                         /* `parts` times scratch_part floats */
    size_t scratch_part;
} group_work;

static group_work work_of(const gs_conv2d_sizes *sizes, size_t n) {
    group_work t = {.s = gs_conv2d_full(sizes), .n = n};
    const gs_conv2d_sizes *s = &t.s;
    t.in_c = s->in_c / s->groups, t.out_c = s->out_c / s->groups;
    t.depth = t.in_c * s->kernel_h * s->kernel_w;
    t.weights = (size_t)s->out_c * (size_t)t.depth;
    /* the kernel's reach on a plane */
    const int reach_h = (s->kernel_h - 1) * s->dilation_h / s->stride_h;
    const int reach_w = (s->kernel_w - 1) * s->dilation_w / s->stride_w;
    t.grid_h = gs_conv2d_grid(s->out_h, s->in_h, s->kernel_h, s->dilation_h, s->stride_h, s->pad_h);
    t.grid_w = gs_conv2d_grid(s->out_w, s->in_w, s->kernel_w, s->dilation_w, s->stride_w, s->pad_w);
    t.positions = (s->out_h - 1) * t.grid_w + s->out_w;
    const size_t grid = (size_t)t.grid_h * (size_t)t.grid_w;
    t.plane = gs_round_up(grid) + GS_CONV2D_LANES;
    t.x_planes = (size_t)(t.in_c * s->stride_h * s->stride_w) * t.plane;
    t.margin = gs_round_up((size_t)reach_h * (size_t)t.grid_w + (size_t)reach_w);
    t.dy_plane = t.margin + t.plane;
    t.dy_planes = (size_t)t.out_c * t.dy_plane;
    t.in = gs_conv2d_x(s);
    t.out = gs_conv2d_y(s, NULL);
    return t;
}

/* Reserve the scratch memory: `tables` entries, `sums` floats, the packed weights, and each part's own memory. */
static gs_status reserve(gs_device *d, group_work *t, int tasks, size_t tables, size_t sums) {
    float *memory;
    const size_t places = gs_round_up(tables * sizeof(size_t) / sizeof(float));
    t->parts = (int)gs_smaller((size_t)tasks, (size_t)gs_pool_threads(gs_cpu_of(d)->pool));
    t->scratch_part = gs_round_up(t->scratch_part);
    sums = gs_round_up(sums);
    GS_TRY(gs_cpu_scratch(d, places + sums + gs_round_up(t->weights) + t->scratch_part * (size_t)t->parts,
                          &memory));
    t->x_at = (size_t *)(void *)memory;
    t->sums = memory + places;
    t->packed = t->sums + sums;
    t->scratch = t->packed + gs_round_up(t->weights);
    return GS_OK;
}

/* For the kernel positions k: where a row of the planes starts, and the index in a row of w. */
static void list_x(group_work *t, size_t *w_at) {
    const gs_conv2d_sizes *s = &t->s;
    size_t *at = t->x_at;
    t->w_at = w_at;
    for (int c = 0; c < t->in_c; c++)
        for (int v = 0; v < s->kernel_w; v++)
            for (int u = 0; u < s->kernel_h; u++) {
                const int h = u * s->dilation_h, q = v * s->dilation_w;
                const int number = (c * s->stride_h + h % s->stride_h) * s->stride_w + q % s->stride_w;
                *at++ = (size_t)number * t->plane + (size_t)(h / s->stride_h) * (size_t)t->grid_w +
                        (size_t)(q / s->stride_w);
                const int place = (c * s->kernel_h + u) * s->kernel_w + v;
                *w_at++ = (size_t)place;
            }
}

/* Split a row into to[phase, column]: phase b holds every stride_w-th element, from padded column b on. */
static void split_row(const group_work *t, float *to, const float *x) {
    const size_t stride = (size_t)t->s.stride_w, pad = (size_t)t->s.pad_w, width = (size_t)t->s.in_w;
    for (size_t first = 0; first < stride && first < width; first++) {
        float *place = to + (first + pad) % stride * t->plane + (first + pad) / stride;
        for (size_t q = first; q < width; q += stride) *place++ = x[q];
    }
}

/* Write the planes of one group of an image; they are already surrounded by zeros. */
static void planes_from_image(const group_work *t, float *planes, const float *x) {
    const gs_conv2d_sizes *s = &t->s;
    const size_t phase = (size_t)s->stride_w * t->plane, width = (size_t)s->in_w, grid_w = (size_t)t->grid_w;
    const int first = s->pad_h % s->stride_h;
    const size_t first_row = (size_t)(s->pad_h / s->stride_h) * grid_w;
    for (int c = 0; c < t->in_c; c++, planes += (size_t)s->stride_h * phase) {
        float *row = planes + (size_t)first * phase + first_row;
        for (int h = 0, a = first; h < s->in_h; h++, x += width) {
            if (s->stride_w == 1)
                copy_row(row + s->pad_w, x, width);
            else
                split_row(t, row, x);
            row += phase; /* the next row: in the next phase, or the next row of the first phase */
            if (++a == s->stride_h) {
                a = 0;
                row += grid_w - (size_t)s->stride_h * phase;
            }
        }
    }
}

/* Call one(t, scratch, group, chunk) for the tasks of this part. */
static void each_task(const group_work *t, int part,
                      void (*one)(const group_work *, float *scratch, int group, int chunk)) {
    const gs_range r = gs_cpu_tasks((size_t)t->s.groups * (size_t)t->chunks, part, t->parts);
    float *scratch = t->scratch + t->scratch_part * (size_t)part;
    memset(scratch, 0, t->scratch_part * sizeof *scratch);
    for (size_t i = r.begin; i < r.end; i++)
        one(t, scratch, (int)(i / (size_t)t->chunks), (int)(i % (size_t)t->chunks));
}

/* The first image of a chunk; a chunk ends where the next one starts. */
static size_t first_image(const group_work *t, int chunk) {
    return t->n * (size_t)chunk / (size_t)t->chunks;
}

/* ---- forward ---- */

static void forward_task(const group_work *t, float *scratch, int group, int chunk) {
    const gs_conv2d_sizes *s = &t->s;
    float *planes = scratch, *wide = scratch + t->x_planes;
    const size_t plane = (size_t)s->out_h * (size_t)s->out_w, g = (size_t)group, out_c = (size_t)t->out_c;
    group_windows w = {.product = {.rows = t->out_c,
                                   .depth = t->depth,
                                   .a = t->packed + g * out_c * (size_t)t->depth,
                                   .at = t->x_at,
                                   .bias = t->b ? t->b + g * out_c : NULL},
                       .height = s->out_h,
                       .width = s->out_w,
                       .row = (size_t)s->out_w,
                       .plane = plane,
                       .grid_w = (size_t)t->grid_w,
                       .wide = t->plane};
    for (size_t i = first_image(t, chunk); i < first_image(t, chunk + 1); i++) {
        planes_from_image(t, planes, t->x + i * t->in + g * (t->in / (size_t)s->groups));
        w.y = t->y + i * t->out + g * out_c * plane;
        windows_product(&w, planes, wide);
    }
}

static void forward_part(void *context, int part) {
    each_task(context, part, forward_task);
}

gs_status GS_ISA(gs_cpu_conv2d_groups_forward)(gs_device *d, gs_mem y, gs_mem x, gs_mem w, gs_mem b, size_t n,
                                               const gs_conv2d_sizes *sizes) {
    group_work t = work_of(sizes, n);
    const gs_conv2d_sizes *s = &t.s;
    const size_t depth = (size_t)t.depth, out_c = (size_t)t.out_c;
    t.y = gs_cpu_floats(y), t.x = gs_cpu_floats(x), t.w = gs_cpu_floats(w), t.b = gs_cpu_floats(b);
    t.chunks = (int)gs_smaller(n, 16);
    t.scratch_part = t.x_planes + out_c * t.plane;
    GS_TRY(reserve(d, &t, s->groups * t.chunks, 2 * depth + out_c, 0));
    size_t *row_at = t.x_at + 2 * depth;
    list_x(&t, t.x_at + depth);
    for (size_t o = 0; o < out_c; o++) row_at[o] = o * depth;
    for (size_t g = 0; g < (size_t)s->groups; g++) GS_ISA(gs_cpu_pack)
    (t.packed + g * out_c * depth, t.w + g * out_c * depth, t.out_c, t.depth, row_at, t.w_at);
    return gs_cpu_run(d, t.parts, forward_part, &t);
}

/* ---- backward ---- */

/* List the phases of all rows, then those of all columns. */
static void list_phases(const gs_conv2d_sizes *s, gs_conv_phase *phase) {
    for (int a = 0; a < s->stride_h; a++)
        *phase++ = gs_conv_phase_of(a, s->in_h, s->pad_h, s->stride_h, s->kernel_h, s->dilation_h);
    for (int b = 0; b < s->stride_w; b++)
        *phase++ = gs_conv_phase_of(b, s->in_w, s->pad_w, s->stride_w, s->kernel_w, s->dilation_w);
}

/* For the columns (v, o, u) of phase (a, b)'s matrix: list each column's index in a group's w, and how far before p it
 * is in dy. */
static void list_phase(const group_work *t, int a, int b, size_t *column_at, size_t *at) {
    const gs_conv2d_sizes *s = &t->s;
    for (int v = 0; v < s->kernel_w; v++)
        for (int o = 0; o < t->out_c; o++)
            for (int u = 0; u < s->kernel_h; u++) {
                const int h = u * s->dilation_h, q = v * s->dilation_w;
                if (h % s->stride_h != a || q % s->stride_w != b) continue;
                *column_at++ = (size_t)o * (size_t)t->depth + (size_t)(u * s->kernel_w + v);
                *at++ = (size_t)o * t->dy_plane + t->margin - (size_t)(h / s->stride_h) * (size_t)t->grid_w -
                        (size_t)(q / s->stride_w);
            }
}

/* For each phase, pack the matrix with rows c, for all groups in order. */
static void prepare_dx(const group_work *t, size_t *row_at, size_t *column_at) {
    const gs_conv2d_sizes *s = &t->s;
    const size_t group = (size_t)t->out_c * (size_t)t->depth;
    size_t *at = t->dx_at, done = 0; /* floats of a group's matrices */
    for (int c = 0; c < t->in_c; c++) row_at[c] = (size_t)c * (size_t)s->kernel_h * (size_t)s->kernel_w;
    for (int a = 0; a < s->stride_h; a++)
        for (int b = 0; b < s->stride_w; b++) {
            const int columns = t->out_c * t->phase_h[a].taps * t->phase_w[b].taps;
            list_phase(t, a, b, column_at, at);
            for (size_t g = 0; g < (size_t)s->groups; g++) GS_ISA(gs_cpu_pack)
            (t->packed + g * group + done, t->w + g * group, t->in_c, columns, row_at, column_at);
            at += columns;
            done += (size_t)t->in_c * (size_t)columns;
        }
}

/* dx for phase (a, b), whose size is in `w`, of one image. Its pixels are stride_h rows and stride_w columns apart. */
static void phase_gradient(const group_work *t, group_windows *w, int a, int b, float *dx, const float *dy,
                           float *memory) {
    const gs_conv2d_sizes *s = &t->s;
    const gs_conv_phase rows = t->phase_h[a], columns = t->phase_w[b];
    const size_t first = (size_t)rows.first * (size_t)t->grid_w + (size_t)columns.first;
    const size_t image = (size_t)s->in_h * (size_t)s->in_w, width = (size_t)w->width,
                 stride = (size_t)s->stride_w;
    const bool is_together = stride == 1 && w->product.depth > 0;
    dx += (size_t)(rows.first * s->stride_h + a - s->pad_h) * (size_t)s->in_w +
          (size_t)(columns.first * s->stride_w + b - s->pad_w);
    w->row = is_together ? (size_t)s->stride_h * (size_t)s->in_w : width;
    w->plane = is_together ? image : width * (size_t)w->height;
    w->y = is_together ? dx : memory;
    if (w->product.depth > 0)
        windows_product(w, dy + first, memory + (size_t)t->in_c * t->plane);
    else /* no window covers these pixels */
        memset(memory, 0, (size_t)t->in_c * w->plane * sizeof *memory);
    if (is_together) return;
    for (size_t c = 0; c < (size_t)t->in_c; c++)
        for (size_t h = 0; h < (size_t)w->height; h++, memory += width) {
            float *to = dx + c * image + h * (size_t)s->stride_h * (size_t)s->in_w;
            for (size_t q = 0; q < width; q++) to[q * stride] = memory[q];
        }
}

static void image_gradient(const group_work *t, float *dx, const float *dy, size_t group, float *memory) {
    const gs_conv2d_sizes *s = &t->s;
    group_windows w = {.product = {.rows = t->in_c,
                                   .a = t->packed + group * (size_t)t->out_c * (size_t)t->depth,
                                   .at = t->dx_at,
                                   .sum = true},
                       .grid_w = (size_t)t->grid_w,
                       .wide = t->plane};
    for (int a = 0; a < s->stride_h; a++)
        for (int b = 0; b < s->stride_w; b++) {
            gs_product *p = &w.product;
            const int parts = t->phase_w[b].taps;
            p->depth = parts > 0 ? t->out_c * t->phase_h[a].taps : 0;
            p->more_parts = parts > 0 ? parts - 1 : 0;
            w.height = t->phase_h[a].end - t->phase_h[a].first;
            w.width = t->phase_w[b].end - t->phase_w[b].first;
            if (w.height > 0 && w.width > 0) phase_gradient(t, &w, a, b, dx, dy, memory);
            p->a += p->rows * p->depth * parts;
            p->at += p->depth * parts;
        }
}

/* Copy a group of one image of dy to rows of length grid_w, between zeros, and add its sums to db. */
static void copy_dy(const group_work *t, float *to, const float *dy, float *db) {
    const size_t width = (size_t)t->s.out_w;
    to += t->margin;
    for (int o = 0; o < t->out_c; o++, to += t->dy_plane) {
        db[o] += gs_sum_of_plane(dy, width * (size_t)t->s.out_h);
        for (int r = 0; r < t->s.out_h; r++, dy += width)
            copy_row(to + (size_t)r * (size_t)t->grid_w, dy, width);
    }
}

static void backward_task(const group_work *t, float *scratch, int group, int chunk) {
    const gs_conv2d_sizes *s = &t->s;
    const size_t g = (size_t)group, out_c = (size_t)t->out_c, some = (size_t)t->samples;
    const size_t x_group = t->in / (size_t)s->groups, dy_group = t->out / (size_t)s->groups;
    float *dy = scratch, *planes = dy + some * t->dy_planes, *memory = planes + some * t->x_planes;
    float *sums = t->sums + (size_t)chunk * (t->weights + (size_t)s->out_c);
    float *dw = sums + g * out_c * (size_t)t->depth, *db = sums + t->weights + g * out_c;
    const size_t grid_w = (size_t)t->grid_w;
    const bool by_rows = gs_conv2d_order_of(s).pitch != t->grid_w; /* each row is a sample */
    gs_dots dots = {.rows = t->out_c,
                    .depth = t->depth,
                    .columns = by_rows ? s->out_w : t->positions,
                    .at = t->x_at,
                    .y_row = t->dy_plane,
                    .y_sample = by_rows ? grid_w : t->dy_planes,
                    .x_sample = by_rows ? grid_w : t->x_planes};
    memset(dw, 0, out_c * (size_t)t->depth * sizeof *dw);
    memset(db, 0, out_c * sizeof *db);
    for (size_t i = first_image(t, chunk), end = first_image(t, chunk + 1); i < end; i += some) {
        const size_t images = gs_smaller(end - i, some);
        dots.samples = by_rows ? s->out_h : (int)images;
        for (size_t k = 0; k < images; k++) {
            planes_from_image(t, planes + k * t->x_planes, t->x + (i + k) * t->in + g * x_group);
            copy_dy(t, dy + k * t->dy_planes, t->dy + (i + k) * t->out + g * dy_group, db);
        }
        if (by_rows)
            for (size_t k = 0; k < images; k++) {
                const float *of_image = dy + k * t->dy_planes + t->margin;
                GS_ISA(gs_cpu_dot_products)(&dots, dw, of_image, planes + k * t->x_planes);
            }
        else
            GS_ISA(gs_cpu_dot_products)(&dots, dw, dy + t->margin, planes);
        for (size_t k = 0; k < images && t->dx; k++)
            image_gradient(t, t->dx + (i + k) * t->in + g * x_group, dy + k * t->dy_planes, g, memory);
    }
}

static void backward_part(void *context, int part) {
    each_task(context, part, backward_task);
}

gs_status GS_ISA(gs_cpu_conv2d_groups_backward)(gs_device *d, gs_mem dx, gs_mem dw_, gs_mem db_, gs_mem dy,
                                                gs_mem x, gs_mem w, size_t n, const gs_conv2d_sizes *sizes,
                                                bool add) {
    group_work t = work_of(sizes, n);
    const gs_conv2d_sizes *s = &t.s;
    const size_t out_c = (size_t)s->out_c, depth = (size_t)t.depth;
    if (!add) GS_TRY(gs_clear(d, dw_, t.weights, db_, out_c));
    if (n == 0) return GS_OK;
    float *dw = gs_cpu_floats(dw_), *db = gs_cpu_floats(db_);
    t.dx = gs_cpu_floats(dx), t.dy = gs_cpu_floats(dy), t.x = gs_cpu_floats(x), t.w = gs_cpu_floats(w);

    const size_t each = t.weights + out_c, chunks = gs_conv2d_chunks(s, n);
    t.chunks = (int)chunks;
    t.samples = gs_conv2d_order_of(s).images;
    t.scratch_part = (size_t)t.samples * (t.x_planes + t.dy_planes) + 2 * (size_t)t.in_c * t.plane;
    const size_t columns = (size_t)t.out_c * (size_t)s->kernel_h * (size_t)s->kernel_w;
    const size_t phases = (size_t)s->stride_h + (size_t)s->stride_w;
    GS_TRY(reserve(d, &t, s->groups * t.chunks, 2 * depth + 2 * columns + (size_t)t.in_c + 2 * phases,
                   chunks * each));
    t.dx_at = t.x_at + 2 * depth;
    list_x(&t, t.x_at + depth);
    size_t *row_at = t.dx_at + 2 * columns;
    gs_conv_phase *phase = (gs_conv_phase *)(void *)(row_at + t.in_c);
    list_phases(s, phase);
    t.phase_h = phase, t.phase_w = phase + s->stride_h;
    if (t.dx) prepare_dx(&t, row_at, t.dx_at + columns);
    gs_pool_run(gs_cpu_of(d)->pool, t.parts, backward_part, &t);
    for (size_t chunk = 0; chunk < chunks; chunk++) {
        const float *sums = t.sums + chunk * each;
        for (size_t o = 0; o < out_c; o++)
            for (size_t k = 0; k < depth; k++) dw[o * depth + t.w_at[k]] += sums[o * depth + k];
        for (size_t o = 0; o < out_c && db; o++) db[o] += sums[t.weights + o];
    }
    return GS_OK;
}
