/* The step after which a new generation continues. Each process announces its snapshots (snapshots.h), so all agree. */
#pragma once

#include <stdint.h>

#include "core/error.h"

enum {
    GS_SNAPSHOTS = 2,     /* that a process keeps */
    GS_SNAPSHOT_HASH = 68 /* 64 digits and zeros: an id has no padding, whose bytes would be sent unset */
};

/* A process announces one of its snapshots to the others. */
typedef struct gs_snapshot_id {
    uint64_t valid, step, updates, good, samples, saved, params,
        vectors; /* valid 0: it has no such snapshot */
    float loss_scale;
    char hash[GS_SNAPSHOT_HASH]; /* SHA-256 of the state */
} gs_snapshot_id;

/* Among a process's GS_SNAPSHOTS ids, the one of its last step, or of this step; NULL: none (snapshots.c). */
const gs_snapshot_id *gs_snapshot_id_newest(const gs_snapshot_id *of);
const gs_snapshot_id *gs_snapshot_id_of_step(const gs_snapshot_id *of, uint64_t step);

/* all[size * GS_SNAPSHOTS]: the ids of process 0, of process 1, ...; a new process has no valid one. *step: the last
 * step that all survivors have; *first: the first survivor, which sends its state to the new ones; -1: there is none,
 * and the run begins. GS_E_DIFFER: a survivor has no copy of that step, or another state. */
gs_status gs_snapshots_agree(const gs_snapshot_id *all, int size, uint64_t *step, int *first);
