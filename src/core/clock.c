#include "core/clock.h"

#include <stdatomic.h>
#include <stdint.h>

static const int64_t MOST = 500000000; /* ns: the maximum counted for one gap */

double gs_awake_seconds(void) {
    static _Atomic int64_t last, counted; /* ns */
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    const int64_t now = (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
    int64_t before = atomic_load(&last);
    while (now > before && !atomic_compare_exchange_weak(&last, &before, now)) continue;
    const int64_t gap = now - before;
    if (gap > 0) atomic_fetch_add(&counted, gap < MOST ? gap : MOST);
    return 1e-9 * (double)atomic_load(&counted);
}
