/* One synchronisation, recorded and shown: `gradsum step`.
 *
 * Worker r begins with 2^r in every element. So each sum says which gradients are in it: 5 = 2^0 + 2^2 is the
 * sum of workers 0 and 2. Nothing else is known of a scheme than the messages that it really sends.
 */
#ifndef GS_CLI_STEP_H
#define GS_CLI_STEP_H

#include <stdint.h>
#include "gradsum.h"

enum { GS_STEP_WORKERS = 16, GS_STEP_FLOATS = 1000000 };

/* Elements first .. first + count - 1 hold the sum of the gradients of these workers: bit r for worker r. */
typedef struct gs_trace_part {
    size_t first, count;
    uint32_t workers;
} gs_trace_part;

/* A message, or what a worker holds after a round: parts[0 .. count-1], in order and without a gap. */
typedef struct gs_trace_event {
    int round; /* from 1; 0: before the first */
    int from;  /* or the worker that holds */
    int to;    /* -1: no message */
    int count;
    gs_trace_part *parts;
} gs_trace_event;

typedef struct gs_trace {
    const gs_sync_scheme *asked; /* what --sync says */
    int workers;
    size_t size;
    const gs_sync_scheme *scheme; /* that was used: another one for `auto` */
    char why[200];                /* as gs_sync.why */
    int rounds;
    bool watched; /* messages were seen; else the library sends its own, or nothing is sent */
    bool correct; /* every worker ended with the sum of all */
    gs_sync_cost counted[GS_STEP_WORKERS];
    gs_trace_event *events; /* sorted: by round, messages before what is held, by worker */
    int count;
} gs_trace;

/* Run `asked` for `size` floats over `workers` threads, and record it. */
gs_status gs_trace_record(gs_trace *);
void gs_trace_free(gs_trace *);

/* Show it in 80 columns; with `pause` wait for Enter between the rounds. */
void gs_trace_show(const gs_trace *, bool pause);

/* Counts and formulas agree, or there is no formula. */
bool gs_trace_counts_agree(const gs_trace *);

#endif
