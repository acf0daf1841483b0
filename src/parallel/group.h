/* The workers that divide the layers of a model among them (tensor.h), as one of them sees them. */
#pragma once

#include "device.h"
#include "operands.h"

typedef struct gs_tensor_group {
    int size, rank; /* size 0: nothing is divided; 1: this worker is alone */
    int leaves; /* sums that a group divides are cut into so many parts, however large it is; 0: it does not matter */
    bool outputs; /* a vocabulary is divided too: the loss can be computed from parts of the outputs */
    /* x[i] = the sum of all ranks' x[i]. Not asked where size is 1. */
    gs_status (*sum)(void *context, gs_device *, gs_mem x, size_t count);
    bool sequence; /* outside of pairs a rank has some tokens of each sequence (sequence.h); size > 1 */
    /* Then: whole (n, size, each) = the parts (n, each) of all ranks; and part = this rank's of the sum of all ranks'
     * whole, which is overwritten. */
    gs_status (*gather)(void *context, gs_device *, gs_mem whole, gs_mem part, size_t n, size_t each);
    gs_status (*reduce)(void *context, gs_device *, gs_mem part, gs_mem whole, size_t n, size_t each);
    void *context;
} gs_tensor_group;
