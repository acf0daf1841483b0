/* Numbers for drawn cases, which follow from the case's own number alone. */
#pragma once

#include "core/philox.h"

typedef struct draw {
    uint64_t run, next;
} draw;

static inline int one_of(draw *d, int count) {
    uint32_t word[4];
    gs_philox(20261124, d->run, d->next++, word);
    return (int)(word[0] % (uint32_t)count);
}
