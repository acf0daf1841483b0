#include "cpu/winograd.h"

#include <string.h>

/* The lanes of a vector are neighbouring tiles: 2 apart in x and y, side by side in v and m. v is 16 matrices (in_c,
 * tiles) and m 16 matrices (BLOCK, tiles), for the channels of y that are computed together. */
typedef struct gs_tiles {
    int rows, columns; /* of tiles in an image */
    int band, images;  /* at a time: `band` rows of one image, or all rows of `images` */
    size_t pitch;      /* of the padded plane that tiles are taken from: zeros around a plane of x */
    size_t row;        /* floats from a row (of a channel) of v or m to the next */
    size_t v, m;       /* floats from one of the 16 matrices to the next */
} gs_tiles;

/* About this many floats of v stay in a core's second-level cache, and with them m. */
enum { CACHED_FLOATS = 104 << 10, BLOCK = 2 * GS_TILE_ROWS };

/* The same place of all 16 matrices must not fall into the same set of the first-level cache. */
static size_t matrix_floats(size_t floats) {
    enum { CACHE_SETS = 1024 };
    return floats / CACHE_SETS * CACHE_SETS + CACHE_SETS + GS_VECTOR;
}

static gs_tiles tiles_of(const gs_winograd *t) {
    gs_tiles p = {.rows = (t->out_h + 1) / 2, .columns = (t->out_w + 1) / 2};
    int most = CACHED_FLOATS / GS_WINOGRAD_PLACES / t->in_c, tiles = p.rows * p.columns;
    p.images = most > tiles ? most / tiles : 1;
    p.band = most > tiles ? p.rows : most > p.columns ? most / p.columns : 1;
    p.pitch = 2 * gs_round_up((size_t)p.columns) + GS_VECTOR;
    p.row = gs_round_up((size_t)p.images * (size_t)p.band * (size_t)p.columns) + GS_VECTOR;
    p.v = matrix_floats((size_t)t->in_c * p.row);
    p.m = matrix_floats(BLOCK * p.row);
    return p;
}

static size_t table_floats(const gs_winograd *t) {
    return gs_round_up((size_t)t->in_c * sizeof(size_t) / sizeof(float));
}

static size_t padded_floats(const gs_tiles *p) {
    return (size_t)(2 * p->band + 2) * p->pitch;
}

size_t GS_ISA(winograd_memory)(const gs_winograd *t) {
    gs_tiles p = tiles_of(t);
    return table_floats(t) + padded_floats(&p) + GS_WINOGRAD_PLACES * (p.v + p.m);
}

/* ---- u = G g G^T ---- */

static void by_g(float *u, int step, float g0, float g1, float g2) {
    u[0] = g0;
    u[step] = (g0 + g1 + g2) / 2;
    u[2 * step] = (g0 - g1 + g2) / 2;
    u[3 * step] = g2;
}

void GS_ISA(winograd_kernels)(const gs_winograd *t, float *to, const float *w, size_t w_out, size_t w_in,
                              bool turned) {
    size_t matrix = (size_t)t->out_c * (size_t)t->in_c;
    for (int block = 0; block < t->out_c; block += GS_TILE_ROWS) {
        int rows = t->out_c - block < GS_TILE_ROWS ? t->out_c - block : GS_TILE_ROWS;
        for (int c = 0; c < t->in_c; c++)
            for (int r = 0; r < rows; r++, to++) {
                const float *kernel = w + (size_t)(block + r) * w_out + (size_t)c * w_in;
                float g[9], half[4 * 3], u[GS_WINOGRAD_PLACES];
                for (int i = 0; i < 9; i++) g[i] = kernel[turned ? 8 - i : i];
                for (int v = 0; v < 3; v++) by_g(half + v, 3, g[v], g[3 + v], g[6 + v]);
                for (int i = 0; i < 4; i++) by_g(u + 4 * i, 1, half[3 * i], half[3 * i + 1], half[3 * i + 2]);
                for (int i = 0; i < GS_WINOGRAD_PLACES; i++) to[(size_t)i * matrix] = u[i];
            }
    }
}

/* ---- v = B^T d B ---- */

/* One row of tiles from four rows of the padded plane. What is written after its last tile will be written again: by
 * the next row, or by the next image; or there is room for it. */
static void to_places(const gs_tiles *p, float *v, const float *d) {
    /* The compiler would read what p points to again after each store, which might have changed it. */
    const size_t pitch = p->pitch, matrix = p->v;
    const int columns = p->columns;
    for (int i = 0; i < columns; i += GS_VECTOR, d += 2 * GS_VECTOR, v += GS_VECTOR) {
        gs_vector column[4][4]; /* of the tiles: [row][column] */
        UNROLL for (int j = 0; j < 4; j += 2) {
            /* in each row, 2 GS_VECTOR neighbouring floats: columns j and j + 1 of the tiles in turn */
            gs_vector row[4][2];
            UNROLL for (int half = 0; half < 2; half++) {
                gs_vector in[4];
                UNROLL for (int r = 0; r < 4; r++) in[r] =
                    gs_load(d + (size_t)r * pitch + j + half * GS_VECTOR);
                row[0][half] = in[0] - in[2];
                row[1][half] = in[1] + in[2];
                row[2][half] = in[2] - in[1];
                row[3][half] = in[1] - in[3];
            }
            UNROLL for (int r = 0; r < 4; r++) {
                column[r][j] = gs_even(row[r][0], row[r][1]);
                column[r][j + 1] = gs_odd(row[r][0], row[r][1]);
            }
        }
        UNROLL for (int r = 0; r < 4; r++) {
            const gs_vector *in = column[r];
            float *to = v + (size_t)(4 * r) * matrix;
            gs_store(to, in[0] - in[2]);
            gs_store(to + matrix, in[1] + in[2]);
            gs_store(to + 2 * matrix, in[2] - in[1]);
            gs_store(to + 3 * matrix, in[1] - in[3]);
        }
    }
}

/* to[0..n-1] = from[0..n-1]: whole vectors, the last one laid over the one before. */
static inline void copy_row(float *to, const float *from, int n) {
    if (n < GS_VECTOR) {
        for (int i = 0; i < n; i++) to[i] = from[i];
        return;
    }
    for (int i = 0; i < n - GS_VECTOR; i += GS_VECTOR) gs_store(to + i, gs_load(from + i));
    gs_store(to + n - GS_VECTOR, gs_load(from + n - GS_VECTOR));
}

/* Rows first to first + rows - 1 of the tiles of an image. */
static void image_to_places(const gs_winograd *t, const gs_tiles *p, float *v, const float *x, int first,
                            int rows, float *padded) {
    for (int c = 0; c < t->in_c; c++, x += t->x_plane, v += p->row) {
        for (int r = 0; r < 2 * rows + 2; r++) {
            int h = 2 * first + r - t->pad_h;
            float *to = padded + (size_t)r * p->pitch + t->pad_w;
            if (h >= 0 && h < t->in_h)
                copy_row(to, x + (size_t)h * (size_t)t->in_w, t->in_w);
            else
                memset(to, 0, (size_t)t->in_w * sizeof *to);
        }
        for (int r = 0; r < rows; r++) to_places(p, v + r * p->columns, padded + (size_t)(2 * r) * p->pitch);
    }
}

/* ---- y = A^T m A ---- */

/* 2 GS_VECTOR floats; or, at the end of a plane, as many of them as are left of the row. */
static inline void store_outputs(float *y, const float *y_end, int left, gs_vector even, gs_vector odd) {
    gs_vector both[2] = {gs_low(even, odd), gs_high(even, odd)};
    if (y + 2 * GS_VECTOR <= y_end) {
        gs_store(y, both[0]);
        gs_store(y + GS_VECTOR, both[1]);
    } else
        memcpy(y, both, (size_t)(left < 2 * GS_VECTOR ? left : 2 * GS_VECTOR) * sizeof *y);
}

/* The same rows of one plane of y. The last vectors of a row reach into the next row: so they come first. */
static void plane_from_places(const gs_winograd *t, const gs_tiles *p, float *y, const float *m, int first,
                              int rows, float bias) {
    const size_t matrix = p->m;
    const int out_h = t->out_h, out_w = t->out_w, columns = p->columns,
              last = (columns - 1) / GS_VECTOR * GS_VECTOR;
    const float *end = y + (size_t)out_h * (size_t)out_w;
    const gs_vector_int always = (gs_vector_int){0} - !t->relu; /* all bits, or none */
    for (int r = 2 * first; r < 2 * (first + rows); r += 2, m += columns)
        for (int i = last; i >= 0; i -= GS_VECTOR) {
            gs_vector row[2][4];
            UNROLL for (int j = 0; j < 4; j++) {
                gs_vector in[4];
                UNROLL for (int k = 0; k < 4; k++) in[k] = gs_load(m + (size_t)(4 * k + j) * matrix + i);
                row[0][j] = in[0] + in[1] + in[2];
                row[1][j] = in[1] - in[2] - in[3];
            }
            UNROLL for (int k = 0; k < 2; k++) {
                gs_vector *in = row[k], even = in[0] + in[1] + in[2] + bias,
                          odd = in[1] - in[2] - in[3] + bias;
                even = gs_where(~(even < 0.0f) | always, even); /* relu; a NaN stays a NaN */
                odd = gs_where(~(odd < 0.0f) | always, odd);
                if (r + k < out_h) store_outputs(y + (r + k) * out_w + 2 * i, end, out_w - 2 * i, even, odd);
            }
        }
}

/* ---- all of it ---- */

/* The parts of the memory. */
typedef struct gs_places {
    size_t *at; /* where the rows of a matrix of v begin */
    float *padded, *v, *m;
} gs_places;

/* Some rows of tiles of an image, or all of them of some images. */
static void some_tiles(const gs_winograd *t, const gs_tiles *p, const gs_places *work, float *y,
                       const float *x, size_t x_image, int images, int first, int rows) {
    int tiles = rows * p->columns;
    size_t plane = (size_t)t->out_h * (size_t)t->out_w;
    for (int i = 0; i < images; i++)
        image_to_places(t, p, work->v + i * tiles, x + (size_t)i * x_image, first, rows, work->padded);

    gs_product product = {.depth = t->in_c, .columns = images * tiles, .at = work->at};
    for (int o = 0; o < t->out_c; o += BLOCK) {
        product.rows = t->out_c - o < BLOCK ? t->out_c - o : BLOCK;
        for (size_t place = 0; place < GS_WINOGRAD_PLACES; place++) {
            product.a = t->u + (place * (size_t)t->out_c + (size_t)o) * (size_t)t->in_c;
            GS_ISA(product)(&product, work->m + place * p->m, p->row, work->v + place * p->v);
        }
        for (int r = 0; r < product.rows; r++)
            for (int i = 0; i < images; i++)
                plane_from_places(t, p, y + ((size_t)i * (size_t)t->out_c + (size_t)(o + r)) * plane,
                                  work->m + (size_t)r * p->row + i * tiles, first, rows,
                                  t->bias ? t->bias[o + r] : 0);
    }
}

void GS_ISA(winograd)(const gs_winograd *t, float *y, const float *x, size_t x_image, size_t images,
                      float *memory) {
    gs_tiles p = tiles_of(t);
    gs_places work = {.at = (size_t *)(void *)memory, .padded = memory + table_floats(t)};
    work.v = work.padded + padded_floats(&p);
    work.m = work.v + GS_WINOGRAD_PLACES * p.v;
    for (size_t c = 0; c < (size_t)t->in_c; c++) work.at[c] = c * p.row;
    memset(work.padded, 0, padded_floats(&p) * sizeof *work.padded);

    size_t out = (size_t)t->out_c * (size_t)t->out_h * (size_t)t->out_w, some = (size_t)p.images;
    for (size_t i = 0; i < images; i += some)
        for (int first = 0; first < p.rows; first += p.band)
            some_tiles(t, &p, &work, y + i * out, x + i * x_image, x_image,
                       (int)(images - i < some ? images - i : some), first,
                       p.rows - first < p.band ? p.rows - first : p.band);
}
