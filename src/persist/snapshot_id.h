/* The step from which a new generation goes on. Each process tells what it has kept (snapshots.h), so all agree. */
#pragma once

#include <stdint.h>

#include "core/error.h"

enum { GS_SNAPSHOTS = 2 /* that a process keeps */, GS_SNAPSHOT_HASH = 65 };

/* What a process tells the others of each of its snapshots. */
typedef struct gs_snapshot_id {
    uint64_t valid, step, updates, good, samples, saved, params,
        vectors; /* valid 0: it has no such snapshot */
    float loss_scale;
    char hash[GS_SNAPSHOT_HASH]; /* SHA-256 of the state */
} gs_snapshot_id;

/* Of a process's GS_SNAPSHOTS ids that of its last step, or that of this step; NULL: it has none (snapshots.c). */
const gs_snapshot_id *gs_snapshot_id_newest(const gs_snapshot_id *of);
const gs_snapshot_id *gs_snapshot_id_of_step(const gs_snapshot_id *of, uint64_t step);

/* all[size * GS_SNAPSHOTS]: the ids of process 0, those of process 1, ...; a new one has none that is valid. *step: the
 * last step that all survivors have; *first: the first of them, who sends its state to the new ones; -1: nobody has
 * one, and the run begins. GS_E_DIFFER: a survivor has no copy of that step, or another state. */
gs_status gs_snapshots_agree(const gs_snapshot_id *all, int size, uint64_t *step, int *first);
