/* A thread that has pages of a file in memory before they are needed, and lets them go when they are done with
 * (mapped.h). It does so in the order in which it is asked.
 *
 *     worker      | use 0       | use 1        | use 2        |
 *     its thread  | fetch 1     | drop 0, fetch 2 | drop 1, fetch 3 |
 *
 * Whatever is asked for, memory holds the same numbers: a page that was not fetched is read when it is touched, and one
 * that was dropped too early comes back. Only time depends on it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "core/error.h"

typedef struct gs_fetcher gs_fetcher;

/* GS_E_MEMORY: no memory, or no thread. */
gs_status gs_fetcher_create(gs_fetcher **out);
void gs_fetcher_free(gs_fetcher *); /* NULL is allowed. What it was asked for is not done any more. */

/* Something that was brought or let go: by gs_seconds(). */
typedef struct gs_away_move {
    double start, end;
    size_t bytes;
    int kind; /* what it is used for, as gs_fetcher_watch was told */
    bool brought;
} gs_away_move;

/* Called when the copy is known to be done: in the fetcher's thread, with an OpenCL device in the worker's. `step` is
 * that in which the copy was asked for. moved NULL: nobody watches. */
typedef struct gs_away_watch {
    void (*moved)(void *context, uint64_t step, const gs_away_move *);
    void *context;
    uint64_t step;
} gs_away_watch;

/* Who is told of what is asked for from now on. */
void gs_fetcher_watch(gs_fetcher *, gs_away_watch, int kind);

/* Begin to bring all pages of these bytes into memory. Returns the number of this job, from 1. One that has to wait
 * for room in the list waits. */
uint64_t gs_fetcher_fetch(gs_fetcher *, void *memory, size_t bytes);

/* Let those pages go that lie wholly in these bytes. What is in them stays in the file. */
uint64_t gs_fetcher_drop(gs_fetcher *, void *memory, size_t bytes);

/* Until this job, and all before it, are done; 0: at once. */
void gs_fetcher_wait(gs_fetcher *, uint64_t number);

/* Until all are done. */
void gs_fetcher_settle(gs_fetcher *);

/* Seconds that the thread was busy, and that gs_fetcher_wait has waited; and bytes fetched. */
typedef struct gs_fetcher_times {
    double busy, waited, bytes;
} gs_fetcher_times;

/* After gs_fetcher_settle. */
gs_fetcher_times gs_fetcher_measured(const gs_fetcher *);
