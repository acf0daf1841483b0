/* What bounds a run: its loader or its step. Lesson 1 replaces this file. */
#include <stdio.h>
#include "predict/profile.h"

/* Three digits, without an exponent for large values. */
static const char *number(double value, char text[24]) {
    snprintf(text, 24, value < 999.5 ? "%.3g" : "%.0f", value);
    return text;
}

void gs_profile_verdict(const gs_profile *p, char *text, size_t size) {
    double ratio = p->loader / p->step, mb = p->sample_bytes / 1e6;
    char times[24], step[24], loader[24];
    number(ratio >= 1 ? ratio : 1 / ratio, times);
    number(p->step * mb, step);
    number(p->loader * mb, loader);
    if (ratio >= 1)
        snprintf(text, size,
                 "The training step bounds this run: the loader alone is %s times as fast.\n"
                 "The step uses %s MB/s of samples; the loader could supply %s MB/s.",
                 times, step, loader);
    else
        snprintf(text, size,
                 "The loader bounds this run: the training step alone is %s times as fast,\n"
                 "and must wait at least %.0f %% of the time: it could use %s MB/s of samples,\nbut is "
                 "supplied with %s MB/s.",
                 times, 100 * (1 - ratio), step, loader);
}
