/* 16-bit inputs of an operator. If the precision is not f32, factors of products and the data that forward leaves for
 * backward (backend.h) are in 16 bits: either forward stored them so (`half`: see gs_mem), or gs_cl_rounded copies them
 * to scratch memory, where they last until its next call. The kernels are the f32 ones, built for 16-bit memory
 * (stored.clh). */
#pragma once

#include "cl/cl.h"

/* The variant of cl/FILE.cl for the device's precision; FILE is a string literal. */
#define GS_CL_STORED(d, FILE)                                                                                \
    ((d)->precision == GS_PRECISION_F32    ? FILE                                                            \
     : (d)->precision == GS_PRECISION_BF16 ? "bf16/" FILE                                                    \
                                           : "f16/" FILE)

/* The variant for an operator whose y, or dx, is m: if m is stored in 16 bits, all activations are. */
#define GS_CL_FLOW(d, m, FILE) ((m).half ? GS_CL_ALL(d, FILE) : GS_CL_STORED(d, FILE))
/* The variant for an operator that reads and writes nothing but activations in 16 bits. */
#define GS_CL_AS(d, m, FILE) ((m).half ? GS_CL_ALL(d, FILE) : (FILE))
#define GS_CL_ALL(d, FILE) ((d)->precision == GS_PRECISION_BF16 ? "all_bf16/" FILE : "all_f16/" FILE)

typedef struct gs_cl_operand {
    gs_mem *place; /* replaced by the copy */
    size_t count;
    bool relu_y; /* a relu's y, of which only the sign is read: the copy preserves it (see narrow) */
} gs_cl_operand;

/* Replace operands that are not yet half with rounded copies. Skips GS_NONE, and does nothing in f32. */
gs_status gs_cl_rounded(gs_device *, int count, const gs_cl_operand *);

/* How many elements of each sample gs_cl_rounded would copy: none if m is half. */
static inline size_t gs_cl_copied(gs_mem m, size_t numbers) {
    return m.base && !m.half ? numbers : 0;
}

/* How many of n samples to process at once if `copied` elements of each are copied: as many as make about a megabyte of
 * copies (64 megabytes on a GPU), but at least `least`, and an even number, so that 16-bit samples start at a float
 * boundary. All n if nothing is copied, as in f32. */
size_t gs_cl_at_once(gs_device *, size_t n, size_t copied, size_t least);

/* The address of sample `first`, an even number; each sample has `numbers` elements. */
static inline gs_mem gs_cl_sample(gs_mem m, size_t first, size_t numbers) {
    return m.base ? gs_at_number(m, first * numbers) : m;
}

/* dx = dy where y > 0, else 0; y is a relu's output, stored as half. */
gs_status gs_cl_pass(gs_device *, gs_mem dx, gs_mem dy, gs_mem y, size_t count);
