/* The format of values in messages: f32, or 16 bits, which halve the bytes of a gradient.
 *
 *              sign  exponent  fraction    largest     smallest normal   1 + 2^-p is the next after 1
 *     f32        1       8        23       3.4e38         1.2e-38           p = 23
 *     f16        1       5        10       65504          6.1e-5            p = 10
 *     bf16       1       8         7       3.4e38         1.2e-38           p = 7
 *
 * f16 (IEEE 754 binary16) is more precise within its range. Values from 65520 on are no nearer to the largest f16 than
 * to 2^16, and become infinity. Values below 6.1e-5 lose bits one by one, down to 6e-8. bf16 is the upper half of an
 * f32: no gradient is too large or too small for it, but it keeps only 8 bits. gradsum's gradients are sums over a
 * batch, not means, so they are rarely small.
 *
 * Both round to nearest, ties to even; NaN stays NaN. Sums are always computed in f32; only sent values are rounded.
 *
 * Sources: IEEE 754-2008, section 3.6 (binary16); Kalamkar et al., "A study of BFLOAT16 for deep learning
 * training" (2019); Micikevicius et al., "Mixed precision training" (ICLR 2018). */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include "core/error.h"

typedef enum gs_wire { GS_WIRE_F32, GS_WIRE_F16, GS_WIRE_BF16 } gs_wire;

const char *gs_wire_name(gs_wire); /* "f32", "f16", "bf16" */

/* For f16 and bf16; the two arrays must not overlap: */

/* to[i] = data[i], rounded; then data[i] = to[i], so that the sender keeps the values that its receiver gets */
void gs_wire_narrow(gs_wire, uint16_t *to, float *data, size_t count);

/* to[i] = from[i], which is exact */
void gs_wire_widen(gs_wire, float *to, const uint16_t *from, size_t count);

/* sum[i] = sum[i] + from[i] */
void gs_wire_widen_add(gs_wire, float *sum, const uint16_t *from, size_t count);
