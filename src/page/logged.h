/* The log of `gradsum train --log DIR`, read for a page.
 *
 *     run.json        command, model, workers, devices, versions, and how the run ended
 *     metrics.jsonl   one JSON object per line, of kind "step", "epoch" or "worker"
 *     trace.json      some steps in Chrome's trace format; may be missing
 *
 * A log may be incomplete, because its run continues or was killed, or it may be damaged. The intact part is read, and
 * `note` says what is missing.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include "core/error.h"

struct cJSON;

/* ---- the lines of metrics.jsonl of one kind ---- */

/* Numbers in rows; a number that is missing or null in its line is NaN. */
typedef struct gs_logged_table {
    const char *const
        *column;  /* their names, NULL after the last; "share.sync" is "sync" of the object "share" */
    double *cell; /* [row][column] */
    size_t rows, room;
    int columns;
} gs_logged_table;

/* Columns of the three kinds, as in logged.c. The shares come last, in the order of gs_phase (train/result.h). */
enum {
    GS_LOGGED_STEP,
    GS_LOGGED_TIME,
    GS_LOGGED_LOSS,
    GS_LOGGED_ACCURACY,
    GS_LOGGED_LR,
    GS_LOGGED_SPEED,
    GS_LOGGED_SHARE
};
enum { GS_LOGGED_SHARES = 5 }; /* data, forward, backward, sync, update */
enum {
    GS_LOGGED_TRAIN_LOSS = 2,
    GS_LOGGED_TEST_LOSS,
    GS_LOGGED_TEST_ACCURACY,
    GS_LOGGED_EPOCH_SPEED
}; /* after step, time */
enum { GS_LOGGED_WORKER, GS_LOGGED_WORKER_SPEED, GS_LOGGED_WORKER_SHARE };

/* A new row, all NaN, to be filled; NULL: no memory. Valid until the next call. */
double *gs_logged_row(gs_logged_table *);
static inline double gs_logged_cell(const gs_logged_table *t, size_t row, int column) {
    return t->cell[row * (size_t)t->columns + (size_t)column];
}

/* ---- trace.json ---- */

/* A bar of the timeline, a name, an end of an arrow, or a sample of memory. */
typedef struct gs_logged_event {
    double time; /* us since the start of training; -infinity for a name */
    size_t at;   /* its object's offset in the text */
    bool is_bar, is_sample;
} gs_logged_event;

typedef struct gs_logged_trace {
    char *text; /* of the file; NULL: no trace */
    size_t length;
    gs_logged_event *event;              /* by time */
    size_t events, room, bars, left_out; /* left_out: events that were too long */
} gs_logged_trace;

/* ---- a log ---- */

enum { GS_LOGGED_NOTES = 12, GS_LOGGED_NOTE = 240 };

typedef struct gs_logged {
    struct cJSON *run; /* run.json; NULL where it cannot be read */
    gs_logged_table steps, epochs, workers;
    gs_logged_trace trace;
    char note[GS_LOGGED_NOTES][GS_LOGGED_NOTE]; /* a sentence for each part that is incomplete */
    int notes;
} gs_logged;

/* An empty log, to be filled by the caller. */
gs_logged gs_logged_empty(void);

/* GS_E_FILE: no such folder, or it cannot be read. GS_E_FORMAT: not a log, or of a later version. After an error there
 * is nothing to free. */
gs_status gs_logged_read(const char *folder, gs_logged *);
void gs_logged_free(gs_logged *);
