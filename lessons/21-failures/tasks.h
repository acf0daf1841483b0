/* Lesson 21: the functions of lab.c.
 *
 *     21.1   lab_save         a checkpoint that is there whole, whatever happens
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

/* ---- a disk: the checks have one, and cut its power after each call ----
 *
 * A call fails with GS_E_FILE if the disk is full or broken. What a call has done is seen by all at once, but is only
 * in memory at first. When the power goes, of what is in memory only some reaches the disk:
 *
 *     of the bytes of a file: any number of the first ones, or none
 *     of names (new files, renames, removals): any number of the first ones, or none; with or without the bytes
 */

/* The file `name` is made, or emptied, and gets these bytes. If it fails, some of them may be in it. */
gs_status disk_write(const char *name, const void *data, size_t bytes);
/* The bytes of this file are on the disk, when it has returned GS_OK. Its name may not be. */
gs_status disk_sync(const char *name);
/* The file `from` is called `to`, at one moment: nobody ever sees neither. A file that was called `to` is gone. If it
 * fails, nothing has changed. */
gs_status disk_rename(const char *from, const char *to);
gs_status disk_remove(const char *name);
/* All names are on the disk, when it has returned GS_OK. */
gs_status disk_sync_folder(void);

/* Task 21.1. Write a checkpoint to the file `name`; there may be an older one, which it replaces. `temporary` is
 * another name that you may use; a run that was killed may have left a file there.
 *
 *     At every moment, also if the power goes, `name` holds the older checkpoint or the new one, whole.
 *     GS_OK: it holds the new one, and still does after a power cut.
 *     A call has failed: lab_save returns its failure. Nothing is called `temporary` (as far as the disk can do that).
 */
gs_status lab_save(const char *name, const char *temporary, const void *data, size_t bytes);

/* A file of a checkpoint, in a folder that several runs may have written to. In each checkpoint every process writes a
 * part of the state into a file of its own; and then that file's manifest, which has the hash of what was written. */
typedef struct lab_file {
    uint64_t step;     /* of the checkpoint, > 0 */
    int part, of;      /* part 0 .. of-1 of the `of` parts that it has */
    bool has_manifest; /* false: the process was killed before it wrote that */
    uint64_t hash;     /* the manifest's */
    size_t bytes;      /* of the file as it is now, */
    const unsigned char *data;
} lab_file;

static inline uint64_t lab_hash(const unsigned char *data, size_t bytes) { /* FNV-1a */
    uint64_t h = 14695981039346656037u;
    for (size_t i = 0; i < bytes; i++) h = (h ^ data[i]) * 1099511628211u;
    return h;
}

/* Task 21.2. The step of the newest checkpoint that is whole: each of its parts is there, with a manifest, and is what
 * was written. 0: none is. The files come in any order. The same step may have been written twice, by runs with
 * different numbers of processes, and so with different `of`; parts of one do not help the other. No two files have the
 * same step, part and `of`. */
uint64_t lab_newest(size_t files, const lab_file *file);

/* `count` things of a kind, which fail independently of each other, each once in `mtbf` seconds on average. */
typedef struct lab_things {
    size_t count;
    double mtbf;
} lab_things;

/* Task 21.3. Three functions.
 *
 * The run needs all of these things at once: when one fails it has failed. How many seconds are there between two
 * failures of the run, on average? At least one kind has a count above 0. */
double lab_mtbf(size_t kinds, const lab_things *);

/* The expected time of the run, in seconds. It fails every `mtbf` seconds on average (not f->mtbf, which is that of
 * one host), at a constant rate. After each `every` seconds of work it writes a checkpoint, which takes f->checkpoint
 * seconds, until f->work seconds of work are done. At the end there is nothing left to lose: no checkpoint comes after
 * the last second of work. A failure may come at any time, also while a checkpoint is written. After it a restart of
 * f->restart seconds is needed; then the work goes on from the last checkpoint that was wholly written, or from the
 * beginning. A restart may fail as well, and begins again. */
double lab_expected(const gs_failures *f, double mtbf, double every);

/* How many seconds of work between two checkpoints are best, in a run that goes on forever? A checkpoint takes
 * `checkpoint` seconds, at most `mtbf`. The expected time for a second of work must not be more than 0.1 % above the
 * least that there is. */
double lab_interval(double checkpoint, double mtbf);

/* Task 21.4. Rank `me` has waited for `timeout` seconds, and gives up. Each rank r has told whom it waits for,
 * waits_for[r], and for how many seconds, seconds[r]; waits_for[r] = -1: it waits for nobody, as far as is known. Whose
 * fault is it? Follow who waits for whom, from `me` on, to the first rank that waits for nobody. A wait that is younger
 * than half of `timeout` counts as none: who has begun to wait so late was late itself. -1: no rank is to blame (the
 * chain ends in a circle: a message was lost). */
int lab_suspect(int me, int ranks, const int *waits_for, const double *seconds, double timeout);

/* Task 21.5. gs_snapshots_agree, as src/persist/snapshot_id.h says. You may call gs_snapshot_id_newest and
 * gs_snapshot_id_of_step. A failure is gs_fail(GS_E_DIFFER, "a sentence"). The step is the smallest of the survivors'
 * newest ones, whether all have a copy of it or not. Two copies of a step are the same state if their hashes are the
 * same. Where *first is -1, *step does not matter. */
