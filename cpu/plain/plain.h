/* The plain loops: each operator written like its formula in backend.h, in about ten lines, with nothing done for
 * speed: one thread, nothing fused, compiled once for the most basic processor.
 *
 * Read cpu/plain/conv2d.c before cpu/conv2d.c, which computes the same results. The plain loops are used
 *   - by the tests, as a second opinion on every operator of cpu/ and cl/ (tests/operators/test_operators_plain.c);
 *   - by `gradsum profile --plain`, which shows layer by layer what the rest of cpu/ gains.
 *
 * They have their own folder because the files they explain are compiled three times, and some are close to the limit
 * on file length; and here they can be read in one go. dropout and one_hot are missing: in cpu/dropout.c and cpu/data.c
 * they are plain loops already.
 *
 * A function receives memory (x_, w_) and first gives it a shape, so that x[i][k] means the same as in the formula. n
 * is the number of samples. */
#pragma once

#include "cpu/cpu.h"

/* gs_plain_sigmoid_forward and so on; gs_cpu_plain (backend.h) puts them all into a table of the cpu backend. */
#define GS_DECLARE(name) GS_OPERATOR(name) gs_plain_##name;
GS_PLAIN_OPERATORS(GS_DECLARE)
#undef GS_DECLARE

/* The address of the memory, for a pointer with a shape; NULL for GS_NONE. */
static inline void *gs_plain_at(gs_mem m) {
    return gs_cpu_floats(m);
}
