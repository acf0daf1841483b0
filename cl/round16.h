/* Inputs of an operator in 16 bits. If the precision is not f32, everything that is multiplied is stored so, and what
 * backward reads of forward (backend.h): by forward itself (`half`: see gs_mem), or as a copy in scratch memory until
 * the next such call for this device. The kernels are those for f32, built for other memory (stored.clh). */
#pragma once

#include "cl/cl.h"

/* The variant of cl/FILE.cl for the device's precision; FILE is a literal. */
#define GS_CL_STORED(d, FILE)                                                                                \
    ((d)->precision == GS_PRECISION_F32    ? FILE                                                            \
     : (d)->precision == GS_PRECISION_BF16 ? "bf16/" FILE                                                    \
                                           : "f16/" FILE)

/* The same for an operator whose y, or dx, is m: if m is stored in 16 bits, all activations are. */
#define GS_CL_FLOW(d, m, FILE) ((m).half ? GS_CL_ALL(d, FILE) : GS_CL_STORED(d, FILE))
/* The same for an operator that stores nothing else. */
#define GS_CL_AS(d, m, FILE) ((m).half ? GS_CL_ALL(d, FILE) : (FILE))
#define GS_CL_ALL(d, FILE) ((d)->precision == GS_PRECISION_BF16 ? "all_bf16/" FILE : "all_f16/" FILE)

typedef struct gs_cl_operand {
    gs_mem *place; /* becomes that of the copy */
    size_t count;
    bool relu_y; /* a relu's y, read only for its signs: a copy keeps them as narrow does */
} gs_cl_operand;

/* Replace operands that are not half yet by rounded copies. GS_NONE is skipped; with f32 nothing happens. */
gs_status gs_cl_rounded(gs_device *, int count, const gs_cl_operand *);

/* Numbers of each sample that gs_cl_rounded would copy: those of m, unless m is half. */
static inline size_t gs_cl_copied(gs_mem m, size_t numbers) {
    return m.base && !m.half ? numbers : 0;
}

/* How many of n samples to process at once, if `copied` numbers of each are copied: those with about a megabyte of
 * copies (64 on a GPU), at least `least`, and an even number, so that those in 16 bits begin at a float. All, if
 * nothing is copied, as in f32. */
size_t gs_cl_at_once(gs_device *, size_t n, size_t copied, size_t least);

/* Sample `first`, an even number; each sample has `numbers` numbers. */
static inline gs_mem gs_cl_sample(gs_mem m, size_t first, size_t numbers) {
    return m.base ? gs_at_number(m, first * numbers) : m;
}

/* dx = dy where y > 0, else 0; y is the half y of a relu. */
gs_status gs_cl_pass(gs_device *, gs_mem dx, gs_mem dy, gs_mem y, size_t count);
