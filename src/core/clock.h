/* Clocks, for measuring durations. */
#pragma once

#include <time.h>

/* Seconds since an arbitrary fixed moment; never decreases. */
static inline double gs_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The clock for time-outs: like gs_seconds, but it stops while this process is stopped (Ctrl-Z, SIGSTOP). A process
 * cannot notice that it is stopped, so between two calls, by whichever threads, at most half a second is counted. A
 * loop that waits by this clock must therefore read it more than twice a second. */
double gs_awake_seconds(void);

/* Convert a time from gs_seconds, for system calls that use CLOCK_MONOTONIC, or a duration, for nanosleep. */
static inline struct timespec gs_timespec(double seconds) {
    struct timespec t;
    t.tv_sec = (time_t)seconds;
    t.tv_nsec = (long)((seconds - (double)t.tv_sec) * 1e9);
    return t;
}

static inline void gs_sleep(double seconds) {
    const struct timespec t = gs_timespec(seconds);
    nanosleep(&t, NULL);
}

/* Sleep at least until gs_seconds() reaches `moment`. */
static inline void gs_sleep_until(double moment) {
    const struct timespec t = gs_timespec(moment);
    while (gs_seconds() < moment) clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
}
