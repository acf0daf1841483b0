/* The product of two matrices whose elements are rounded to 16 bits, with sums in 32 bits: C = A B.
 *
 * The matrices are stored as f32. They are rounded (round16.h) while they are copied into the order in which the
 * product will read them:
 *
 *               strip of b                 b is cut into blocks of DEPTH rows, these into strips as wide as a tile;
 *                | . x . |                 a block of a, into tiles of rows. A tile of c stays in registers while k
 *                | . x . |                 runs over the DEPTH; then it is added to c.
 *     a | . . |  | . . . |
 *       | x x |  | . T . |  c              A product of two numbers of 16 bits is exact in 32 bits: all that is lost is
 *                                          lost by rounding a and b, and in the sums, as with f32.
 *
 * bf16, on processors that have it, is one instruction for two products (product_bf16.c). Elsewhere, and for f16, the
 * rounded numbers are floats again, and matmul.h multiplies them: no faster than f32, but with the results of 16 bits.
 * The two differ in the last bits only, by the order in which products are added; and the instruction takes a sum below
 * 2^-126 for 0.
 *
 * c[i][j] is summed in an order that follows from the depth alone: it has the same bits wherever rows and columns are
 * cut, and for any number of threads. */
#pragma once

#include "cpu/product.h"

/* The elements of a matrix: in lines, each contiguous. In a `deep` matrix, line i of a is row i, and line j of b is
 * column j; else line k of a is column k, and line k of b is row k. This covers all transposed forms, and patches of
 * images (conv2d_rows.h). */
typedef struct gs_lines {
    const float *x;
    size_t line;      /* line l begins at x + l line, ... */
    const size_t *at; /* ... or, where this is not NULL, at x + at[l] */
    bool deep;        /* lines run along k */
} gs_lines;

/* c[i][j] = sum_k a[i][k] b[k][j] (+ bias[j]), or += that; with relu max(that, 0);  i < rows, k < depth, j < columns */
typedef struct gs_product16 {
    gs_precision precision; /* bf16 or f16 */
    bool instruction;       /* bf16 by the processor's own: gs_cpu_of(d)->bf16 */
    int rows, depth, columns;
    gs_lines a, b;
    float *c; /* c[i][j] = c[i c_row + j] */
    size_t c_row;
    const float *bias; /* columns of them, or NULL */
    bool add, relu;
} gs_product16;

/* Floats of memory for any depth. */
size_t GS_ISA(gs_cpu_product16_memory)(int rows, int columns);

void GS_ISA(gs_cpu_product16)(const gs_product16 *, float *memory);

/* Of a matrix, the lines or the part of the lines that begins at row or column `from` ... */
static inline gs_lines gs_lines_from(gs_lines m, size_t from) {
    if (!m.deep)
        m.x += from;
    else if (m.at)
        m.at += from;
    else
        m.x += from * m.line;
    return m;
}

/* ... and the part that begins at this k. */
static inline gs_lines gs_lines_deeper(gs_lines m, size_t k) {
    m.deep = !m.deep;
    m = gs_lines_from(m, k);
    m.deep = !m.deep;
    return m;
}

static inline const float *gs_line(const gs_lines *m, size_t line) {
    return m->x + (m->at ? m->at[line] : line * m->line);
}

/* ---- for product16.c: product_bf16.c, with the instruction. Pairs of bf16 take a float's place. ---- */

enum { GS_BF16_ROWS = 8, GS_BF16_VECTORS = 3, GS_BF16_STRIP = 16 * GS_BF16_VECTORS };

/* Of the lines' first `depth` elements in depth: to[k / 2][i] = the pair (k, k + 1) of row or column i, i < width,
 * for `count` of these in blocks `width` wide; a block has `block` floats. What is not there is 0. */
void gs_cpu_bf16_pack(float *to, const gs_lines *, int width, size_t block, int count, int depth);

/* One tile: c (+)= a b, of rows <= GS_BF16_ROWS and columns <= GS_BF16_STRIP, from two such blocks; that of b is as
 * wide as the columns are in whole vectors. */
void gs_cpu_bf16_tile(float *c, size_t c_row, const float *a, const float *b, int rows, int columns,
                      int pairs, bool add);
