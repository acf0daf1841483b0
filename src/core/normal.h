/* Normally distributed random numbers, identical to the bit on every machine.
 *
 * The usual methods (Box and Muller 1958; Marsaglia's polar method) need log, and either cos or a loop, and the C
 * library's log and cos differ in their last bits between versions. Here one word of philox becomes one number: u =
 * (word + 1/2) / 2^32 is in (0, 1), and z is the point where the normal distribution function equals u. Only + - * /
 * and sqrt are used, which IEEE 754 defines to the bit.
 *
 * Source: Wichura, "Algorithm AS 241: the percentage points of the normal distribution" (Applied Statistics 37, 1988):
 * rational functions with a relative error of 1e-16. */
#pragma once

#include <stdint.h>

/* Returns the z with Phi(z) = u, rounded to f32: |z| <= 6.34. It is odd: gs_normal(~word) = -gs_normal(word). */
float gs_normal(uint32_t word);
