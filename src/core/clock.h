/* Time, for measuring how long something took. */
#pragma once

#include <time.h>

/* Seconds since some fixed moment; never goes back. */
static inline double gs_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
