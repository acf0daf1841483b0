#include "cpu/winograd.h"

/* The lanes of a vector are neighbouring tiles: 2 apart in x and y, adjacent in v and m. v is 16 matrices (in_c, tiles)
 * and m 16 matrices (BLOCK, tiles), for the channels of y that are computed together.
 *
 * If a row of tiles fills at most half or a quarter of a vector, the vector holds 2 or 4 rows, taken in order from all
 * images that are computed together: each row has its own lanes, some of which may be idle. */
typedef struct tile_grid {
    int rows, columns; /* tiles in an image, down and across */
    int share, lanes;  /* rows of tiles that share a vector: 1, 2 or 4; lanes from one row to the next */
    int band, images;  /* processed at a time: `band` rows of one image, or all rows of `images` images */
    size_t pitch;      /* row length of the plane that tiles are read from: x padded with zeros */
    size_t row;        /* distance between rows (channels) of v or m, in floats */
    size_t v, m;       /* distance between two of the 16 matrices, in floats */
} tile_grid;

/* About this many floats of v fit in a core's L2 cache, together with m. */
enum { CACHED_FLOATS = 104 << 10, BLOCK = 2 * GS_TILE_ROWS };

/* Use at least this many vectors of tiles, if there are enough images: with fewer, reading u does not pay. */
enum { LEAST_VECTORS = 6 };

enum { CACHE_LINE = 16 /* floats */ };

/* A small m: for GS_TILE_ROWS channels and GS_TILE_VECTORS vectors. */
enum { NEAR_ROW = GS_TILE_VECTORS * GS_VECTOR, NEAR_MATRIX = GS_TILE_ROWS * NEAR_ROW };

/* Keeps the same position in all 16 matrices from mapping to the same L1 cache set. */
static size_t matrix_floats(size_t floats) {
    enum { CACHE_SETS = 1024 };
    return floats / CACHE_SETS * CACHE_SETS + CACHE_SETS + GS_VECTOR;
}

static tile_grid tiles_of(const gs_winograd *t) {
    tile_grid p = {.rows = (t->s.out_h + 1) / 2, .columns = (t->s.out_w + 1) / 2};
    p.share = gs_winograd_share(p.columns, GS_VECTOR);
    p.lanes = p.share > 1 ? GS_VECTOR / p.share : p.columns;
    int most = CACHED_FLOATS / GS_WINOGRAD_PLACES / t->s.in_c, tiles = p.rows * p.lanes;
    if (p.share > 1) {
        if (most < LEAST_VECTORS * GS_VECTOR) most = LEAST_VECTORS * GS_VECTOR;
        p.images = most > tiles ? most / tiles : 1;
        p.band = p.rows;
        p.pitch = 2 * GS_VECTOR;
    } else {
        p.images = most > tiles ? most / tiles : 1;
        p.band = most > tiles ? p.rows : most > p.columns ? most / p.columns : 1;
        p.pitch = 2 * gs_round_up((size_t)p.columns) + GS_VECTOR;
    }
    p.row = gs_round_up((size_t)p.images * (size_t)p.band * (size_t)p.lanes) + GS_VECTOR;
    p.v = matrix_floats((size_t)t->s.in_c * p.row);
    p.m = matrix_floats(BLOCK * p.row);
    return p;
}

static size_t table_floats(const gs_winograd *t) {
    return gs_round_up((size_t)t->s.in_c * sizeof(size_t) / sizeof(float));
}

/* Floats of a padded image's rows that `band` rows of tiles read; padded_floats: of all images that share vectors. */
static size_t padded_image(const tile_grid *p) {
    return (size_t)(2 * p->band + 2) * p->pitch;
}

static size_t padded_floats(const tile_grid *p) {
    return padded_image(p) * (size_t)(p->share > 1 ? p->images : 1) + GS_VECTOR;
}

size_t GS_ISA(gs_cpu_winograd_memory)(const gs_winograd *t) {
    tile_grid p = tiles_of(t);
    return table_floats(t) + padded_floats(&p) + GS_WINOGRAD_PLACES * (p.v + p.m);
}

/* ---- v = B^T d B ---- */

/* Half of the inputs that a vector of tiles reads in one row: columns j and j + 1 of each tile, alternating. d[k] is
 * the start of the k-th row of tiles among those that share the vector. */
ALWAYS_INLINE gs_vector half_row(const float *const *d, int half, size_t at, const int share) {
    if (share == 1) return gs_load(d[0] + half * GS_VECTOR + at);
    if (share == 2) return gs_load(d[half] + at);
    return gs_halves(gs_load(d[2 * half] + at), gs_load(d[2 * half + 1] + at));
}

/* Transform one vector of tiles. */
ALWAYS_INLINE void tiles_to_places(float *v, const float *const *d, size_t pitch, size_t matrix,
                                   const int share) {
    gs_vector column[4][4]; /* of the tiles: [row][column] */
    UNROLL for (int j = 0; j < 4; j += 2) {
        gs_vector row[4][2];
        UNROLL for (int half = 0; half < 2; half++) {
            gs_vector in[4];
            UNROLL for (int r = 0; r < 4; r++) in[r] =
                half_row(d, half, (size_t)r * pitch + (size_t)j, share);
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

/* Transform one row of tiles, from four rows of the padded plane. What is written past the last tile is overwritten by
 * the next row or image, or there is room for it. */
static void to_places(const tile_grid *p, float *v, const float *d) {
    /* Copies, because the compiler would reload p's members after each store, which might have changed them. */
    const size_t pitch = p->pitch, matrix = p->v;
    const int columns = p->columns;
    for (int i = 0; i < columns; i += GS_VECTOR, d += 2 * GS_VECTOR, v += GS_VECTOR)
        tiles_to_places(v, &d, pitch, matrix, 1);
}

/* All rows of tiles of some padded planes, `share` to a vector. In the last vector, idle lanes repeat the last row. */
ALWAYS_INLINE void shared_to_places(const tile_grid *p, float *v, const float *padded, int images,
                                    const int share) {
    const size_t pitch = p->pitch, matrix = p->v, image = padded_image(p);
    const int rows = p->rows, count = images * rows;
    const float *next = padded;
    for (int i = 0, row = 0; i < count; i += share, v += GS_VECTOR) {
        const float *d[4];
        UNROLL for (int k = 0; k < share; k++) {
            d[k] = next;
            if (i + k + 1 >= count) continue;
            next += 2 * pitch;
            if (++row < rows) continue;
            row = 0;
            next = padded += image;
        }
        tiles_to_places(v, d, pitch, matrix, share);
    }
}

/* to[i] = from[i], i < n: whole vectors, the last of which overlaps the one before it. */
static inline void copy_row(float *to, const float *from, int n) {
    if (n == GS_VECTOR / 2) {
        memcpy(to, from, GS_VECTOR / 2 * sizeof *to);
        return;
    }
    if (n < GS_VECTOR) {
        for (int i = 0; i < n; i++) to[i] = from[i];
        return;
    }
    for (int i = 0; i < n - GS_VECTOR; i += GS_VECTOR) gs_store(to + i, gs_load(from + i));
    gs_store(to + n - GS_VECTOR, gs_load(from + n - GS_VECTOR));
}

/* Copy the part of a plane of x that rows first .. first + rows - 1 of its tiles read, and pad it with zeros. Also
 * prefetches a plane that is needed soon. */
static void pad_plane(const gs_winograd *t, const tile_grid *p, float *padded, const float *x, int first,
                      int rows) {
    for (int r = 0; r < 2 * rows + 2; r++) {
        int h = 2 * first + r - t->s.pad_h;
        float *to = padded + (size_t)r * p->pitch + t->s.pad_w;
        if (h >= 0 && h < t->s.in_h) {
            const float *from = x + (size_t)h * (size_t)t->s.in_w;
            for (int w = 0; w < t->s.in_w; w += CACHE_LINE) __builtin_prefetch(from + 2 * t->x_plane + w);
            copy_row(to, from, t->s.in_w);
        } else
            memset(to, 0, (size_t)t->s.in_w * sizeof *to);
    }
}

/* Transform rows first .. first + rows - 1 of an image's tiles. */
static void image_to_places(const gs_winograd *t, const tile_grid *p, float *v, const float *x, int first,
                            int rows, float *padded) {
    for (int c = 0; c < t->s.in_c; c++, x += t->x_plane, v += p->row) {
        pad_plane(t, p, padded, x, first, rows);
        for (int r = 0; r < rows; r++) to_places(p, v + r * p->columns, padded + (size_t)(2 * r) * p->pitch);
    }
}

/* Transform all tiles of some images whose rows share vectors. */
static void images_to_places(const gs_winograd *t, const tile_grid *p, float *v, const float *x,
                             size_t x_image, int images, float *padded) {
    for (int c = 0; c < t->s.in_c; c++, x += t->x_plane, v += p->row) {
        for (int i = 0; i < images; i++)
            pad_plane(t, p, padded + (size_t)i * padded_image(p), x + (size_t)i * x_image, 0, p->rows);
        if (p->share == 2)
            shared_to_places(p, v, padded, images, 2);
        else
            shared_to_places(p, v, padded, images, 4);
    }
}

/* ---- y = A^T m A ---- */

/* Store 2 GS_VECTOR floats or, at the end of a plane, only those that are left in the row. */
static inline void store_outputs(float *y, const float *y_end, int left, gs_vector even, gs_vector odd) {
    gs_vector both[2] = {gs_low(even, odd), gs_high(even, odd)};
    if (y + 2 * GS_VECTOR <= y_end) {
        gs_store(y, both[0]);
        gs_store(y + GS_VECTOR, both[1]);
    } else
        memcpy(y, both, (size_t)(left < 2 * GS_VECTOR ? left : 2 * GS_VECTOR) * sizeof *y);
}

/* From the 16 values per tile of a vector of tiles, compute the even and odd columns of the tiles' two output rows. */
ALWAYS_INLINE void tiles_from_places(gs_vector out[2][2], const float *m, size_t matrix, float bias,
                                     gs_vector_int always) {
    gs_vector row[2][4];
    UNROLL for (int j = 0; j < 4; j++) {
        gs_vector in[4];
        UNROLL for (int k = 0; k < 4; k++) in[k] = gs_load(m + (size_t)(4 * k + j) * matrix);
        row[0][j] = in[0] + in[1] + in[2];
        row[1][j] = in[1] - in[2] - in[3];
    }
    UNROLL for (int k = 0; k < 2; k++) {
        gs_vector *in = row[k], even = in[0] + in[1] + in[2] + bias, odd = in[1] - in[2] - in[3] + bias;
        out[k][0] = gs_where(~(even < 0.0f) | always, even); /* relu; a NaN stays a NaN */
        out[k][1] = gs_where(~(odd < 0.0f) | always, odd);
    }
}

/* A mask of all ones, or of zeros if there is a relu. */
static inline gs_vector_int always_of(const gs_winograd *t) {
    return (gs_vector_int){0} - !t->relu;
}

/* Compute one plane of y from rows first .. first + rows - 1 of tiles. A row's last vectors are stored first: they
 * extend into the next row. */
static void plane_from_places(const gs_winograd *t, const tile_grid *p, float *y, const float *m, int first,
                              int rows, float bias) {
    const size_t matrix = p->m;
    const int out_h = t->s.out_h, out_w = t->s.out_w, columns = p->columns,
              last = (columns - 1) / GS_VECTOR * GS_VECTOR;
    const float *end = y + (size_t)out_h * (size_t)out_w;
    const gs_vector_int always = always_of(t);
    for (int r = 2 * first; r < 2 * (first + rows); r += 2, m += columns)
        for (int i = last; i >= 0; i -= GS_VECTOR) {
            gs_vector out[2][2];
            tiles_from_places(out, m + i, matrix, bias, always);
            UNROLL for (int k = 0; k < 2; k++) if (r + k < out_h)
                store_outputs(y + (r + k) * out_w + 2 * i, end, out_w - 2 * i, out[k][0], out[k][1]);
        }
}

/* ---- the whole convolution ---- */

/* The parts of the scratch memory. */
typedef struct memory_parts {
    size_t *at; /* where the rows of a matrix of v start */
    float *padded, *v, *m;
} memory_parts;

/* Compute all channels of y for the tiles in v, BLOCK at a time: first their products with all tiles, then y. */
static void outputs_by_channels(const gs_winograd *t, const tile_grid *p, const memory_parts *work, float *y,
                                int images, int first, int rows) {
    int tiles = rows * p->columns;
    size_t plane = (size_t)t->s.out_h * (size_t)t->s.out_w, y_image = (size_t)t->s.out_c * plane;
    gs_product product = {.depth = t->s.in_c, .columns = images * tiles, .at = work->at};
    for (int o = 0; o < t->s.out_c; o += BLOCK) {
        product.rows = t->s.out_c - o < BLOCK ? t->s.out_c - o : BLOCK;
        for (size_t place = 0; place < GS_WINOGRAD_PLACES; place++) {
            product.a = t->u + (place * (size_t)t->s.out_c + (size_t)o) * (size_t)t->s.in_c;
            GS_ISA(gs_cpu_product)(&product, work->m + place * p->m, p->row, work->v + place * p->v);
        }
        for (int r = 0; r < product.rows; r++)
            for (int i = 0; i < images; i++)
                plane_from_places(t, p, y + (size_t)i * y_image + (size_t)(o + r) * plane,
                                  work->m + (size_t)r * p->row + i * tiles, first, rows,
                                  t->bias ? t->bias[o + r] : 0);
    }
}

/* Where one row of a vector's tiles goes: `rows` rows of outputs, at y[at] in each channel; planes end at y[end]. */
typedef struct row_outputs {
    size_t at, end;
    int rows;
} row_outputs;

/* One channel's outputs for one vector of tiles. A row's store may extend into the next row, which is stored later, but
 * not past the plane's end. */
ALWAYS_INLINE void vector_outputs(const gs_winograd *t, float *y, const row_outputs *where, const float *m,
                                  float bias, gs_vector_int always, const int share) {
    const size_t out_w = (size_t)t->s.out_w, width = (size_t)(2 * GS_VECTOR / share);
    gs_vector out[2][2];
    float line[2][2 * GS_VECTOR];
    tiles_from_places(out, m, NEAR_MATRIX, bias, always);
    UNROLL for (int k = 0; k < 2; k++) {
        gs_store(line[k], gs_low(out[k][0], out[k][1]));
        gs_store(line[k] + GS_VECTOR, gs_high(out[k][0], out[k][1]));
    }
    UNROLL for (int s = 0; s < share; s++) {
        UNROLL for (int k = 0; k < 2; k++) {
            size_t at = where[s].at + (size_t)k * out_w;
            if (k >= where[s].rows) continue;
            if (at + width <= where[s].end)
                memcpy(y + at, line[k] + (size_t)s * width, width * sizeof *y);
            else
                memcpy(y + at, line[k] + (size_t)s * width, out_w * sizeof *y);
        }
    }
}

/* Like outputs_by_channels, but a few vectors of tiles at a time, so that m stays in the L1 cache. Each row of a
 * vector's tiles has its own position in y. */
ALWAYS_INLINE void outputs_by_tiles(const gs_winograd *t, const tile_grid *p, const memory_parts *work,
                                    float *y, int images, int first, int rows, const int share) {
    const size_t plane = (size_t)t->s.out_h * (size_t)t->s.out_w, y_image = (size_t)t->s.out_c * plane;
    const gs_vector_int always = always_of(t);
    int vectors = (int)(gs_round_up((size_t)images * (size_t)rows * (size_t)p->lanes) / GS_VECTOR), image = 0,
        row = 0, column = 0;
    gs_product product = {.depth = t->s.in_c, .at = work->at};
    for (int v = 0, some; v < vectors; v += some) {
        int left = vectors - v;
        some = left == 4 ? 2 : left < GS_TILE_VECTORS ? left : GS_TILE_VECTORS; /* 4: 2 + 2, not 3 + 1 */
        row_outputs where[GS_TILE_VECTORS * 4];
        for (int i = 0; i < some * share; i++) {
            const int r = 2 * (first + row), left = image < images ? t->s.out_h - r : 0; /* 0: idle lanes */
            where[i] =
                (row_outputs){.at = (size_t)image * y_image + (size_t)r * (size_t)t->s.out_w + (size_t)column,
                              .end = (size_t)image * y_image + plane,
                              .rows = left < 2 ? left : 2};
            if (share == 1 && (column += 2 * GS_VECTOR) < t->s.out_w) continue;
            column = 0;
            if (++row == rows) row = 0, image++;
        }
        product.columns = some * GS_VECTOR;
        for (int o = 0; o < t->s.out_c; o += GS_TILE_ROWS) {
            product.rows = t->s.out_c - o < GS_TILE_ROWS ? t->s.out_c - o : GS_TILE_ROWS;
            for (int r = 0; r < product.rows; r++)
                for (int i = 0; i < some * share; i++)
                    for (size_t k = 0; k < 2 * (size_t)t->s.out_w; k += CACHE_LINE)
                        __builtin_prefetch(y + (size_t)(o + r) * plane + where[i].at + k, 1, 2);
            for (size_t place = 0; place < GS_WINOGRAD_PLACES; place++) {
                product.a = t->u + (place * (size_t)t->s.out_c + (size_t)o) * (size_t)t->s.in_c;
                GS_ISA(gs_cpu_product)
                (&product, work->m + place * NEAR_MATRIX, NEAR_ROW,
                 work->v + place * p->v + (size_t)v * GS_VECTOR);
            }
            for (int r = 0; r < product.rows; r++)
                for (int i = 0; i < some; i++)
                    vector_outputs(t, y + (size_t)(o + r) * plane, where + i * share,
                                   work->m + (size_t)r * NEAR_ROW + (size_t)i * GS_VECTOR,
                                   t->bias ? t->bias[o + r] : 0, always, share);
        }
    }
}

/* Compute y for some rows of an image's tiles, or for all tiles of some images. */
static void some_tiles(const gs_winograd *t, const tile_grid *p, const memory_parts *work, float *y,
                       const float *x, size_t x_image, int images, int first, int rows) {
    int tiles = rows * p->columns;
    if (p->share > 1) images_to_places(t, p, work->v, x, x_image, images, work->padded);
    for (int i = 0; i < images && p->share == 1; i++)
        image_to_places(t, p, work->v + i * tiles, x + (size_t)i * x_image, first, rows, work->padded);
    if (p->share == 4)
        outputs_by_tiles(t, p, work, y, images, first, rows, 4);
    else if (p->share == 2)
        outputs_by_tiles(t, p, work, y, images, first, rows, 2);
    else if (t->s.out_w % (2 * GS_VECTOR) == 0)
        outputs_by_tiles(t, p, work, y, images, first, rows, 1);
    else
        outputs_by_channels(t, p, work, y, images, first, rows);
}

void GS_ISA(gs_cpu_winograd)(const gs_winograd *t, float *y, const float *x, size_t x_image, size_t images,
                             float *memory) {
    tile_grid p = tiles_of(t);
    memory_parts work = {.at = (size_t *)(void *)memory, .padded = memory + table_floats(t)};
    work.v = work.padded + padded_floats(&p);
    work.m = work.v + GS_WINOGRAD_PLACES * p.v;
    for (size_t c = 0; c < (size_t)t->s.in_c; c++) work.at[c] = c * p.row;
    memset(work.padded, 0, padded_floats(&p) * sizeof *work.padded);

    size_t out = (size_t)t->s.out_c * (size_t)t->s.out_h * (size_t)t->s.out_w, some = (size_t)p.images;
    for (size_t i = 0; i < images; i += some)
        for (int first = 0; first < p.rows; first += p.band)
            some_tiles(t, &p, &work, y + i * out, x + i * x_image, x_image,
                       (int)(images - i < some ? images - i : some), first,
                       p.rows - first < p.band ? p.rows - first : p.band);
}
