/* Detects a machine that is too busy for time measurements. A worker without a core keeps the others waiting, and their
 * wait counts as sync: with four workers on two cores, an all-reduce seems to take 74 % of a step.
 *
 * Linux counts for each thread how long it was ready to run but had no core (/proc/thread-self/schedstat). A worker
 * that waits for another worker, or for its loader, is not ready, so that wait is not counted. */
#pragma once

#include <stddef.h>

typedef struct gs_busy {
    int threads, cpus; /* threads computing at once on this machine; CPUs available to them (usable.h) */
    double quota;      /* see gs_usable */
    /* The fraction of the time in which a thread had no core because others used it; 0 if unknown. */
    double waited;
} gs_busy;

enum { GS_BUSY_TEXT = 200 };

/* One sentence describing the problem; "" on a quiet machine. */
const char *gs_busy_text(const gs_busy *, char text[GS_BUSY_TEXT]);

/* Combine two results, for instance two workers', keeping the worse value of each field. */
gs_busy gs_busy_worse(gs_busy, gs_busy);

/* The calling thread's counters so far. */
typedef struct gs_busy_clock {
    double now, waited, computed; /* seconds; computed: CPU time of all threads of this process */
} gs_busy_clock;

gs_busy_clock gs_busy_begin(void);

/* The share of the time since this thread's gs_busy_begin in which it could run but had no core. 0 if that was under
 * 50 ms, or if this process alone kept its `cpus` busy, so that its own threads (image decoders) waited for cores. */
double gs_busy_waited(const gs_busy_clock *since, double cpus);

/* Measure for a quarter of a second with `threads` computing threads. */
gs_busy gs_busy_measure(int threads);
