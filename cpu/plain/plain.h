/* The plain loops: each operator as its formula in backend.h says it, in about ten lines, and nothing done for speed:
 * one thread, nothing fused, compiled once for the plainest processor.
 *
 * Read cpu/plain/conv2d.c before cpu/conv2d.c, which computes the same. The plain loops are used
 *   - by the tests, as one more opinion on every operator of cpu/ and cl/ (tests/operators/test_operators_plain.c);
 *   - by `gradsum profile --plain`, which shows layer by layer what the rest of cpu/ gains.
 *
 * Why a folder of their own? The files that they explain are compiled three times, and some are nearly as long as a
 * file may be; and so they can be read in one go. dropout and one_hot are not here: in cpu/dropout.c and cpu/data.c
 * they are plain loops already.
 *
 * A function gets places in memory (x_, w_) and begins by giving them their shapes, so that x[i][k] is what the formula
 * means by it. n is the number of samples.
 */
#pragma once

#include "cpu/cpu.h"

/* gs_plain_sigmoid_forward and so on; gs_cpu_plain (backend.h) puts all of them into a table of the cpu backend. */
#define GS_DECLARE(name) GS_OPERATOR(name) gs_plain_##name;
GS_PLAIN_OPERATORS(GS_DECLARE)
#undef GS_DECLARE

/* The memory at a place, to be given a shape; NULL for GS_NONE. */
static inline void *gs_plain_at(gs_mem m) {
    return gs_cpu_floats(m);
}
