/* A folder of checkpoints, each of two files:
 *
 *     step-000000200.safetensors    weights, the optimiser's vectors and the state of the run, as --save-state writes
 *                                   them (persist/state_file.h), for --resume, eval and Python
 *     step-000000200.json           its manifest: the step, and the bytes and SHA-256 of that file
 *
 * Both are written whole or not at all (io/file.h), the manifest last. A checkpoint without a manifest was therefore
 * never finished, and one whose SHA-256 differs from the manifest's was damaged later.
 *
 *     killed during         leaves in the folder                      which the next run
 *     the first write       step-200.safetensors.PID-0-HOST.tmp       removes
 *     the second write      step-200.safetensors                      removes
 *     an old one's removal  step-100.safetensors                      removes: the manifest is removed first
 *
 * --resume takes the newest whole checkpoint. A run that writes into a folder locks it (flock), at most until its
 * process ends, and no other run can write there.
 */
#pragma once

#include <dirent.h>

#include "train/state.h"

enum { GS_CHECKPOINT_NOTE = 700 }; /* bytes of a sentence about a folder, at most */

bool gs_checkpoint_is_folder(const char *path);

/* True if the folder holds no checkpoint, not even a damaged one, or does not exist. */
bool gs_checkpoint_is_empty(const char *folder);

/* *file: the path of the newest whole checkpoint in the folder, to be freed. note: the defects of newer ones, and that
 * this one replaces them; or "". GS_E_FILE: there is no checkpoint, or the folder cannot be read; GS_E_FORMAT: none is
 * whole. */
gs_status gs_checkpoint_find(const char *folder, char **file, char note[GS_CHECKPOINT_NOTE]);

/* The checkpoint of this step, which rank 0 has found. Waits seconds for a slow file system to show it. GS_E_FILE,
 * GS_E_FORMAT. */
gs_status gs_checkpoint_find_step(const char *folder, uint64_t step, char **file);

/* The step of a file that gs_checkpoint_find has found. */
uint64_t gs_checkpoint_step(const char *file);

/* GS_E_FORMAT: the file has a manifest beside it, and is not the one that was written. */
gs_status gs_checkpoint_check_file(const char *file);
/* GS_E_USAGE: a file to be saved has the name of a checkpoint. */
gs_status gs_checkpoint_check_save(const char *file);

/* Prepares the folder for a run that resumes from the file `resume` after `step` steps (NULL: a new run): makes it if
 * necessary, removes what killed runs have left (of this run's checkpoints all but the `keep` newest), and checks that
 * a file can be written. GS_E_FILE. GS_E_USAGE: another run writes there; or the folder has checkpoints of another run,
 * whole or damaged; or later ones of this run. note: what was removed; or "". *lock: the locked folder; close it after
 * the run, also after a failure, unless it is NULL. */
gs_status gs_checkpoint_prepare(const char *folder, const char *resume, uint64_t step, int keep,
                                char note[GS_CHECKPOINT_NOTE], DIR **lock);

/* True if the folder has a checkpoint of this step, with a manifest. */
bool gs_checkpoint_is_there(const char *folder, uint64_t step);

/* Writes a checkpoint, then removes all but the `keep` newest up to this one. GS_E_FILE, GS_E_MEMORY: no older one was
 * removed. */
gs_status gs_checkpoint_write(const char *folder, const gs_model *, const gs_optimizer_ops *,
                              const float *weights, const gs_state *, int keep, uint64_t *bytes);
