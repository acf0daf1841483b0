/* The products of conv2d_groups.c on the planes of one image, in whichever of three ways wastes least. */
#pragma once

#include "cpu/product.h"

/* In vectors, the last of which is laid over the one before; where that does not fit, in smaller ones. */
static inline void gs_copy_row(float *to, const float *from, size_t count) {
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

/* `height` rows of `width` numbers y, of `rows` planes each: what a gs_product says of windows on planes of x, whose
 * rows begin grid_w apart. */
typedef struct gs_windows {
    gs_product product; /* without columns */
    int height, width;
    float *y;
    size_t row, plane; /* floats from row to row of y, from plane to plane */
    size_t grid_w,
        wide; /* from row to row of x; from plane to plane of scratch memory for `rows` planes like x's */
} gs_windows;

/* Of one plane from few: the sums of up to four rows of a vector in registers. */
ALWAYS_INLINE void gs_windows_rows(const gs_product *p, const int rows, gs_vector *sum, const float *x,
                                   size_t grid_w) {
    const gs_vector bias = (gs_vector){0} + (p->bias ? p->bias[0] : 0.0f);
    UNROLL for (int i = 0; i < rows; i++) sum[i] = bias;
    for (int k = 0; k < p->depth; k++) {
        const float *from = x + p->at[k];
        UNROLL for (int i = 0; i < rows; i++) sum[i] += p->a[k] * gs_load(from + (size_t)i * grid_w);
    }
}

static inline void gs_windows_one_plane(const gs_windows *w, const float *x) {
    enum { ROWS = 4 };
    const size_t width = (size_t)w->width, grid_w = w->grid_w;
    for (size_t s = 0; s < width; s += GS_VECTOR) {
        /* the last vector of a row is laid over the one before */
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
                    gs_copy_row(y, (const float *)&sum[i], width);
            }
        }
    }
}

/* Row by row, where that wastes less than all rows at once with what lies between them, which go to `wide` first. */
static inline void gs_windows_product(gs_windows *w, const float *x, float *wide) {
    gs_product *p = &w->product;
    const size_t grid_w = w->grid_w, width = (size_t)w->width, height = (size_t)w->height;
    if (p->rows == 1 && p->depth <= 64) {
        gs_windows_one_plane(w, x);
        return;
    }
    if (gs_round_up(width) <= grid_w) {
        p->columns = w->width;
        for (size_t r = 0; r < height; r++) GS_ISA(product)(p, w->y + r * w->row, w->plane, x + r * grid_w);
        return;
    }
    p->columns = (int)((height - 1) * grid_w + width);
    GS_ISA(product)(p, wide, w->wide, x);
    for (size_t i = 0; i < (size_t)p->rows; i++)
        for (size_t r = 0; r < height; r++)
            gs_copy_row(w->y + i * w->plane + r * w->row, wide + i * w->wide + r * grid_w, width);
}
