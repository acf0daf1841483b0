/* The group of workers that divides the layers of a model (tensor.h), from the point of view of one of them. */
#pragma once

#include "device.h"
#include "operands.h"

typedef struct gs_tensor_group {
    int size, rank; /* size 0: nothing is divided; 1: this worker is alone */
    int leaves; /* each divided sum is cut into this many leaves, for any `size`; 0: it is added in any order */
    bool outputs; /* also divide a vocabulary: the loss can be computed from shards of the outputs */
    /* x[i] = the sum of all ranks' x[i]. Not called with size 1. */
    gs_status (*sum)(void *context, gs_device *, gs_mem x, size_t count);
    bool sequence; /* outside pairs each rank holds some tokens of each sequence (sequence.h); size > 1 */
    /* Only with `sequence`. gather: whole (n, size, each) = all ranks' parts (n, each). reduce: part = this rank's part
     * of the sum of all ranks' `whole`, which is overwritten. */
    gs_status (*gather)(void *context, gs_device *, gs_mem whole, gs_mem part, size_t n, size_t each);
    gs_status (*reduce)(void *context, gs_device *, gs_mem part, gs_mem whole, size_t n, size_t each);
    void *context;
} gs_tensor_group;
