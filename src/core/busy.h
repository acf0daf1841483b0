/* Is the machine too busy for time measurements? Workers that lack a core keep the others waiting, and that wait counts
 * as sync: four workers on two cores "show" that an all-reduce takes 74 % of a step.
 *
 * Linux counts for each thread how long it was ready to run without a core (/proc/thread-self/schedstat). A worker that
 * waits for another one, or for its loader, is not ready, so that wait is not included. */
#pragma once

#include <stddef.h>

typedef struct gs_busy {
    int threads, cpus; /* that compute at once on this machine; and for how many there is time (usable.h) */
    double quota;      /* as in gs_usable */
    /* Share of the time for which one of them lacked a core because others had it; 0 if unknown. */
    double waited;
} gs_busy;

enum { GS_BUSY_TEXT = 200 };

/* One sentence about what is wrong; "" on a quiet machine. */
const char *gs_busy_text(const gs_busy *, char text[GS_BUSY_TEXT]);

/* The worse of two in each respect, such as two workers. */
gs_busy gs_busy_worse(gs_busy, gs_busy);

/* Figures of the calling thread until now. */
typedef struct gs_busy_clock {
    double now, waited, computed; /* seconds; computed: by all threads of this process */
} gs_busy_clock;

gs_busy_clock gs_busy_begin(void);

/* The share since then, in the thread that began. Also 0 if it is below 50 ms, or if the process itself kept its `cpus`
 * busy: then its own threads, such as those that decode pictures, wait for each other. */
double gs_busy_waited(const gs_busy_clock *since, double cpus);

/* Measure `threads` computing threads for a quarter of a second. */
gs_busy gs_busy_measure(int threads);
