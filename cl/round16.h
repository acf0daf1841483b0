/* Inputs of an operator in 16 bits, or rounded to them. `half`: see gs_mem. Scratch memory holds them until the next
 * such call for this device. */
#pragma once

#include "cl/cl.h"

typedef struct gs_cl_operand {
    gs_mem *place; /* becomes that of the copy */
    size_t count;
    /* The y of a relu, of which only the signs are asked for: where it lies in 16 bits, the copy is 1 where dy passes,
     * else 0; f32 stay where they are. */
    bool relu_y;
} gs_cl_operand;

/* Rounded copies in f32, with which an operator computes as always. Nothing happens where the precision is f32, and to
 * GS_NONE. A place that is half was rounded before. */
gs_status gs_cl_rounded(gs_device *, int count, const gs_cl_operand *);

/* Of n samples with so many numbers that are copied, how many at once: as many as have about a megabyte of copies (on a
 * GPU 64), at least `least`, and an even number of them, so that those in 16 bits begin at a float. All of them in f32,
 * where nothing is copied. */
size_t gs_cl_at_once(gs_device *, size_t n, size_t numbers, size_t least);

/* The place of sample `first`, an even number, of so many numbers each. */
static inline gs_mem gs_cl_sample(gs_mem m, size_t first, size_t numbers) {
    return m.base ? gs_at(m, m.half ? first * numbers / 2 : first * numbers) : m;
}

/* Copies in 16 bits of all that are not half yet, for kernels of products_bf16.cl or products_f16.cl. The precision is
 * not f32. */
gs_status gs_cl_halves(gs_device *, int count, const gs_cl_operand *);

/* The file of those kernels: `f32` where m is not half. */
const char *gs_cl_products_file(const gs_device *, gs_mem m, const char *f32);

/* dx = dy where y > 0, else 0, for the y of a relu that is half. */
gs_status gs_cl_pass(gs_device *, gs_mem dx, gs_mem dy, gs_mem y, size_t count);
