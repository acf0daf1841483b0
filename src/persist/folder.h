/* A folder of checkpoints. Each consists of two files:
 *
 *     step-000000200.safetensors    weights, optimiser vectors and the state of the run, as written by --save-state
 *                                   (persist/state_file.h), for --resume, eval and Python
 *     step-000000200.json           its manifest: the step, and the size in bytes and the SHA-256 of that file
 *
 * Each file is written whole or not at all (io/file.h), the manifest last. A checkpoint without a manifest was
 * therefore never finished, and one whose SHA-256 differs from its manifest's was damaged later.
 *
 *     killed during         the folder then holds                     and the next run
 *     the first write       step-200.safetensors.PID-0-HOST.tmp       removes
 *     the second write      step-200.safetensors                      removes
 *     an old one's removal  step-100.safetensors                      removes: the manifest is removed first
 *
 * --resume takes the newest whole checkpoint. A run that writes into a folder locks it (flock), until its process ends
 * at the latest; no other run can write there.
 */
#pragma once

#include <dirent.h>

#include "train/state.h"

enum { GS_CHECKPOINT_NOTE = 700 }; /* maximum size of a sentence about a folder, in bytes */

bool gs_checkpoint_is_folder(const char *path);

/* True if the folder holds no checkpoint, not even a damaged one, or does not exist. */
bool gs_checkpoint_is_empty(const char *folder);

/* *file: the path of the newest whole checkpoint in the folder; the caller frees it. note: the defects of newer ones,
 * and that this one is taken instead; or "". GS_E_FILE: there is no checkpoint, or the folder cannot be read;
 * GS_E_FORMAT: none is whole. */
gs_status gs_checkpoint_find(const char *folder, char **file, char note[GS_CHECKPOINT_NOTE]);

/* Find the checkpoint of this step, which rank 0 has found. Waits up to 10 seconds for a slow file system to show it.
 * GS_E_FILE, GS_E_FORMAT. */
gs_status gs_checkpoint_find_step(const char *folder, uint64_t step, char **file);

/* The step of a file found by gs_checkpoint_find. */
uint64_t gs_checkpoint_step(const char *file);

/* GS_E_FORMAT: the file has a manifest beside it, but is not the file that was written. */
gs_status gs_checkpoint_check_file(const char *file);
/* GS_E_USAGE: the name of a file to be saved is that of a checkpoint. */
gs_status gs_checkpoint_check_save(const char *file);

/* Prepare the folder for a run that resumes from the file `resume` after `step` steps (NULL: a new run). Creates it if
 * necessary, removes what killed runs left (and all but the `keep` newest of this run's checkpoints), and checks that a
 * file can be written. GS_E_FILE. GS_E_USAGE: another run writes there; the folder holds another run's checkpoints,
 * whole or damaged; or it holds later ones of this run. note: what was removed; or "". *lock: the locked folder. Close
 * it after the run, even after a failure, unless it is NULL. */
gs_status gs_checkpoint_prepare(const char *folder, const char *resume, uint64_t step, int keep,
                                char note[GS_CHECKPOINT_NOTE], DIR **lock);

/* True if the folder holds a checkpoint of this step with a manifest. */
bool gs_checkpoint_is_there(const char *folder, uint64_t step);

/* Write a checkpoint, then remove all but the `keep` newest up to this one. GS_E_FILE, GS_E_MEMORY: no older checkpoint
 * was removed. */
gs_status gs_checkpoint_write(const char *folder, const gs_model *, const gs_optimizer_ops *,
                              const float *weights, const gs_state *, int keep, uint64_t *bytes);
