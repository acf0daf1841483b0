/* A folder of checkpoints. Each checkpoint consists of two files:
 *
 *     step-000000200.safetensors    weights, optimiser vectors and the state of the run, as written by --save-state
 *                                   (persist/state_file.h), for --resume, eval and Python
 *     step-000000200.json           its manifest: step, position in the epoch, settings; size and SHA-256 of the above
 *
 * Each file is written whole or not at all (io/file.h), and the manifest is written last. A checkpoint without a
 * manifest was therefore never finished, and one whose SHA-256 differs from the one in its manifest was damaged later.
 *
 *     killed during         the folder then holds                     and the next run
 *     the first write       step-200.safetensors.PID-0-HOST.tmp       removes
 *     the second write      step-200.safetensors                      removes
 *     an old one's removal  step-100.safetensors                      removes: the manifest is removed first
 *
 * --resume takes the newest whole checkpoint. A run that writes into a folder locks the file ".lock" there (flock), so
 * that no other run can write there. The lock is released when the run's process ends, if not before.
 */
#pragma once

#include <stdio.h>

#include "train/state.h"

enum { GS_CHECKPOINT_NOTE = 700 }; /* maximum size of a sentence about a folder, in bytes */

bool gs_checkpoint_is_folder(const char *path);

/* True if the folder holds no checkpoint, not even a damaged one, or does not exist. */
bool gs_checkpoint_is_empty(const char *folder);

/* *file: the path of the newest whole checkpoint in the folder; the caller frees it. note: if newer checkpoints are
 * defective, why, and that this one is taken instead; else "". GS_E_FILE: there is no checkpoint, or the folder cannot
 * be read; GS_E_FORMAT: none is whole. */
gs_status gs_checkpoint_find(const char *folder, char **file, char note[GS_CHECKPOINT_NOTE]);

/* Find the checkpoint of this step, which rank 0 has already found. Waits up to 10 seconds for a slow file system to
 * show it. GS_E_FILE, GS_E_FORMAT. */
gs_status gs_checkpoint_find_step(const char *folder, uint64_t step, char **file);

/* Release the checkpoint that gs_checkpoint_find found. Until this call, or until the next search, other runs cannot
 * remove it: neither runs on this machine nor, if the file system supports locks between machines, runs on others. */
void gs_checkpoint_let_go(void);

/* The step of a file found by gs_checkpoint_find. */
uint64_t gs_checkpoint_step(const char *file);

/* GS_E_FORMAT: there is a manifest beside the file, but it does not match the file. */
gs_status gs_checkpoint_check_file(const char *file);
/* GS_E_USAGE: there is a manifest beside the file, so saving would overwrite a checkpoint; or the file has the name of
 * a checkpoint, so a later run would remove it as a damaged one. */
gs_status gs_checkpoint_check_save(const char *file);

/* GS_E_USAGE: the folder holds checkpoints that a new run would overwrite. */
gs_status gs_checkpoint_check_new(const char *folder);

/* Prepare the folder for a run that resumes from the file `resume` after `step` steps (NULL: a new run). Creates it if
 * necessary, removes what killed runs left (and all but the `keep` newest of this run's checkpoints), and checks that a
 * file can be written. GS_E_FILE. GS_E_USAGE: another run is writing there, or the folder holds checkpoints of another
 * run (including damaged ones whose state is readable), or checkpoints of this run after `step`. note: what was removed
 * or will be replaced; else "". Release *lock with gs_checkpoint_unlock even after a failure. */
gs_status gs_checkpoint_prepare(const char *folder, const char *resume, uint64_t step, int keep,
                                char note[GS_CHECKPOINT_NOTE], FILE **lock);
void gs_checkpoint_unlock(const char *folder, FILE *lock); /* NULL is allowed */

/* True if the folder holds a checkpoint of this step with a manifest. */
bool gs_checkpoint_is_there(const char *folder, uint64_t step);

/* Write a checkpoint; then, of it and the older ones, remove all but the `keep` newest. per_epoch: steps per epoch.
 * GS_E_FILE, GS_E_MEMORY; after a failure no older checkpoint has been removed. */
gs_status gs_checkpoint_write(const char *folder, const gs_model *, const gs_optimizer_ops *,
                              const float *weights, const gs_state *, uint64_t per_epoch, int keep,
                              uint64_t *bytes);
