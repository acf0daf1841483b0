/* One synchronisation, recorded and shown: `gradsum step`.
 *
 * Worker r begins with 2^r in every element. So each sum says which gradients are in it: 5 = 2^0 + 2^2 is the
 * sum of workers 0 and 2. Nothing else is known of a scheme than the messages that it really sends.
 *
 *     run.c        run a scheme over threads, record it, and find the chunks into which it cuts the array
 *     page.c       the records of all schemes, and the gradients of a real step of a model, as a page (-o)
 *     layout.c     a step of a pipeline, of ZeRO or of tensor parallelism
 */
#pragma once

#include "cli/cli.h"
#include <stdint.h>

enum { GS_STEP_WORKERS = 16, GS_STEP_FLOATS = 1000000, GS_STEP_PAGE_FLOATS = 10000000 };

/* ---- run.c ---- */

/* Elements first .. first + count - 1 hold the sum of the gradients of these workers: bit r for worker r. */
typedef struct gs_step_part {
    size_t first, count;
    uint32_t workers;
} gs_step_part;

/* A message, or what a worker holds after a round: parts[0 .. count-1], in order and without a gap. */
typedef struct gs_step_event {
    int round; /* from 1; 0: before the first */
    int from;  /* or the worker that holds */
    int to;    /* -1: no message */
    int place; /* of a message: among those that its sender has sent, from 0 */
    int count;
    gs_step_part *parts;
} gs_step_event;

typedef struct gs_step_record {
    const gs_sync_scheme *asked; /* what --sync says */
    int workers;
    size_t size;
    gs_wire wire;

    const gs_sync_scheme *scheme; /* that was used: another one for `auto` */
    char why[200];                /* as gs_sync.why */
    int rounds;
    bool watched; /* messages were seen; else the library sends its own, or nothing is sent */
    bool correct; /* every worker ended with the sum of all */
    gs_sync_cost counted[GS_STEP_WORKERS];
    gs_step_event *events; /* sorted: by round, messages before what is held, by worker */
    int count;
} gs_step_record;

/* Run `asked` for `size` floats over `workers` threads, and record it. */
gs_status gs_step_run(gs_step_record *);
void gs_step_record_free(gs_step_record *);

static inline gs_sync_array gs_step_array(const gs_step_record *step) {
    return (gs_sync_array){step->size, step->wire, 0};
}

/* The widest sum of 2^r must be one that the wire does not round. GS_E_USAGE: there are too many workers. */
gs_status gs_step_check(const gs_step_record *);

/* Counts and formulas agree, or there is no formula. */
bool gs_step_counts_agree(const gs_step_record *);

/* A chunk ends wherever a message or a part begins or ends. Chunk c is bounds[c] .. bounds[c + 1] - 1; *bounds is
 * to be freed. GS_E_MEMORY. */
gs_status gs_step_chunks(const gs_step_record *, size_t **bounds, int *chunks);

/* The chunk that begins at an element, or the number of chunks for the end of the array. */
int gs_step_chunk_at(const size_t *bounds, size_t element);

/* The part of an event in which an element lies. */
const gs_step_part *gs_step_part_at(const gs_step_event *, size_t element);

/* ---- layout.c ---- */

/* Does the command line ask for a step of a run whose workers share the model? Then this is the command. */
bool gs_step_is_of_layout(int argc, char **argv);
int gs_step_layout_command(int argc, char **argv);
/* All that it takes; for completion. */
const gs_option *gs_step_layout_options(void);

/* ---- page.c ---- */

/* Write the page to `path`; it shows `first` when it is opened, and has all schemes that can be watched.
 * GS_E_USAGE: `first` cannot be. */
gs_status gs_step_page(const char *path, const gs_sync_scheme *first, const gs_settings *, int workers);
