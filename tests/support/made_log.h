/* A made-up training log: two steps, an epoch, a worker and three trace events. Tests damage its files. */
#pragma once

#include "tests/support/program.h"

extern const char gs_made_run[], gs_made_metrics[], gs_made_trace[];
enum { GS_MADE_LINES = 5 }; /* lines in gs_made_metrics; the last has an unknown kind */

/* Writes such a log to a new folder. Static buffer. */
const char *gs_made_log(void);

/* Writes or overwrites one of the log's files. */
void gs_made_file(const char *folder, const char *name, const char *text, size_t length);
#define GS_MADE_TEXT(folder, name, text) gs_made_file(folder, name, text, strlen(text))
