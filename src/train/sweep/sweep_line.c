#include "train/sweep/sweep_line.h"

#include <math.h>
#include <stdlib.h>

#include "core/median.h"

gs_spread gs_spread_of(const double *values, int count) {
    double sorted[GS_SWEEP_MOST] = {0};
    int finite = 0;
    for (int i = 0; i < count; i++) {
        sorted[i] = isfinite(values[i]) ? values[i] : INFINITY;
        finite += isfinite(values[i]) != 0;
    }
    gs_sort_doubles(sorted, count);
    return (gs_spread){finite > 0 ? sorted[0] : NAN, finite > 0 ? sorted[finite - 1] : NAN,
                       (sorted[(count - 1) / 2] + sorted[count / 2]) / 2};
}

static double steps_of(const gs_sweep_run *r) {
    return r->reached ? (double)r->at.step : INFINITY;
}

static int fewer_steps(const void *a, const void *b) {
    double x = steps_of(*(const gs_sweep_run *const *)a), y = steps_of(*(const gs_sweep_run *const *)b);
    return (x > y) - (x < y);
}

gs_sweep_line gs_sweep_line_of(const gs_sweep *s, int i) {
    gs_sweep_line line = {.batch = s->batch[i]};
    double steps[GS_SWEEP_MOST], epochs[GS_SWEEP_MOST], seconds[GS_SWEEP_MOST], accuracy[GS_SWEEP_MOST];
    double speed[GS_SWEEP_MOST];
    const gs_sweep_run *sorted[GS_SWEEP_MOST];
    size_t an_epoch = (s->samples + line.batch - 1) / line.batch; /* steps */
    for (int k = 0; k < s->seeds; k++) {
        const gs_sweep_run *r = &s->run[i * s->seeds + k];
        if (!r->ran) continue;
        steps[line.runs] = steps_of(r);
        epochs[line.runs] = steps_of(r) / (double)an_epoch;
        seconds[line.runs] = r->reached ? r->at.seconds : INFINITY;
        accuracy[line.runs] = r->result.test_accuracy;
        speed[line.runs] = r->result.samples_per_s;
        sorted[line.runs++] = r;
        line.reached += r->reached;
        line.diverged += r->diverged;
        line.rates = r->rates;
    }
    if (line.runs == 0) return line;
    line.steps = gs_spread_of(steps, line.runs);
    line.epochs = gs_spread_of(epochs, line.runs);
    line.seconds = gs_spread_of(seconds, line.runs);
    line.accuracy = gs_spread_of(accuracy, line.runs);
    line.samples_per_s = gs_spread_of(speed, line.runs);
    qsort(sorted, (size_t)line.runs, sizeof *sorted, fewer_steps);
    line.middle = sorted[(line.runs - 1) / 2];
    return line;
}
