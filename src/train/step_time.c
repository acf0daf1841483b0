#include "train/step_time.h"

#include "core/median.h"

void gs_step_times_ended(gs_step_times *p, double now, bool counts) {
    if (counts) p->seconds[p->steps++ % GS_STEP_TIMES] = (float)(now - p->since);
    p->since = now;
}

double gs_step_times_median(const gs_step_times *p) {
    double seconds[GS_STEP_TIMES];
    const int count = p->steps < GS_STEP_TIMES ? (int)p->steps : GS_STEP_TIMES;
    for (int i = 0; i < count; i++) seconds[i] = (double)p->seconds[i];
    return count ? gs_median(seconds, count) : 0;
}
