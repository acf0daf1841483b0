/* Predictions and what came out, kept from run to run: $XDG_DATA_HOME/gradsum/lesson-NN.json, or below
 * ~/.local/share. */
#pragma once

#include <stddef.h>
#include "core/error.h"

enum { GS_KEPT_TEXT = 64 };

typedef struct gs_kept {
    char prediction[GS_KEPT_TEXT]; /* "": none yet */
    char outcome[GS_KEPT_TEXT];    /* "": not run yet */
    char when[24];                 /* of the prediction, UTC: "2026-11-23T19:40:00Z" */
} gs_kept;

/* Where the answers to lesson "07" lie. GS_E_FILE: there is no place for them. */
gs_status gs_kept_path(const char *lesson, char *path, size_t size);

/* What is kept of the box `id`; empty where nothing is. GS_E_FORMAT: the file is damaged. */
gs_status gs_kept_get(const char *lesson, const char *id, gs_kept *);

/* Keep it, and everything else that is in the file. Written whole or not at all. An empty `when` becomes now. */
gs_status gs_kept_put(const char *lesson, const char *id, gs_kept *);

/* Remove all answers to a lesson. No failure where there are none. */
gs_status gs_kept_forget(const char *lesson);
