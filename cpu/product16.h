/* The product of two matrices whose elements are rounded to 16 bits, with 32-bit sums: C = A B.
 *
 * The matrices are stored as f32. They are rounded (round16.h) while they are copied into the order in which the
 * product will read them:
 *
 *               strip of b                 b is cut into blocks of DEPTH rows, and these into strips as wide as a tile;
 *                | . x . |                 a block of a is cut into tiles of rows. A tile of c stays in registers while
 *                | . x . |                 k runs over the DEPTH; then it is added to c.
 *     a | . . |  | . . . |
 *       | x x |  | . T . |  c              A product of two 16-bit numbers is exact in 32 bits: the only errors are
 *                                          those of rounding a and b, and those of the sums, as with f32.
 *
 * Processors with bf16 support compute two products in one instruction (product_bf16.c). Elsewhere, and for f16, the
 * rounded numbers are converted back to floats, which matmul.h multiplies: no faster than f32, but with 16-bit results.
 * The two methods add products in a different order, so their last bits differ; and the instruction treats a sum below
 * 2^-126 as 0.
 *
 * c[i][j] is summed in an order that depends only on the depth: it is bitwise identical for any division of rows and
 * columns and any number of threads. */
#pragma once

#include "cpu/product.h"

/* A matrix's elements, in contiguous lines. In a `deep` matrix, line i of a is row i, and line j of b is column j;
 * otherwise line k of a is column k, and line k of b is row k. This covers all transposed forms, and patches of images
 * (conv2d_rows.h). */
typedef struct gs_lines {
    const float *x;
    size_t line;      /* line l starts at x + l line, ... */
    const size_t *at; /* ... or, if this is not NULL, at x + at[l] */
    bool deep;        /* lines run along k */
} gs_lines;

/* c[i][j] = sum_k a[i][k] b[k][j] (+ bias[j]), i < rows, k < depth, j < columns; `add`: +=; `relu`: then max(c, 0) */
typedef struct gs_product16 {
    gs_precision precision; /* bf16 or f16 */
    bool instruction;       /* bf16 with the processor's instruction: gs_cpu_of(d)->bf16 */
    int rows, depth, columns;
    gs_lines a, b;
    float *c; /* c[i][j] = c[i c_row + j] */
    size_t c_row;
    const float *bias; /* `columns` elements, or NULL */
    bool add, relu;
} gs_product16;

/* Floats of memory needed, for any depth. */
size_t GS_ISA(gs_cpu_product16_memory)(int rows, int columns);

void GS_ISA(gs_cpu_product16)(const gs_product16 *, float *memory);

/* The part of a matrix that starts at row or column `from`: some of its lines, or a part of each ... */
static inline gs_lines gs_lines_from(gs_lines m, size_t from) {
    if (!m.deep)
        m.x += from;
    else if (m.at)
        m.at += from;
    else
        m.x += from * m.line;
    return m;
}

/* ... and the part that starts at this k. */
static inline gs_lines gs_lines_deeper(gs_lines m, size_t k) {
    m.deep = !m.deep;
    m = gs_lines_from(m, k);
    m.deep = !m.deep;
    return m;
}

static inline const float *gs_line(const gs_lines *m, size_t line) {
    return m->x + (m->at ? m->at[line] : line * m->line);
}

/* ---- product_bf16.c, which does product16.c's work with the instruction. A pair of bf16 occupies one float. ---- */

enum { GS_BF16_ROWS = 8, GS_BF16_VECTORS = 3, GS_BF16_STRIP = 16 * GS_BF16_VECTORS };

/* Pack the first `depth` elements along k of `count` rows or columns, in blocks of `width` rows or columns, which take
 * `block` floats each: in a block, to[k / 2][i] is the pair (k, k + 1) of row or column i. Missing elements are 0. */
void gs_cpu_bf16_pack(float *to, const gs_lines *, int width, size_t block, int count, int depth);

/* One tile: c (+)= a b, with rows <= GS_BF16_ROWS and columns <= GS_BF16_STRIP, from two such blocks; b's block is as
 * wide as the columns rounded up to whole vectors. */
void gs_cpu_bf16_tile(float *c, size_t c_row, const float *a, const float *b, int rows, int columns,
                      int pairs, bool add);
