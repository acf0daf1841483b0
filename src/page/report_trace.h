/* A part of gs_report_add that has a file of its own. */
#pragma once

#include "page/logged.h"

struct cJSON;

/* The timeline of a run, as "trace" of its object, with no more events than `of` runs leave room for:
 *
 *     names     [text]
 *     workers   ["worker 0 (cpu)"]; rows: [[which of the workers, "sync"]]
 *     events    [[row, kind, name, start, length, step]], by their starts; in us
 *     flows     [[row, time, row, time]]
 *     all       how many events the log has
 */
gs_status gs_report_add_trace(struct cJSON *run, const gs_logged_trace *, int of);
