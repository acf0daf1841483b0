/* A folder of checkpoints, each of two files:
 *
 *     step-000000200.safetensors    weights, the optimiser's vectors and the state of the run, as --save-state writes
 *                                   them (persist/state_file.h): also a file for --resume, eval and Python
 *     step-000000200.json           its manifest: step, place in the epoch, settings, bytes and SHA-256 of that file
 *
 * Both are written whole or not at all (io/file.h), the manifest last. So a checkpoint without a manifest was never
 * finished, and one whose file has not the manifest's SHA-256 was damaged later.
 *
 *     killed while ...      left in the folder                        the next run
 *     the first is written  step-200.safetensors.PID-0-HOST.tmp       removes it
 *     before the second     step-200.safetensors                      removes it
 *     an old one goes       step-100.safetensors                      removes it: the manifest goes first
 *
 * --resume takes the newest that is whole. While a run writes there it holds a lock on the file ".lock" (flock), which
 * ends with its process at the latest, and no other run can begin to write.
 */
#pragma once

#include <stdio.h>

#include "train/state.h"

enum { GS_CHECKPOINT_NOTE = 700 }; /* bytes of a sentence about a folder, at most */

/* Is it a folder? */
bool gs_checkpoint_is_folder(const char *path);

/* Is there no checkpoint in it, damaged ones included? Or no folder? */
bool gs_checkpoint_is_empty(const char *folder);

/* *file: the path of the newest checkpoint in the folder that is whole, to be freed. note: what is wrong with newer
 * ones, and that this one is taken instead; "": nothing. GS_E_FILE: there is no checkpoint, or the folder cannot be
 * read; GS_E_FORMAT: none is whole. */
gs_status gs_checkpoint_find(const char *folder, char **file, char note[GS_CHECKPOINT_NOTE]);

/* The one of this step, which rank 0 has found; waits seconds for a file system to show it. GS_E_FILE, GS_E_FORMAT. */
gs_status gs_checkpoint_find_step(const char *folder, uint64_t step, char **file);

/* gs_checkpoint_find keeps a run that writes there (of this machine or, where the file system has locks, of another)
 * from removing what it has found, until this is called, or another one is found. */
void gs_checkpoint_let_go(void);

/* After how many steps a file that gs_checkpoint_find has found was written. */
uint64_t gs_checkpoint_step(const char *file);

/* Of a file that lies beside a manifest: is it what was written? GS_E_FORMAT. Any other file is taken as it is. */
gs_status gs_checkpoint_check_file(const char *file);
/* GS_E_USAGE: it lies beside a manifest, or would be a checkpoint in `folder` by its name (NULL: none), and be lost. */
gs_status gs_checkpoint_check_save(const char *file, const char *folder);

/* GS_E_USAGE: the folder has checkpoints that a new run there would lose. */
gs_status gs_checkpoint_check_new(const char *folder);

/* Before a run that goes on from the file `resume` (NULL: a new one), after `step` steps, writes checkpoints there: the
 * folder is made if it is not there, what killed runs have left in it is removed (of this run's checkpoints all but the
 * `keep` newest), and a file can be written. GS_E_FILE; GS_E_USAGE: another run writes there now; or it has checkpoints
 * of another run, damaged ones included if a state can be read from them, or later ones of the same, which would be
 * mixed up. note: what was removed, or will be replaced; "": nothing. *lock is to be closed by gs_checkpoint_unlock in
 * any case, which removes an empty folder. */
gs_status gs_checkpoint_prepare(const char *folder, const char *resume, uint64_t step, int keep,
                                char note[GS_CHECKPOINT_NOTE], FILE **lock);
void gs_checkpoint_unlock(const char *folder, FILE *lock); /* NULL is allowed */

/* Is there one of this step, with a manifest? */
bool gs_checkpoint_is_there(const char *folder, uint64_t step);

/* Write one, then remove all but the `keep` newest up to this one. per_epoch: steps of an epoch. GS_E_FILE,
 * GS_E_MEMORY: the older ones are all still there. */
gs_status gs_checkpoint_write(const char *folder, const gs_model *, const gs_optimizer_ops *,
                              const float *weights, const gs_state *, uint64_t per_epoch, int keep,
                              uint64_t *bytes);
