/* The log of `gradsum train --log DIR`, read for a page.
 *
 *     run.json        command, model, workers, devices, versions, and how the run ended
 *     metrics.jsonl   one JSON object per line, of kind "step", "epoch" or "worker"
 *     trace.json      some steps in Chrome's trace format; may be missing
 *
 * A log may be incomplete, because its run is still going or was killed, or it may be damaged. The intact part is read,
 * and `note` says what is missing.
 */
#pragma once

#include <stddef.h>
#include "core/error.h"

struct cJSON;

/* ---- metrics.jsonl: the lines of one kind ---- */

/* Rows of numbers; a number that is missing from its line, or null there, is NaN. */
typedef struct gs_logged_table {
    const char *const
        *column;  /* the columns' names, NULL-terminated; "share.sync" is "sync" in the object "share" */
    double *cell; /* [row][column] */
    size_t rows, room;
    int columns;
} gs_logged_table;

/* The columns of each kind of line, as in logged.c. The shares are last, in the order of gs_phase (train/result.h). */
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

/* Add a row to be filled, with NaN in every column; NULL: no memory. The pointer is valid until the next call. */
double *gs_logged_row(gs_logged_table *);
static inline double gs_logged_cell(const gs_logged_table *t, size_t row, int column) {
    return t->cell[row * (size_t)t->columns + (size_t)column];
}

/* ---- trace.json ---- */

/* A bar of the timeline, a name, one end of an arrow, or a memory sample. */
typedef struct gs_logged_event {
    double time; /* us since the start of training; -infinity for a name */
    size_t at;   /* its object's offset in the text */
    bool is_bar, is_sample;
} gs_logged_event;

typedef struct gs_logged_trace {
    char *text; /* the file's contents; NULL: there is no trace */
    size_t length;
    gs_logged_event *event;              /* sorted by time */
    size_t events, room, bars, left_out; /* left_out: events that were too long */
} gs_logged_trace;

/* ---- a log ---- */

enum { GS_LOGGED_NOTES = 12, GS_LOGGED_NOTE = 240 };

typedef struct gs_logged {
    struct cJSON *run; /* run.json; NULL if it cannot be read */
    gs_logged_table steps, epochs, workers;
    gs_logged_trace trace;
    char note[GS_LOGGED_NOTES][GS_LOGGED_NOTE]; /* a sentence for each incomplete part */
    int notes;
} gs_logged;

/* An empty log, to be filled by the caller. */
gs_logged gs_logged_empty(void);

/* GS_E_FILE: the folder does not exist or cannot be read. GS_E_FORMAT: it holds no log, or a log of a later version.
 * After an error there is nothing to free. */
gs_status gs_logged_read(const char *folder, gs_logged *);
void gs_logged_free(gs_logged *);
