/* The product of two matrices, with all sums of a tile in registers, for linear_small.c, linear_large.c and
 * attention.c.
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
 * A library first copies both matrices into the order in which it will read them. That pays for large ones. A linear
 * layer with few samples uses each weight only a few times, so here the matrices are read in place (linear.h).
 *
 * c[i][j] is always summed in the order of k, wherever tiles and threads are cut: the same bits for any cut. */
#pragma once

#include "cpu/product.h"

/* c[i][j] = sum_k a[i][k] b[k][j] (+ bias[j]), or += that,  i < rows, k < depth, j < columns. */
typedef struct gs_matmul {
    int rows, depth, columns;
    /* GS_TILE_ROWS rows form a block. Row r of block i starts at `at` + i block + r row; floats are column apart. */
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
    const float *bias; /* columns of them, or NULL; then columns are whole vectors */
    bool add;
    bool by_columns; /* b is too large for the cache: walk through it once, and through a again and again */
    /* What is fetched into the core's cache meanwhile, line by line: rows of a that are a_ahead floats after each block
     * (a.column is 1 then, and a block has no gaps). If that is 0, by_columns, the next columns of b, and after the
     * last ones those at next_b (or NULL). It may be past the end of a: then nothing is fetched. */
    size_t a_ahead;
    const float *next_b;
    float *strip; /* GS_STRIP floats for each k; may be NULL where b is not, and columns are whole vectors */
} gs_matmul;

enum { GS_STRIP = GS_TILE_VECTORS * GS_VECTOR, GS_LINE = 16 }; /* floats; GS_LINE: in a line of the cache */

void GS_ISA(gs_cpu_matmul)(const gs_matmul *);

/* to[j to_row + i] = from[i from_row + j],  i < rows, j < columns */
void GS_ISA(gs_cpu_transpose)(float *to, size_t to_row, const float *from, size_t from_row, int rows,
                              int columns);
