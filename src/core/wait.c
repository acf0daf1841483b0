#include "core/wait.h"
#include "core/clock.h"
#include "core/usable.h"

static const double PAUSE = 50e-6, YIELD = 1e-3; /* seconds since the first look */
enum { PAUSES = 8 /* pauses between two looks at the clock */ };

static inline void pause_core(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

bool gs_wait_a_moment(gs_wait *w) {
    if (!w->yields && w->looks++ % PAUSES != 0) {
        pause_core();
        return true;
    }
    double now = gs_seconds();
    if (w->begin == 0) w->begin = now;
    if (!w->yields && now - w->begin < PAUSE) {
        pause_core();
        return true;
    }
    w->yields = true;
    sched_yield();
    return now - w->begin < YIELD;
}

bool gs_wait_is_crowded(int threads) {
    const gs_usable u = gs_usable_here();
    return threads > u.cpus || (u.quota > 0 && threads > u.quota);
}
