/* What `compare` ends with, and the lines of the workers of `train`. */
#pragma once

#include "cli/draw/bars.h"
#include "train/train.h"

struct cJSON;

typedef struct gs_compare_bar {
    const char *name;
    double speed_up;
    double ideal; /* the speed-up if every worker were as fast as those of its base */
    double share[GS_PHASES];
} gs_compare_bar;

/* Two bars for each row: speed-up, and shares of time. */
void gs_compare_chart(FILE *, const gs_screen *, const gs_compare_bar *, int count);

/* A line for each worker of a run, and one for all; nothing for a single worker. At most 80 columns, and 60 where the
 * names of devices are short. */
void gs_worker_lines(FILE *, const gs_screen *, const gs_result *);
/* The same as an array of the last JSON line. */
void gs_worker_json(const gs_result *, struct cJSON *);
/* {"weights": bytes, ..., "total": bytes} */
struct cJSON *gs_memory_json(const gs_memory_use *);
