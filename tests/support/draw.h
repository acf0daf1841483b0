/* Random numbers for generated cases. They depend only on the case's number. */
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

static inline int list_length(const void *const *list) {
    int length = 0;
    while (list[length]) length++;
    return length;
}

/* One element of a NULL-terminated list of pointers. */
#define ONE_OF(d, list) ((list)[one_of((d), list_length((const void *const *)(list)))])
