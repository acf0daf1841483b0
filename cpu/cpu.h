/* The CPU backend: OpenBLAS for matrix products, C for the rest.
 *
 * Every file of cpu/ (but open.c and pool.c) is compiled several times, once for each instruction set in the Makefile
 * (plain x86-64, AVX2 and AVX-512; only the plain one elsewhere), and the best table that this machine can run is
 * chosen when the device is opened: one binary runs anywhere and is fast where it can be. GS_ISA(name) gives each
 * build's functions names of their own.
 */
#ifndef GS_CPU_CPU_H
#define GS_CPU_CPU_H

#include "backend.h"
#include "cpu/pool.h"

#ifndef GS_ISA_SUFFIX
#define GS_ISA_SUFFIX _base
#endif
#define GS_ISA_PASTE2(name, suffix) name##suffix
#define GS_ISA_PASTE(name, suffix) GS_ISA_PASTE2(name, suffix)
#define GS_ISA(name) GS_ISA_PASTE(gs_cpu_##name, GS_ISA_SUFFIX)

/* What device->state points to. */
typedef struct gs_cpu {
    gs_pool *pool;
    float *scratch; /* grows to the largest need: im2col's matrices, a part for each thread */
    size_t scratch_count;
} gs_cpu;

static inline float *gs_cpu_floats(gs_mem m)
{
    return m.base ? (float *)m.base + m.at : NULL;
}

#endif
