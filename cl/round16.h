/* Inputs of an operator in 16 bits. Where the precision is not f32, all that is multiplied lies so, and what backward
 * reads of forward (backend.h): kept by forward (`half`: see gs_mem), or copied to scratch memory, which holds it until
 * the next such call for this device. The kernels that read it are those that read f32, built for other memory
 * (stored.clh). */
#pragma once

#include "cl/cl.h"

/* The variant of cl/FILE.cl for the device's precision; FILE is a literal. */
#define GS_CL_STORED(d, FILE)                                                                                \
    ((d)->precision == GS_PRECISION_F32    ? FILE                                                            \
     : (d)->precision == GS_PRECISION_BF16 ? "bf16/" FILE                                                    \
                                           : "f16/" FILE)

/* The same for an operator whose y, or dx, is m: where that lies in 16 bits, all that flows does. */
#define GS_CL_FLOW(d, m, FILE) ((m).half ? GS_CL_ALL(d, FILE) : GS_CL_STORED(d, FILE))
/* And where nothing but what flows is stored. */
#define GS_CL_AS(d, m, FILE) ((m).half ? GS_CL_ALL(d, FILE) : (FILE))
#define GS_CL_ALL(d, FILE) ((d)->precision == GS_PRECISION_BF16 ? "all_bf16/" FILE : "all_f16/" FILE)

typedef struct gs_cl_operand {
    gs_mem *place; /* becomes that of the copy */
    size_t count;
    bool relu_y; /* the y of a relu, of which only the signs are asked for: a copy says them as narrow does */
} gs_cl_operand;

/* Copies of all that are not half yet, rounded. Nothing happens where the precision is f32, and to GS_NONE. */
gs_status gs_cl_rounded(gs_device *, int count, const gs_cl_operand *);

/* Numbers of each sample that gs_cl_rounded would copy: those of m, unless they are half. */
static inline size_t gs_cl_copied(gs_mem m, size_t numbers) {
    return m.base && !m.half ? numbers : 0;
}

/* Of n samples with so many numbers that are copied, how many at once: as many as have about a megabyte of copies (on a
 * GPU 64), at least `least`, and an even number of them, so that those in 16 bits begin at a float. All of them where
 * nothing is copied, as in f32. */
size_t gs_cl_at_once(gs_device *, size_t n, size_t copied, size_t least);

/* The place of sample `first`, an even number, of so many numbers each. */
static inline gs_mem gs_cl_sample(gs_mem m, size_t first, size_t numbers) {
    return m.base ? gs_at_number(m, first * numbers) : m;
}

/* dx = dy where y > 0, else 0, for the y of a relu that is half. */
gs_status gs_cl_pass(gs_device *, gs_mem dx, gs_mem dy, gs_mem y, size_t count);
