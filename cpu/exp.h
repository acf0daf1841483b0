/* The exponential function for vectorised loops: no branches, no calls. Bitwise identical to cl/exp.clh, and within 1.2
 * ulp of the exact value (tests/operators/test_activations.c).
 *
 *     exp(x) = 2^n exp(r),  n = x / ln(2) to the nearest integer,  |r| <= ln(2)/2
 *
 * Magnitudes are compared as integers: float comparisons would prevent vectorisation. */
#pragma once

#include "core/bits.h"

enum { GS_SIGN = (int)0x80000000, GS_INFINITY = 0x7f800000 };

/* exp(x + more), where |more| <= 0.04 holds digits of the exponent that do not fit in x; the result must be normal. */
static inline gs_bits gs_exp_in_range(float x, float more) {
    const float round = 0x1.8p23f; /* adding it leaves the integer n in the lowest bits */
    const gs_bits n = {x * 1.44269504f + round};
    const float whole = n.f - round;
    const float r = ((x - whole * 0.693145752f) - whole * 1.42860677e-06f) + more; /* ln(2), split in two */
    const float q = 0.166664332f + r * (0.0416694172f + r * (0.0083780969f + r * 0.0013795232f));
    gs_bits result = {1.0f + (r + r * r * (0.49999988f + r * q))};
    result.u += n.u << 23;
    return result;
}

/* exp(x + more) for any x: infinity, 0 or NaN if the result is not a normal number. */
static inline float gs_exp_of_sum(float x, float more) {
    const gs_bits given = {x}, highest = {88.7228317f},
                  lowest = {87.3365402f}; /* ln(FLT_MAX), -ln(FLT_MIN) */
    const uint32_t sign = (uint32_t)GS_SIGN, infinity = GS_INFINITY, size = given.u & ~sign;
    gs_bits result = gs_exp_in_range(x, more);
    result.u = gs_choose(given.u > highest.u && given.u <= infinity, infinity, result.u);
    result.u = gs_choose(given.u > sign && size > lowest.u && size <= infinity, 0, result.u);
    result.u = gs_choose(size > infinity, given.u, result.u); /* a NaN stays a NaN */
    return result.f;
}

/* exp(x), or 0 below -87.34, where it would be subnormal */
static inline float gs_exp(float x) {
    return gs_exp_of_sum(x, 0);
}

/* s = 1 / (1 + exp(-x)) and rest = 1 - s = 1 / (1 + exp(x)), both to full precision */
typedef struct gs_logistic {
    float s, rest;
} gs_logistic;

static inline gs_logistic gs_logistic_of(float x) {
    const gs_bits given = {x}, minus_size = {.u = given.u | (uint32_t)GS_SIGN};
    const float e = gs_exp(minus_size.f);
    const gs_bits large = {1.0f / (1.0f + e)}, small = {e * large.f};
    const bool negative = given.u >> 31;
    const gs_bits s = {.u = gs_choose(negative, small.u, large.u)};
    const gs_bits rest = {.u = gs_choose(negative, large.u, small.u)};
    return (gs_logistic){s.f, rest.f};
}
