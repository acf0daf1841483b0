/* The bits of a float (IEEE 754 binary32), for loops that the compiler should vectorise. Positive floats sort in the
 * same order as their bits. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

typedef union gs_bits {
    float f;
    uint32_t u;
} gs_bits;

static inline uint32_t gs_bits_of_float(float x) {
    return ((gs_bits){x}).u;
}

static inline float gs_float_of(uint32_t bits) {
    return ((gs_bits){.u = bits}).f;
}

/* a if the condition holds, else b. With ?:, the compiler would branch around a float addition in one of the arms and
 * could not vectorise the loop. */
static inline uint32_t gs_choose(bool condition, uint32_t a, uint32_t b) {
    const uint32_t all = -(uint32_t)condition;
    return (a & all) | (b & ~all);
}
