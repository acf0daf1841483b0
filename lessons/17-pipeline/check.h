/* What the checks of lab 17 share: passes as text, and a clock. */
#pragma once

#include "tasks.h"

enum { CHECK_STAGES = MOST_STAGES, CHECK_MICRO_BATCHES = 16, CHECK_ROOM = 2 * CHECK_MICRO_BATCHES };

/* "F0 F1 B0 ...": the first passes of a list. Each thread can use four results at the same time. */
const char *check_text(const passes *);

/* Like pipeline_time, but recursive: each pass asks when the passes it needs end. The lists may be a student's. */
double check_time(int p, int m, const passes *lists, const double *forward, const double *backward,
                  double *end);

gs_status check_pipeline_time(void);
gs_status check_micro_batches(void);
gs_status check_cut(void);
