/* The page of `gradsum report`: several runs as curves, bars, and a timeline.
 *
 * Its data are one JSON object, which the scripts report_*.js read:
 *
 *     version    of gradsum
 *     command    [words], if one command made all the runs
 *     runs       [{name, notes: [sentences], about: {run.json},
 *                  steps: {column: [numbers]}, epochs: like steps, workers: [{worker, samples_per_s, share}],
 *                  share: [5], samples_per_s,
 *                  trace: {all: number of bars in the log, events: [[ph, pid, tid, ts, dur, cat, name, id, args]]}}]:
 *                  the fields of Chrome's format, sorted by time; a bar's args hold only the step
 *     sweep      {target, seeds, runs}, only from `gradsum sweep` (src/cli/cmd_sweep.c)
 *
 * A curve has no more points than a screen can show. In a longer run, each point combines the same number of
 * consecutive steps: it holds their mean and, as "loss_min" and "loss_max", their extremes.
 */
#pragma once

#include "page/logged.h"

enum { GS_REPORT_MOST = 64 }; /* runs on a page */

/* Create the data of an empty page; free them with cJSON_Delete. argv: the command that makes the page, without
 * "gradsum"; argc 0: each run has its own command. */
struct cJSON *gs_report_create(int argc, char *const *argv);

/* Add a run to a page that will have `of` runs in total. */
gs_status gs_report_add(struct cJSON *report, const char *name, const gs_logged *, int of);

/* Returns the run added last. */
struct cJSON *gs_report_last(const struct cJSON *report);

/* GS_E_FILE: the file cannot be written; GS_E_MEMORY. */
gs_status gs_report_write(const struct cJSON *report, const char *title, const char *path);

/* A number rounded to five digits, but keeping all digits before the point: 0.012346, not 0.01234560012817. Infinity
 * and NaN, which JSON lacks, become null. */
struct cJSON *gs_report_number(double);
