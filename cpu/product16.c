#include "cpu/product16.h"

#include "cpu/matmul.h"
#include "cpu/round16.h"

/* Block sizes. A strip of b's block (DEPTH, COLUMNS) stays in the L1 cache while it is multiplied by all of a's block
 * (BLOCK_ROWS, DEPTH); a's block and the strip stay in the L2 cache. */
enum { DEPTH = 256, BLOCK_ROWS = 256, COLUMNS = 1536 };

/* Sizes in floats; a pair of bf16 counts as one float. */
typedef struct line_layout {
    int tile_rows, strip, vector;
    size_t depth; /* floats per row or column of a block */
} line_layout;

static line_layout layout_of(bool instruction) {
    return instruction ? (line_layout){GS_BF16_ROWS, GS_BF16_STRIP, 16, DEPTH / 2}
                       : (line_layout){GS_TILE_ROWS, GS_STRIP, GS_VECTOR, DEPTH};
}

static int least(int a, int b) {
    return a < b ? a : b;
}

static size_t up(size_t n, size_t to) {
    return (n + to - 1) / to * to;
}

/* Floats of a block of a; floats_of_b: of a block of b. The memory also holds rounded lines, or matmul's strip. */
static size_t floats_of_a(int rows) {
    return up((size_t)least(rows, BLOCK_ROWS), 16) * DEPTH;
}

static size_t floats_of_b(int columns) {
    return up((size_t)least(columns, COLUMNS), GS_BF16_STRIP) * DEPTH; /* whole strips for either method */
}

size_t GS_ISA(gs_cpu_product16_memory)(int rows, int columns) {
    return floats_of_a(rows) + floats_of_b(columns) + GS_STRIP * DEPTH;
}

/* Like gs_cpu_bf16_pack, but to[k][i] is a rounded float. `spare`: `width` lines of `depth` floats. */
static void pack_floats(float *to, const gs_product16 *t, const gs_lines *m, int width, size_t block,
                        int count, int depth, float *spare) {
    for (int i = 0; i < count; i += width, to += block) {
        const int here = least(width, count - i);
        for (int k = 0; k < depth && !m->deep; k++)
            gs_round16(t->precision, to + k * width, gs_line(m, (size_t)k) + i, (size_t)here);
        for (int r = 0; r < here && m->deep; r++)
            gs_round16(t->precision, spare + r * depth, gs_line(m, (size_t)i + (size_t)r), (size_t)depth);
        if (m->deep) GS_ISA(gs_cpu_transpose)(to, (size_t)width, spare, (size_t)depth, here, depth);
    }
}

/* Pack blocks of `width` in order; b's last block may be narrower (strip_width). */
static void pack(float *to, const gs_product16 *t, const gs_lines *m, int width, int count, int depth,
                 float *spare) {
    const size_t block = (size_t)width * layout_of(t->instruction).depth;
    if (t->instruction)
        gs_cpu_bf16_pack(to, m, width, block, count, depth);
    else
        pack_floats(to, t, m, width, block, count, depth, spare);
}

/* The steps after the last sum: bias and relu. */
static void finish_block(const gs_product16 *t, float *c, const float *bias, int rows, int columns) {
    for (int i = 0; i < rows && (bias || t->relu); i++, c += t->c_row) {
        for (int j = 0; j < columns && bias; j++) c[j] += bias[j];
        for (int j = 0; j < columns && t->relu; j++) c[j] = c[j] < 0.0f ? 0.0f : c[j]; /* a NaN stays a NaN */
    }
}

/* Multiply a block of a by a strip of b, which has `columns` columns and is `width` wide in memory. */
static void multiply(const gs_product16 *t, float *c, const float *a, const float *b, int rows, int columns,
                     int width, int depth, bool add, float *spare) {
    const line_layout l = layout_of(t->instruction);
    const size_t a_block = (size_t)l.tile_rows * l.depth;
    if (!t->instruction) {
        GS_ISA(gs_cpu_matmul)
        (&(gs_matmul){.rows = rows,
                      .depth = depth,
                      .columns = columns,
                      .a = {a, a_block, 1, GS_TILE_ROWS},
                      .b = {b, (size_t)width},
                      .c = {c, t->c_row},
                      .add = add,
                      .strip = spare});
        return;
    }
    for (int i = 0; i < rows; i += GS_BF16_ROWS, a += a_block)
        gs_cpu_bf16_tile(c + (size_t)i * t->c_row, t->c_row, a, b, least(GS_BF16_ROWS, rows - i), columns,
                         (depth + 1) / 2, add);
}

static void block_of_columns(const gs_product16 *t, int column, int columns, int k, float *memory) {
    const line_layout l = layout_of(t->instruction);
    const int depth = least(DEPTH, t->depth - k), strip = l.strip;
    float *packed_a = memory, *packed_b = packed_a + floats_of_a(t->rows),
          *spare = packed_b + floats_of_b(t->columns);
    const gs_lines b = gs_lines_deeper(gs_lines_from(t->b, (size_t)column), (size_t)k);
    /* all whole strips, then the last one, as wide as its columns rounded up to whole vectors */
    const int whole = columns / strip * strip, left = columns - whole,
              width = (int)up((size_t)left, (size_t)l.vector);
    const size_t block = (size_t)strip * l.depth;
    pack(packed_b, t, &b, strip, whole, depth, spare);
    const gs_lines last = gs_lines_from(b, (size_t)whole);
    if (left > 0) pack(packed_b + (size_t)(whole / strip) * block, t, &last, width, left, depth, spare);
    for (int i = 0; i < t->rows; i += BLOCK_ROWS) {
        const int rows = least(BLOCK_ROWS, t->rows - i);
        const gs_lines a = gs_lines_deeper(gs_lines_from(t->a, (size_t)i), (size_t)k);
        float *c = t->c + (size_t)i * t->c_row + column;
        pack(packed_a, t, &a, l.tile_rows, rows, depth, spare);
        for (int j = 0; j < columns; j += strip)
            multiply(t, c + j, packed_a, packed_b + (size_t)(j / strip) * block, rows,
                     least(strip, columns - j), j < whole ? strip : width, depth, t->add || k > 0, spare);
        if (k + depth == t->depth) finish_block(t, c, t->bias ? t->bias + column : NULL, rows, columns);
    }
}

void GS_ISA(gs_cpu_product16)(const gs_product16 *t, float *memory) {
    for (int j = 0; j < t->columns; j += COLUMNS)
        for (int k = 0; k < t->depth; k += DEPTH)
            block_of_columns(t, j, least(COLUMNS, t->columns - j), k, memory);
}
