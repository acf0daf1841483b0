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

/* Copies in 16 bits of all that are not half yet, for kernels of products_bf16.cl or products_f16.cl. The precision is
 * not f32. */
gs_status gs_cl_halves(gs_device *, int count, const gs_cl_operand *);

/* The file of those kernels: `f32` where m is not half. */
const char *gs_cl_products_file(const gs_device *, gs_mem m, const char *f32);

/* dx = dy where y > 0, else 0, for the y of a relu that is half. */
gs_status gs_cl_pass(gs_device *, gs_mem dx, gs_mem dy, gs_mem y, size_t count);
