/* How a thread waits for another one that will come soon: a ladder of three rungs.
 *
 *     at once        look again and again, with the core's pause instruction in between
 *     after 50 us    look, and let others have the core in between (sched_yield)
 *     after 1 ms     sleep: wait_a_moment returns false, and the caller sleeps in whatever way it can be woken
 *
 * To wake a thread that sleeps costs a system call on one side and 5 us on the other, in a virtual machine 50 us:
 * more than most waits of a training step last. A thread that yields takes nothing from others that want the core,
 * but sees what it waits for as soon as the core is idle. After 1 ms the other one is not about to come, and an
 * idle core saves energy. A barrier of two threads of which one
 * comes 60 or 200 us late took the other 60 or 200 us in a virtual machine, and 91 or 229 us where it slept after
 * 50 us.
 *
 * Where more threads than cores wait for each other the first rung is left out: there a thread that keeps its
 * core may keep it from the one that it waits for.
 *
 *     for (gs_wait w = gs_wait_begin(crowded); !come && gs_wait_a_moment(&w);) continue;
 *
 * Source: Karlin, Li, Manasse, Owicki, "Empirical studies of competitive spinning for a shared-memory
 * multiprocessor" (SOSP 1991): spin about as long as a wake-up costs, and the wait costs twice the least at most.
 */
#ifndef GS_CORE_WAIT_H
#define GS_CORE_WAIT_H

#include <stdbool.h>

typedef struct gs_wait {
    double begin; /* 0: the first look has not been in vain yet */
    unsigned looks;
    bool yields;
} gs_wait;

static inline gs_wait gs_wait_begin(bool crowded) {
    return (gs_wait){.yields = crowded};
}

/* Spend the moment between two looks; false: it is time to sleep. */
bool gs_wait_a_moment(gs_wait *);

/* Are there more threads than cores that this process may use? */
bool gs_wait_is_crowded(int threads);

#endif
