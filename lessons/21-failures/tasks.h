/* Lesson 21: the functions of lab.c.
 *
 *     21.1   lab_save         a checkpoint that survives whole
 *     21.2   lab_newest       the newest whole one
 *     21.3   lab_mtbf, lab_expected, lab_interval     what failures cost
 *     21.4   lab_suspect      who is to blame
 *     21.5   gs_snapshots_agree   from which step survivors go on: src/persist/snapshot_id.h
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include "lab.h"
#include "persist/snapshot_id.h"
#include "predict/failures.h"

/* ---- the checks' disk, whose power they cut after each call ----
 *
 * A call fails with GS_E_FILE if the disk is full or broken. All see a call's effect at once, but it is only in memory
 * at first. When the power fails, only some of the memory reaches the disk:
 *
 *     of the bytes of a file: any number of the first ones, or none
 *     of names (new files, renames, removals): any number of the first ones, or none; with or without the bytes */

/* Creates or empties the file `name`, and writes these bytes. If it fails, the file may hold some of them. */
gs_status disk_write(const char *name, const void *data, size_t bytes);
/* GS_OK: the bytes of this file are on the disk. Its name may not be. */
gs_status disk_sync(const char *name);
/* Renames the file `from` to `to`, in one moment, and replaces an older file `to`. If it fails, nothing has changed. */
gs_status disk_rename(const char *from, const char *to);
gs_status disk_remove(const char *name);
/* GS_OK: all names are on the disk. */
gs_status disk_sync_folder(void);

/* Task 21.1. Writes a checkpoint to the file `name`, which may hold an older one. `temporary` is another name that you
 * may use; a killed run may have left a file there.
 *
 *     At every moment, even if the power fails, `name` holds the older checkpoint or the new one, whole.
 *     GS_OK: it holds the new one, even after a power cut.
 *     If a call fails, lab_save returns its failure and leaves no file `temporary` (unless the disk prevents this). */
gs_status lab_save(const char *name, const char *temporary, const void *data, size_t bytes);

/* A file of a checkpoint, in a folder that several runs may have written to. In each checkpoint every process writes
 * its part of the state into a file of its own, and then that file's manifest, with a hash of the bytes. */
typedef struct lab_file {
    uint64_t step;     /* of the checkpoint, > 0 */
    int part, of;      /* part 0 .. of-1 of the checkpoint's `of` parts */
    bool has_manifest; /* false: the process was killed before it wrote the manifest */
    uint64_t hash;     /* the manifest's */
    size_t bytes;      /* of the file now */
    const unsigned char *data;
} lab_file;

static inline uint64_t lab_hash(const unsigned char *data, size_t bytes) { /* FNV-1a */
    uint64_t h = 14695981039346656037u;
    for (size_t i = 0; i < bytes; i++) h = (h ^ data[i]) * 1099511628211u;
    return h;
}

/* Task 21.2. The step of the newest whole checkpoint: each of its parts exists, with a manifest whose hash it matches.
 * 0: none is whole. The files come in any order. Runs with different numbers of processes may have written the same
 * step, with different `of`; parts of one do not complete the other. No two files have the same step, part and `of`. */
uint64_t lab_newest(size_t files, const lab_file *file);

/* `count` things of a kind, which fail independently, each once in `mtbf` seconds on average. */
typedef struct lab_things {
    size_t count;
    double mtbf;
} lab_things;

/* Task 21.3. The average time between two failures of a run that fails when any of these things fails, in seconds. At
 * least one kind has a count above 0. */
double lab_mtbf(size_t kinds, const lab_things *);

/* Task 21.3. The expected time of a run, in seconds. It fails every `mtbf` seconds on average (not f->mtbf, which is
 * one host's), at a constant rate. After each `every` seconds of work it writes a checkpoint, which takes f->checkpoint
 * seconds, until f->work seconds of work are done; no checkpoint follows the last second of work. A failure may come at
 * any time, even during a checkpoint. Then a restart takes f->restart seconds, and the work goes on from the last
 * complete checkpoint, or from the beginning. A failed restart begins again. */
double lab_expected(const gs_failures *f, double mtbf, double every);

/* Task 21.3. The best interval, in seconds of work between two checkpoints, for a run without end. A checkpoint takes
 * `checkpoint` seconds, at most `mtbf`. The expected time per second of work is at most 0.1 % above the minimum. */
double lab_interval(double checkpoint, double mtbf);

/* Task 21.4. Rank `me` gives up after waiting for `timeout` seconds. Each rank r has told which rank it waits for,
 * waits_for[r], and for how many seconds, seconds[r]; waits_for[r] = -1: none is known. Whose fault is it? Follow the
 * waits from `me` to the first rank that does not wait. A wait shorter than half of `timeout` does not count: a rank
 * that began to wait so late was late itself. -1: none (the chain ends in a circle: a message was lost). */
int lab_suspect(int me, int ranks, const int *waits_for, const double *seconds, double timeout);

/* Task 21.5. gs_snapshots_agree, as src/persist/snapshot_id.h says. You may call gs_snapshot_id_newest and
 * gs_snapshot_id_of_step. A failure is gs_fail(GS_E_DIFFER, "a sentence"). The step is the smallest of the survivors'
 * newest ones, even if some have no copy of it. Two copies of a step are the same state if their hashes are equal. If
 * *first is -1, *step does not matter. */
