/* Is the machine too busy for time measurements? A worker that lacks a core keeps the others waiting, and that wait
 * counts as sync: four workers on two cores "show" that an all-reduce takes 74 % of a step.
 *
 * Linux counts for each thread how long it was ready to run without a core (/proc/thread-self/schedstat). A worker that
 * waits for another worker, or for its loader, is not ready, so that wait is not counted. */
#pragma once

#include <stddef.h>

typedef struct gs_busy {
    int threads, cpus; /* computing at the same time on this machine; CPUs available to them (usable.h) */
    double quota;      /* see gs_usable */
    /* The share of the time that a thread lacked a core because others had it; 0 if unknown. */
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

/* The share waited since gs_busy_begin; call it from the same thread. Also 0 if the wait was under 50 ms, or if this
 * process alone kept its `cpus` busy: then its own threads, such as image decoders, were waiting for each other. */
double gs_busy_waited(const gs_busy_clock *since, double cpus);

/* Measure for a quarter of a second with `threads` computing threads. */
gs_busy gs_busy_measure(int threads);
