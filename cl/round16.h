/* Copies of an operator's inputs, rounded to the device's precision: with these it computes as always. */
#pragma once

#include "cl/cl.h"

typedef struct gs_cl_operand {
    gs_mem *place; /* becomes that of the copy */
    size_t count;
    /* The y of a relu, of which only the signs are asked for: where it lies in 16 bits, the copy is 1 where dy passes,
     * else 0; f32 stay where they are. */
    bool relu_y;
} gs_cl_operand;

/* Nothing happens where the precision is f32. A place that is `half` was rounded before. GS_NONE: nothing. The copies
 * stay until the next call for this device. */
gs_status gs_cl_rounded(gs_device *, int count, const gs_cl_operand *);
