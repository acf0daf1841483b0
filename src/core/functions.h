/* The functions of cl/functions.clh for C: gs_exp(x), gs_log(x), gs_tanh_of(x), ... of floats. */
#pragma once

#include "core/bits.h"

#include <math.h>

#define vec float
#define uvec uint32_t
#define as_vec gs_float_of
#define as_uvec gs_bits_of_float

static inline float gs_either(bool condition, float a, float b) {
    return gs_float_of(gs_choose(condition, gs_bits_of_float(a), gs_bits_of_float(b)));
}

#include "cl/functions.clh"

#undef vec
#undef uvec
#undef as_vec
#undef as_uvec
