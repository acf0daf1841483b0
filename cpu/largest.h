/* The index of the largest output: a network's answer. */
#pragma once

#include <math.h>

#include "cpu/cpu.h"

typedef int32_t gs_int16 __attribute__((vector_size(64), aligned(4), may_alias));

/* The largest of x[0] .. x[k - 1], or a NaN if there is one; k is at least 16. Compares sixteen at a time; a shorter
 * remainder is compared together with some elements before it. */
static inline float largest_number(const float *x, size_t k) {
    const gs_float16 infinity = (gs_float16){0} + INFINITY;
    gs_float16 top = *(const gs_float16 *)x;
    for (size_t j = 16; j < k; j += 16) {
        const gs_float16 next = *(const gs_float16 *)(x + (j + 16 < k ? j : k - 16));
        const gs_int16 keep = (next <= top) | ~(top <= infinity); /* a NaN does not compare <= infinity */
        top = (gs_float16)(((gs_int16)top & keep) | ((gs_int16)next & ~keep));
    }
    float largest = top[0];
    for (int j = 1; j < 16; j++)
        if (!(top[j] <= largest) && largest == largest) largest = top[j];
    return largest;
}

/* The index of the largest of x[0] .. x[k - 1], the first on a tie. A NaN beats any number, as in max_pool2d: a network
 * that outputs NaNs has no right answers.
 *
 * For a long vocabulary the largest value is found first, with vectors, and then its index. */
static inline size_t largest_of(const float *x, size_t k) {
    size_t largest = 0;
    if (k >= 32) {
        const float top = largest_number(x, k);
        const bool is_number = top == top;
        while (is_number ? x[largest] != top : x[largest] == x[largest]) largest++;
        return largest;
    }
    for (size_t j = 1; j < k; j++)
        if (!(x[j] <= x[largest]) && x[largest] == x[largest]) largest = j;
    return largest;
}
