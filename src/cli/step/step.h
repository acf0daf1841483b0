/* One synchronisation, recorded and shown: `gradsum step`.
 *
 * Worker r starts with 2^r in every element, so each sum shows which gradients it contains: 5 = 2^0 + 2^2 is the sum of
 * workers 0 and 2. The record contains only messages that a scheme actually sends.
 *
 *     run.c        runs a scheme over threads, records it, and finds the chunks into which the scheme cuts the array
 *     page.c       a page (-o) of all schemes, with the gradients from a real step of a model
 *     layout.c     a step of a pipeline, of ZeRO or of tensor parallelism
 */
#pragma once

#include "cli/cli.h"

enum { GS_STEP_WORKERS = 16, GS_STEP_FLOATS = 1000000, GS_STEP_PAGE_FLOATS = 10000000 };

/* ---- run.c ---- */

/* Elements first .. first + count - 1 hold the sum of these workers' gradients; bit r stands for worker r. */
typedef struct gs_step_part {
    size_t first, count;
    uint32_t workers;
} gs_step_part;

/* A message, or a worker's array after a round: parts[0 .. count-1], in order and without gaps. */
typedef struct gs_step_event {
    int round; /* counted from 1; 0: before the first round */
    int from;  /* the sender, or the worker that holds the array */
    int to;    /* -1: no message */
    int place; /* the message's index among those from its sender, counted from 0 */
    int count;
    gs_step_part *parts;
} gs_step_event;

typedef struct gs_step_record {
    const gs_sync_scheme *asked; /* the scheme that --sync names */
    int workers;
    size_t size;
    gs_wire wire;

    const gs_sync_scheme *scheme; /* the scheme used, which `auto` may have chosen */
    char why[200];                /* like gs_sync.why */
    int rounds;
    bool watched; /* messages were recorded; false: a library sends its own, or none are sent */
    bool correct; /* every worker ended with the sum of all gradients */
    gs_sync_cost counted[GS_STEP_WORKERS];
    gs_step_event *events; /* sorted by round; in a round, first the messages, then the arrays by worker */
    int count;
    /* Chunk c is bounds[c] .. bounds[c + 1] - 1: no message or part begins or ends within it. */
    size_t *bounds;
    int chunks;
} gs_step_record;

/* Run `asked` for `size` floats over `workers` threads, and record it. GS_E_USAGE: there are so many workers that the
 * wire format would round the sum of all 2^r. */
gs_status gs_step_run(gs_step_record *);
void gs_step_record_free(gs_step_record *);

static inline gs_sync_array gs_step_array(const gs_step_record *step) {
    return (gs_sync_array){step->size, step->wire, 0};
}

/* True if the counts equal those of the formulas, or if there are no formulas. */
bool gs_step_counts_agree(const gs_step_record *);

/* The index of the chunk that begins at an element; for the end of the array, the number of chunks. */
int gs_step_chunk_at(const gs_step_record *, size_t element);

/* The part of an event that contains an element. */
const gs_step_part *gs_step_part_at(const gs_step_event *, size_t element);

/* ---- layout.c ---- */

/* True if the command line asks for a step of a run whose workers share the model: call gs_step_layout_command then. */
bool gs_step_is_of_layout(int argc, char **argv);
int gs_step_layout_command(int argc, char **argv);

/* ---- page.c ---- */

/* Write a page of all schemes that can be watched; `first` is shown first. GS_E_USAGE: `first` cannot be watched. */
gs_status gs_step_page(const char *path, const gs_sync_scheme *first, const gs_settings *, int workers);
