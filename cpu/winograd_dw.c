#include "cpu/winograd.h"

#include <string.h>

/* About CACHED_FLOATS floats of v and n fit in a core's L2 cache; a product needs LEAST_TILES tiles to pay off. */
enum { CACHED_FLOATS = 128 << 10, LEAST_TILES = 64 };

/* Images whose channels are adjacent, padded with zeros: (blocks of GS_VECTOR channels, height, width, GS_VECTOR). A
 * part has two of them: one for x and one for dy. */
typedef struct beside {
    int c, plane; /* channels; pixels per channel, without the zeros */
    size_t width, block;
    uint32_t *place; /* where each pixel goes */
    float *at;
} beside;

typedef struct dw_work {
    const gs_conv2d_sizes *s;
    float *dx, *dw;
    const float *dy, *x;
    gs_winograd dx_of;              /* dx as a convolution */
    size_t n, in, out;              /* images; floats per image of x and of dy */
    size_t some;                    /* images whose dx is computed together, while their dy is cached */
    size_t v_place, n_place;        /* distance between two of the 16 matrices, in floats */
    int rows, columns, room, parts; /* tiles in an image, down and across; tiles that v and n have room for */
    float *scratch, *part_memory;   /* each part's memory starts with its du */
    size_t scratch_part;
    int finishing; /* parts of the last pass */
} dw_work;

/* The contents of a part's memory. du is (16, out_c, in_c); v is (16, tiles, in_c); n is (16, blocks of GS_TILE_ROWS
 * channels, tiles, GS_TILE_ROWS), the layout in which gs_product reads its matrix. */
typedef struct dw_part {
    beside x, dy;
    float *du, *product, *v, *n, *dx_memory;
    size_t *at; /* where each tile starts in v */
    int tiles;  /* tiles in v and n */
} dw_part;

/* ---- a part's memory ---- */

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

static beside take_beside(taker *from, int c, int plane, int height, int width) {
    beside b = {.c = c, .plane = plane, .width = (size_t)width * GS_VECTOR};
    b.block = (size_t)height * b.width;
    b.place = (uint32_t *)(void *)take(from, (size_t)plane);
    b.at = take(from, (size_t)(c / GS_VECTOR) * b.block);
    return b;
}

/* *floats = the total number of floats. */
static dw_part lay_out(const dw_work *t, float *memory, size_t *floats) {
    const gs_conv2d_sizes *s = t->s;
    const size_t in_c = (size_t)s->in_c, out_c = (size_t)s->out_c, room = (size_t)t->room;
    taker next = {memory, 0};
    dw_part p = {.du = take(&next, GS_WINOGRAD_PLACES * out_c * in_c)};
    p.product = take(&next, GS_TILE_ROWS * in_c);
    p.v = take(&next, GS_WINOGRAD_PLACES * t->v_place);
    p.n = take(&next, GS_WINOGRAD_PLACES * t->n_place);
    p.at = (size_t *)(void *)take(&next, room * sizeof(size_t) / sizeof(float));
    p.x = take_beside(&next, s->in_c, s->in_h * s->in_w, 2 * t->rows + 2, 2 * t->columns + 2);
    p.dy = take_beside(&next, s->out_c, s->out_h * s->out_w, 2 * t->rows, 2 * t->columns);
    p.dx_memory = take(&next, t->dx ? GS_ISA(gs_cpu_winograd_memory)(&t->dx_of) : 0);
    *floats = next.used;
    return p;
}

/* ---- contiguous channels ---- */

static void list_places(const beside *b, int height, int width, int pad_h, int pad_w) {
    for (int h = 0, p = 0; h < height; h++)
        for (int w = 0; w < width; w++, p++)
            b->place[p] = (uint32_t)((size_t)(h + pad_h) * b->width + (size_t)(w + pad_w) * GS_VECTOR);
}

/* Copy one image. The last pixels are copied together with some of those before them. */
static void put_beside(const beside *b, const float *from) {
    const size_t plane = (size_t)b->plane;
    float *to = b->at;
    for (int c = 0; c < b->c; c += GS_VECTOR, from += GS_VECTOR * plane, to += b->block) {
        size_t p = 0;
        while (p + GS_VECTOR <= plane) {
            gs_vector v[GS_VECTOR];
            _Pragma("GCC unroll 16") for (int i = 0; i < GS_VECTOR; i++) v[i] =
                gs_load(from + (size_t)i * plane + p);
            gs_transpose(v);
            _Pragma("GCC unroll 16") for (int i = 0; i < GS_VECTOR; i++)
                gs_store(to + b->place[p + (size_t)i], v[i]);
            p += GS_VECTOR;
            if (p < plane && p + GS_VECTOR > plane) p = plane - GS_VECTOR;
        }
        for (; p < plane; p++)
            for (size_t i = 0; i < GS_VECTOR; i++) to[b->place[p] + i] = from[i * plane + p];
    }
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

static void row_of_tiles(const dw_work *t, dw_part *p, int row) {
    const size_t in_c = (size_t)t->s->in_c, room = (size_t)t->room, block = room * GS_TILE_ROWS;
    const float *x = p->x.at + (size_t)(2 * row) * p->x.width,
                *dy = p->dy.at + (size_t)(2 * row) * p->dy.width;
    const size_t first = (size_t)p->tiles;
    for (size_t c = 0; c < in_c; c += GS_VECTOR, x += p->x.block)
        for (size_t i = 0; i < (size_t)t->columns; i++)
            tile_of_x(p->v + (first + i) * in_c + c, t->v_place, x + i * 2 * GS_VECTOR, p->x.width);
    for (size_t o = 0; o < (size_t)t->s->out_c; o += GS_VECTOR, dy += p->dy.block) {
        float *to = p->n + o / GS_TILE_ROWS * block + o % GS_TILE_ROWS + first * GS_TILE_ROWS;
        for (size_t i = 0; i < (size_t)t->columns; i++)
            tile_of_dy(to + i * GS_TILE_ROWS, t->n_place, block, dy + i * 2 * GS_VECTOR, p->dy.width);
    }
    p->tiles += t->columns;
}

/* ---- du = n v, dw += G^T du G ---- */

static void add_products(const dw_work *t, dw_part *p) {
    const size_t in_c = (size_t)t->s->in_c, out_c = (size_t)t->s->out_c, room = (size_t)t->room;
    gs_product product = {.rows = GS_TILE_ROWS, .depth = p->tiles, .columns = t->s->in_c, .at = p->at};
    float *du = p->du;
    for (size_t place = 0; place < GS_WINOGRAD_PLACES; place++)
        for (size_t o = 0; o < out_c; o += GS_TILE_ROWS, du += GS_TILE_ROWS * in_c) {
            product.a = p->n + place * t->n_place + o * room;
            GS_ISA(gs_cpu_product)(&product, p->product, in_c, p->v + place * t->v_place);
            for (size_t i = 0; i < GS_TILE_ROWS * in_c; i += GS_VECTOR)
                gs_store(du + i, gs_load(du + i) + gs_load(p->product + i));
        }
    p->tiles = 0;
}

ALWAYS_INLINE void by_g(gs_vector *g, int step, gs_vector u0, gs_vector u1, gs_vector u2, gs_vector u3) {
    g[0] = u0 + (u1 + u2) / 2;
    g[step] = (u1 - u2) / 2;
    g[2 * step] = (u1 + u2) / 2 - u3;
}

/* dw for GS_VECTOR pairs of channels (o, c) += one part's du, transformed: each pair needs only its own 16 numbers. */
static void finish_pairs(float *dw, const float *du, size_t pairs) {
    gs_vector u[GS_WINOGRAD_PLACES], half[3 * 4], g[9];
    float lanes[9][GS_VECTOR];
    UNROLL for (size_t place = 0; place < GS_WINOGRAD_PLACES; place++) u[place] = gs_load(du + place * pairs);
    UNROLL for (int j = 0; j < 4; j++) by_g(half + j, 4, u[j], u[4 + j], u[8 + j], u[12 + j]);
    UNROLL for (int k = 0; k < 3; k++)
        by_g(g + 3 * k, 1, half[4 * k], half[4 * k + 1], half[4 * k + 2], half[4 * k + 3]);
    for (int k = 0; k < 9; k++) gs_store(lanes[k], g[k]);
    for (int i = 0; i < GS_VECTOR; i++, dw += 9)
        for (int k = 0; k < 9; k++) dw[k] += lanes[k][i];
}

/* ---- the whole gradient ---- */

static void backward_part(void *context, int part) {
    const dw_work *t = context;
    const gs_conv2d_sizes *s = t->s;
    const gs_range r = gs_cpu_tasks(t->n, part, t->parts);
    size_t floats;
    dw_part p = lay_out(t, t->part_memory + t->scratch_part * (size_t)part, &floats);
    if (!p.du) gs_bug("winograd_dw: no memory"); /* for the analyser: lay_out returns NULL only for NULL */
    memset(p.du, 0, GS_WINOGRAD_PLACES * (size_t)s->out_c * (size_t)s->in_c * sizeof *p.du);
    memset(p.x.at, 0, (size_t)(s->in_c / GS_VECTOR) * p.x.block * sizeof *p.x.at);
    memset(p.dy.at, 0, (size_t)(s->out_c / GS_VECTOR) * p.dy.block * sizeof *p.dy.at);
    list_places(&p.x, s->in_h, s->in_w, s->pad_h, s->pad_w);
    list_places(&p.dy, s->out_h, s->out_w, 0, 0);
    for (size_t i = 0; i < (size_t)t->room; i++) p.at[i] = i * (size_t)s->in_c;
    for (size_t i = r.begin, done = r.begin; i < r.end; i++) {
        put_beside(&p.x, t->x + i * t->in);
        put_beside(&p.dy, t->dy + i * t->out);
        for (int row = 0; row < t->rows; row++) {
            if (p.tiles + t->columns > t->room) add_products(t, &p);
            row_of_tiles(t, &p, row);
        }
        if (!t->dx || (i + 1 < r.end && i + 1 - done < t->some)) continue;
        GS_ISA(gs_cpu_winograd)
        (&t->dx_of, t->dx + done * t->in, t->dy + done * t->out, t->out, i + 1 - done, p.dx_memory);
        done = i + 1;
    }
    if (p.tiles > 0) add_products(t, &p);
}

/* For some pairs of channels: add the sums of the earlier parts, in order. */
static void finish_part(void *context, int part) {
    const dw_work *t = context;
    const size_t pairs = (size_t)t->s->out_c * (size_t)t->s->in_c, vectors = pairs / GS_VECTOR;
    const gs_range r = gs_cpu_tasks(vectors, part, t->finishing);
    for (size_t i = r.begin * GS_VECTOR; i < r.end * GS_VECTOR; i += GS_VECTOR)
        for (int k = 0; k < t->parts; k++)
            finish_pairs(t->dw + 9 * i, t->part_memory + t->scratch_part * (size_t)k + i, pairs);
}

gs_status GS_ISA(gs_cpu_winograd_backward)(gs_device *d, float *dx, float *dw, const float *dy,
                                           const float *x, const float *w, size_t n,
                                           const gs_conv2d_sizes *s) {
    const size_t in_c = (size_t)s->in_c, out_c = (size_t)s->out_c,
                 positions = (size_t)s->out_h * (size_t)s->out_w;
    dw_work t = {.s = s,
                 .dx = dx,
                 .dw = dw,
                 .dy = dy,
                 .x = x,
                 .dx_of = gs_winograd_dx(s, positions),
                 .n = n,
                 .in = in_c * (size_t)(s->in_h * s->in_w),
                 .out = out_c * positions,
                 .rows = (s->out_h + 1) / 2,
                 .columns = (s->out_w + 1) / 2,
                 .parts = gs_cpu_parts(d, n, 1)};
    int fit = CACHED_FLOATS / GS_WINOGRAD_PLACES / (s->in_c + s->out_c);
    if (fit < LEAST_TILES) fit = LEAST_TILES;
    t.room = fit < t.columns ? t.columns : fit;
    t.v_place = (size_t)t.room * in_c + GS_VECTOR; /* else all 16 might map to the same cache set */
    t.n_place = (size_t)t.room * out_c + GS_VECTOR;
    const bool much = GS_WINOGRAD_PLACES * in_c * out_c > 2 * CACHED_FLOATS; /* u is too large to reread */
    t.some = much ? n : CACHED_FLOATS / 2 / t.out + 1;
    const size_t u = dx ? gs_round_up(GS_WINOGRAD_PLACES * out_c * in_c) : 0;
    lay_out(&t, NULL, &t.scratch_part);
    GS_TRY(gs_cpu_scratch(d, u + t.scratch_part * (size_t)t.parts, &t.scratch));
    if (d->dry) return GS_OK;
    t.part_memory = t.scratch + u;
    t.dx_of.u = t.scratch;
    if (dx) GS_ISA(gs_cpu_winograd_kernels)(d, &t.dx_of, t.scratch, w, 9, 9 * in_c, true);
    gs_pool_run(gs_cpu_of(d)->pool, t.parts, backward_part, &t);
    t.finishing = gs_cpu_parts(d, in_c * out_c, 1 << 8);
    return gs_cpu_run(d, t.finishing, finish_part, &t);
}
