/* How a thread waits for another thread that will arrive soon, in three stages:
 *
 *     at once        look again and again, with the core's pause instruction in between
 *     after 50 us    look, and let others have the core in between (sched_yield)
 *     after 1 ms     sleep: gs_wait_a_moment returns false, and the caller sleeps until it is woken
 *
 * Waking a sleeping thread costs a system call on one side and 5 us (in a virtual machine 50 us) on the other. Most
 * waits of a training step are shorter. A thread that yields takes no time from others that want the core, and sees the
 * event as soon as the core is idle. After 1 ms the other thread is unlikely to arrive soon, and an idle core saves
 * energy. In a virtual machine, when the second thread reached a barrier 60 or 200 us late, the first one waited 60 or
 * 200 us; if instead it went to sleep after 50 us, it waited 91 or 229 us.
 *
 * If the threads that wait for each other outnumber the cores, the first stage is skipped: a spinning thread may occupy
 * the very core needed by the thread for which it waits.
 *
 *     for (gs_wait w = gs_wait_begin(crowded); !come && gs_wait_a_moment(&w);) continue;
 *
 * Source: Karlin, Li, Manasse, Owicki, "Empirical studies of competitive spinning for a shared-memory multiprocessor"
 * (SOSP 1991): if a thread spins about as long as a wake-up costs, a wait costs at most twice the minimum. */
#pragma once

#include <stdbool.h>

typedef struct gs_wait {
    double begin; /* time of the first unsuccessful look; 0: none yet */
    unsigned looks;
    bool yields;
} gs_wait;

static inline gs_wait gs_wait_begin(bool crowded) {
    return (gs_wait){.yields = crowded};
}

/* Pass the time between two polls; false: it is time to sleep. */
bool gs_wait_a_moment(gs_wait *);

/* Are there more threads than this process has cores, or than its quota allows to run at once (core/usable.h)? */
bool gs_wait_is_crowded(int threads);
