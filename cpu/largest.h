/* The place of the largest number: the answer of a network, by its outputs. */
#pragma once

#include "cpu/cpu.h"

/* Of x[0] .. x[k - 1], the first on a tie. A NaN wins over numbers, as in max_pool2d: a network whose outputs are no
 * numbers has no right answers. */
static inline size_t largest_of(const float *x, size_t k) {
    size_t largest = 0;
    for (size_t j = 1; j < k; j++)
        if (!(x[j] <= x[largest]) && x[largest] == x[largest]) largest = j;
    return largest;
}
