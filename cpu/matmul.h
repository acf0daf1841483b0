/* The product of two matrices, with a tile's sums in registers, for linear_small.c, linear_large.c and attention.c.
 *
 *              b  | . . | x x | . . |     a tile needs GS_TILE_VECTORS vectors of each row of b
 *                 | . . | x x | . . |
 *                 | . . | x x | . . |
 *
 *     a  | . . .|   | . . | . . | . . |
 *        | x x x|   | . . | T T | . . |   c: tile T, GS_TILE_ROWS rows of it, stays in registers
 *        | x x x|   | . . | T T | . . |      while k runs over the depth
 *        | . . .|   | . . | . . | . . |
 *
 * A library first copies both matrices into the order in which it will read them, which pays for large ones. A linear
 * layer with few samples uses each weight only a few times, so here the matrices are read in place (linear.h).
 *
 * c[i][j] is always summed in the order of k, so any division into tiles and threads gives the same bits. */
#pragma once

#include "cpu/product.h"

/* c[i][j] = sum_k a[i][k] b[k][j] (+ bias[j]), or += that, for i < rows, k < depth, j < columns. */
typedef struct gs_matmul {
    int rows, depth, columns;
    /* GS_TILE_ROWS rows form a block. Row r of block i starts at `at` + i block + r row; elements are `column`
     * apart. */
    struct {
        const float *at;
        size_t block, row, column;
    } a;
    struct {
        const float *at;
        size_t row;
    } b; /* b[k][j] = at[k row + j] */
    struct {
        float *at;
        size_t row;
    } c;               /* c[i][j] = at[i row + j] */
    const float *bias; /* `columns` elements, or NULL; if set, columns must be a multiple of GS_VECTOR */
    bool add;
    bool by_columns; /* b is too large for the cache: read it once, and a repeatedly */
    /* Memory to prefetch into the core's cache, line by line: rows of a that are a_ahead floats after each block
     * (a.column must be 1, and blocks have no gaps). If a_ahead is 0 and by_columns is set: the next columns of b and,
     * after the last ones, those at next_b (or NULL). Rows past the end of a are not fetched. */
    size_t a_ahead;
    const float *next_b;
    float *strip; /* GS_STRIP floats per k; unused if !by_columns and columns is a multiple of GS_VECTOR */
} gs_matmul;

enum { GS_STRIP = GS_TILE_VECTORS * GS_VECTOR, GS_LINE = 16 }; /* floats; GS_LINE: per cache line */

void GS_ISA(gs_cpu_matmul)(const gs_matmul *);

/* to[j to_row + i] = from[i from_row + j],  i < rows, j < columns */
void GS_ISA(gs_cpu_transpose)(float *to, size_t to_row, const float *from, size_t from_row, int rows,
                              int columns);
