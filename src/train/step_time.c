#include "train/step_time.h"

#include <stdlib.h>
#include <string.h>

void gs_step_times_begin(gs_step_times *p, double now) {
    p->since = now;
}

void gs_step_times_ended(gs_step_times *p, double now, bool counts) {
    if (counts) p->seconds[p->steps++ % GS_STEP_TIMES] = (float)(now - p->since);
    p->since = now;
}

static int compare_floats(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

double gs_step_times_median(const gs_step_times *p) {
    float sorted[GS_STEP_TIMES];
    size_t count = p->steps < GS_STEP_TIMES ? (size_t)p->steps : GS_STEP_TIMES;
    if (count == 0) return 0;
    memcpy(sorted, p->seconds, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, compare_floats);
    return (double)sorted[(count - 1) / 2];
}
