/* Is the machine too busy for the times that are measured on it? Workers that lack a core keep the others waiting, and
 * that wait is counted as sync: four workers on two cores "show" that an all-reduce takes 74 % of a step.
 *
 * Linux counts for each thread how long it was ready to run and had no core (/proc/thread-self/schedstat). A worker
 * that waits for another one, or for its loader, is not ready, so that is no part of it.
 */
#pragma once

#include <stddef.h>

typedef struct gs_busy {
    int threads, cpus; /* that compute at once on this machine; and for how many there is time (usable.h) */
    double quota;      /* as in gs_usable */
    /* Share of the time that one of them had no core since others had it; 0 where it is unknown. */
    double waited;
} gs_busy;

enum { GS_BUSY_TEXT = 200 };

/* One sentence that says what is wrong; "": the machine is quiet. */
const char *gs_busy_text(const gs_busy *, char text[GS_BUSY_TEXT]);

/* Of two, such as two workers, the worse in each respect. */
gs_busy gs_busy_worse(gs_busy, gs_busy);

/* What the calling thread has had until now. */
typedef struct gs_busy_clock {
    double now, waited, computed; /* seconds; computed: by all threads of this process */
} gs_busy_clock;

gs_busy_clock gs_busy_begin(void);

/* The share since then, in the thread that began. 0 too if it is less than 50 ms, or if the process itself has kept
 * the `cpus` that are for it busy: its own threads, such as those that decode pictures, then wait for each other. */
double gs_busy_waited(const gs_busy_clock *since, double cpus);

/* Let so many threads compute for a quarter of a second. */
gs_busy gs_busy_measure(int threads);
