/* Determines the step after which a new generation continues. Each process announces its snapshots, so all agree. */
#pragma once

#include <stdint.h>

#include "core/error.h"

enum {
    GS_SNAPSHOTS = 2,     /* kept by each process */
    GS_SNAPSHOT_HASH = 68 /* 64 digits, then zeros; avoids padding, which would be sent uninitialised */
};

/* The description of a snapshot that a process announces to the others. */
typedef struct gs_snapshot_id {
    uint64_t valid, step, updates, good, samples, saved, params,
        vectors; /* valid 0: there is no such snapshot */
    float loss_scale;
    char hash[GS_SNAPSHOT_HASH]; /* SHA-256 of the state */
} gs_snapshot_id;

/* Of a process's GS_SNAPSHOTS ids, the one with the last step, or with the given step; NULL: there is none. */
const gs_snapshot_id *gs_snapshot_id_newest(const gs_snapshot_id *of);
const gs_snapshot_id *gs_snapshot_id_of_step(const gs_snapshot_id *of, uint64_t step);

/* all[size * GS_SNAPSHOTS]: the ids of process 0, then of process 1, and so on; a new process has no valid ids. *step:
 * the last step that all survivors hold. *first: the first survivor, which sends its state to the new processes; -1:
 * none, so the run starts anew. GS_E_DIFFER: a survivor has no copy of that step, or a different state. */
gs_status gs_snapshots_agree(const gs_snapshot_id *all, int size, uint64_t *step, int *first);
