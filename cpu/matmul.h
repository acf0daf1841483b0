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
 * A library first copies both matrices into the order in which it will read them, which pays off if they are large. A
 * linear layer with few samples uses each weight only a few times, so here the matrices are read in place (linear.h).
 *
 * The order of each sum is that of cpu/plain/linear.c: a chain of multiply-adds for each GS_BLOCK terms, and these are
 * added in order, then the bias. So any division into tiles and threads gives the same bits. */
#pragma once

#include "cpu/product.h"

/* c[i][j] = sum_k a[i][k] b[k][j] (+ bias[j]) for i < rows, k < depth, j < columns; with `add`, each block of terms is
 * added to c. */
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
    /* What to prefetch into the core's cache, line by line: the rows of a that lie a_ahead floats after each block
     * (a.column must be 1, and blocks must have no gaps) but not past the end of a; or, if a_ahead is 0 and by_columns
     * is set, the next columns of b and, after its last columns, those at next_b unless this is NULL. */
    size_t a_ahead;
    const float *next_b;
    float *
        strip; /* GS_STRIP floats per k < GS_BLOCK; unused if !by_columns and columns is a multiple of GS_VECTOR */
} gs_matmul;

/* GS_BLOCK: terms; the others are floats. GS_LINE: per cache line */
enum { GS_BLOCK = 256, GS_STRIP = GS_TILE_VECTORS * GS_VECTOR, GS_LINE = 16 };

void GS_ISA(gs_cpu_matmul)(const gs_matmul *);

/* to[j to_row + i] = from[i from_row + j],  i < rows, j < columns */
void GS_ISA(gs_cpu_transpose)(float *to, size_t to_row, const float *from, size_t from_row, int rows,
                              int columns);
