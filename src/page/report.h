/* The page of `gradsum report`: runs beside each other, as curves, bars, and a timeline.
 *
 * Its data are one JSON object, which the scripts report_*.js read:
 *
 *     version    of gradsum
 *     command    [words] of the command whose runs these are, where it is one command
 *     runs       [{name, notes: [sentences], about: {of run.json what is known},
 *                  steps: {column: [numbers]}, epochs: the same, workers: [{worker, samples_per_s, share}],
 *                  share: [5], samples_per_s,
 *                  trace: {all: how many bars the log has, events: [[ph, pid, tid, ts, dur, cat, name, id, args]]}}]:
 *                  the fields of Chrome's format, by time; of a bar's args the step alone
 *     sweep      {target, seeds, runs}: of `gradsum sweep` (src/cli/cmd_sweep.c)
 *
 * A curve has no more points than a screen shows: where a run has more steps, equally many of them, one after the
 * other, become one point, with their mean and, as "loss_min" and "loss_max", their extremes.
 */
#pragma once

#include "page/logged.h"

enum { GS_REPORT_MOST = 64 }; /* runs on a page */

/* The data of an empty page; to be given back with cJSON_Delete. argv: the words of the command that makes it, after
 * "gradsum"; none where its runs have their own. */
struct cJSON *gs_report_create(int argc, char *const *argv);

/* One run more, of `of` runs that the page will have. */
gs_status gs_report_add(struct cJSON *report, const char *name, const gs_logged *, int of);

/* The run that was added last. */
struct cJSON *gs_report_last(const struct cJSON *report);

/* GS_E_FILE: it cannot be written; GS_E_MEMORY. */
gs_status gs_report_write(const struct cJSON *report, const char *title, const char *path);

/* With five digits or all that are before the point: 0.012346 and not 0.01234560012817. JSON has no infinity and no
 * NaN: null. */
struct cJSON *gs_report_number(double);
