#include "cpu/winograd.h"

/* An image whose channels are adjacent, padded with zeros: (blocks of GS_VECTOR channels, height, width, GS_VECTOR) */
typedef struct beside {
    gs_channels from;
    size_t width, block;
    uint32_t *place; /* where each pixel goes */
    float *at;
} beside;

/* The memory of a part. v is (16, tiles, in_c); n is (16, blocks of GS_TILE_ROWS channels, tiles, GS_TILE_ROWS), the
 * layout in which gs_product reads its matrix. */
typedef struct dw_work {
    const gs_conv2d_sizes *s;
    gs_winograd_order order;
    int rows, columns;             /* tiles in an image, down and across */
    size_t room, v_place, n_place; /* tiles in a block; distance between two of the 16 matrices, in floats */
    beside x, dy;
    float *product, *v, *n;
    size_t *at; /* where each tile starts in v */
} dw_work;

/* The next free floats of `memory`, which is NULL if only their number is needed. */
typedef struct taker {
    float *memory;
    size_t used;
} taker;

static float *take(taker *from, size_t floats) {
    float *it = from->memory ? from->memory + from->used : NULL;
    from->used += gs_round_up(floats);
    return it;
}

static beside take_beside(taker *from, gs_channels of, int height, int width) {
    beside b = {.from = of, .width = (size_t)width * GS_VECTOR};
    b.block = (size_t)height * b.width;
    b.place = (uint32_t *)(void *)take(from, of.plane);
    b.at = take(from, of.count / GS_VECTOR * b.block);
    return b;
}

static dw_work lay_out(const gs_conv2d_sizes *s, size_t dy_plane, taker *next) {
    const size_t in_c = (size_t)s->in_c, out_c = (size_t)s->out_c, in = (size_t)s->in_h * (size_t)s->in_w;
    dw_work t = {
        .s = s, .order = gs_winograd_order_of(s), .rows = (s->out_h + 1) / 2, .columns = (s->out_w + 1) / 2};
    t.room = (size_t)t.order.images * (size_t)t.order.rows * (size_t)t.columns;
    t.v_place = t.room * in_c + GS_VECTOR; /* else all 16 might map to the same cache set */
    t.n_place = t.room * out_c + GS_VECTOR;
    t.product = take(next, GS_TILE_ROWS * in_c);
    t.v = take(next, GS_WINOGRAD_PLACES * t.v_place);
    t.n = take(next, GS_WINOGRAD_PLACES * t.n_place);
    t.at = (size_t *)(void *)take(next, t.room * sizeof(size_t) / sizeof(float));
    t.x = take_beside(next, (gs_channels){in_c, in, in}, 2 * t.rows + 2, 2 * t.columns + 2);
    t.dy = take_beside(next, (gs_channels){out_c, (size_t)(s->out_h * s->out_w), dy_plane}, 2 * t.rows,
                       2 * t.columns);
    return t;
}

size_t GS_ISA(gs_cpu_winograd_dw_memory)(const gs_conv2d_sizes *s) {
    taker next = {NULL, 0};
    (void)lay_out(s, 0, &next);
    return next.used;
}

/* ---- contiguous channels ---- */

static void list_places(const beside *b, int height, int width, int pad_h, int pad_w) {
    for (int h = 0, p = 0; h < height; h++)
        for (int w = 0; w < width; w++, p++)
            b->place[p] = (uint32_t)((size_t)(h + pad_h) * b->width + (size_t)(w + pad_w) * GS_VECTOR);
}

/* ---- v = B^T d B and n = A dy A^T ---- */

static void tile_of_x(float *to, size_t matrix, const float *d, size_t width) {
    gs_vector half[4][4];
    UNROLL for (int j = 0; j < 4; j++) {
        gs_vector in[4];
        UNROLL for (int r = 0; r < 4; r++) in[r] = gs_load(d + (size_t)r * width + j * GS_VECTOR);
        half[0][j] = in[0] - in[2];
        half[1][j] = in[1] + in[2];
        half[2][j] = in[2] - in[1];
        half[3][j] = in[1] - in[3];
    }
    UNROLL for (int r = 0; r < 4; r++, to += 4 * matrix) {
        const gs_vector *in = half[r];
        gs_store(to, in[0] - in[2]);
        gs_store(to + matrix, in[1] + in[2]);
        gs_store(to + 2 * matrix, in[2] - in[1]);
        gs_store(to + 3 * matrix, in[1] - in[3]);
    }
}

/* Store v's channels in blocks of GS_TILE_ROWS, which are `block` floats apart. */
ALWAYS_INLINE void store_blocks(float *to, size_t block, gs_vector v) {
    enum { SOME = GS_VECTOR < GS_TILE_ROWS ? GS_VECTOR : GS_TILE_ROWS };
    float lanes[GS_VECTOR];
    gs_store(lanes, v);
    UNROLL for (int i = 0; i < GS_VECTOR / SOME; i++)
        memcpy(to + (size_t)i * block, lanes + i * SOME, SOME * sizeof *to);
}

/* by_g applies the minus sign in A's last row, for row and column 3 of n; here, row 3 is just the second number. */
static void tile_of_dy(float *to, size_t matrix, size_t block, const float *dy, size_t width) {
    gs_vector half[4][2];
    UNROLL for (int j = 0; j < 2; j++) {
        half[0][j] = gs_load(dy + j * GS_VECTOR);
        half[3][j] = gs_load(dy + width + j * GS_VECTOR);
        half[1][j] = half[0][j] + half[3][j];
        half[2][j] = half[0][j] - half[3][j];
    }
    UNROLL for (int r = 0; r < 4; r++, to += 4 * matrix) {
        store_blocks(to, block, half[r][0]);
        store_blocks(to + matrix, block, half[r][0] + half[r][1]);
        store_blocks(to + 2 * matrix, block, half[r][0] - half[r][1]);
        store_blocks(to + 3 * matrix, block, half[r][1]);
    }
}

static void row_of_tiles(const dw_work *t, int row, size_t first) {
    const size_t in_c = (size_t)t->s->in_c, block = t->room * GS_TILE_ROWS;
    const float *x = t->x.at + (size_t)(2 * row) * t->x.width,
                *dy = t->dy.at + (size_t)(2 * row) * t->dy.width;
    for (size_t c = 0; c < in_c; c += GS_VECTOR, x += t->x.block)
        for (size_t i = 0; i < (size_t)t->columns; i++)
            tile_of_x(t->v + (first + i) * in_c + c, t->v_place, x + i * 2 * GS_VECTOR, t->x.width);
    for (size_t o = 0; o < (size_t)t->s->out_c; o += GS_VECTOR, dy += t->dy.block) {
        float *to = t->n + o / GS_TILE_ROWS * block + o % GS_TILE_ROWS + first * GS_TILE_ROWS;
        for (size_t i = 0; i < (size_t)t->columns; i++)
            tile_of_dy(to + i * GS_TILE_ROWS, t->n_place, block, dy + i * 2 * GS_VECTOR, t->dy.width);
    }
}

/* ---- du = n v, dw += G^T du G ---- */

static void add_products(const dw_work *t, float *du, size_t tiles) {
    const size_t in_c = (size_t)t->s->in_c, out_c = (size_t)t->s->out_c;
    gs_product product = {.rows = GS_TILE_ROWS, .depth = (int)tiles, .columns = t->s->in_c, .at = t->at};
    for (size_t place = 0; place < GS_WINOGRAD_PLACES; place++)
        for (size_t o = 0; o < out_c; o += GS_TILE_ROWS, du += GS_TILE_ROWS * in_c) {
            product.a = t->n + place * t->n_place + o * t->room;
            GS_ISA(gs_cpu_product)(&product, t->product, in_c, t->v + place * t->v_place);
            for (size_t i = 0; i < GS_TILE_ROWS * in_c; i += GS_VECTOR)
                gs_store(du + i, gs_load(du + i) + gs_load(t->product + i));
        }
}

ALWAYS_INLINE void by_g(gs_vector *g, int step, gs_vector u0, gs_vector u1, gs_vector u2, gs_vector u3) {
    g[0] = u0 + (u1 + u2) / 2;
    g[step] = (u1 - u2) / 2;
    g[2 * step] = (u1 + u2) / 2 - u3;
}

void GS_ISA(gs_cpu_winograd_dw_finish)(float *dw, const float *du, size_t pairs, size_t chunks,
                                       size_t chunk) {
    gs_vector u[GS_WINOGRAD_PLACES], half[3 * 4], g[9];
    float lanes[9][GS_VECTOR];
    UNROLL for (size_t place = 0; place < GS_WINOGRAD_PLACES; place++) {
        u[place] = gs_load(du + place * pairs);
        for (size_t k = 1; k < chunks; k++) u[place] += gs_load(du + k * chunk + place * pairs);
    }
    UNROLL for (int j = 0; j < 4; j++) by_g(half + j, 4, u[j], u[4 + j], u[8 + j], u[12 + j]);
    UNROLL for (int k = 0; k < 3; k++)
        by_g(g + 3 * k, 1, half[4 * k], half[4 * k + 1], half[4 * k + 2], half[4 * k + 3]);
    for (int k = 0; k < 9; k++) gs_store(lanes[k], g[k]);
    for (int i = 0; i < GS_VECTOR; i++, dw += 9)
        for (int k = 0; k < 9; k++) dw[k] += lanes[k][i];
}

/* ---- some images ---- */

void GS_ISA(gs_cpu_winograd_dw_begin)(const gs_conv2d_sizes *s, float *memory) {
    taker next = {memory, 0};
    const dw_work t = lay_out(s, 0, &next);
    if (!t.x.at || !t.dy.at) return; /* for the analyser: there is memory */
    memset(t.x.at, 0, t.x.from.count / GS_VECTOR * t.x.block * sizeof *t.x.at);
    memset(t.dy.at, 0, t.dy.from.count / GS_VECTOR * t.dy.block * sizeof *t.dy.at);
    list_places(&t.x, s->in_h, s->in_w, s->pad_h, s->pad_w);
    list_places(&t.dy, s->out_h, s->out_w, 0, 0);
    for (size_t i = 0; i < t.room; i++) t.at[i] = i * (size_t)s->in_c;
}

void GS_ISA(gs_cpu_winograd_dw)(const gs_conv2d_sizes *s, float *du, const float *x, const float *dy,
                                size_t dy_plane, size_t dy_image, size_t images, float *memory) {
    taker next = {memory, 0};
    const dw_work t = lay_out(s, dy_plane, &next);
    size_t tiles = 0;
    for (size_t i = 0; i < images; i++) {
        gs_beside(&t.x.from, t.x.at, t.x.block, t.x.place, x + i * gs_conv2d_x(s));
        gs_beside(&t.dy.from, t.dy.at, t.dy.block, t.dy.place, dy + i * dy_image);
        for (int row = 0; row < t.rows; row++) {
            row_of_tiles(&t, row, tiles);
            tiles += (size_t)t.columns;
            if (row + 1 < t.rows ? (row + 1) % t.order.rows != 0
                                 : i + 1 < images && (i + 1) % (size_t)t.order.images != 0)
                continue;
            add_products(&t, du, tiles);
            tiles = 0;
        }
    }
}
