#include "cli/step/step.h"

#include <math.h>

void gs_step_values_of(const float *data, size_t count, int bars, gs_step_values *out) {
    double squares = 0;
    *out = (gs_step_values){.min = data[0], .max = data[0]};
    for (size_t i = 0; i < count; i++) {
        if (data[i] < out->min) out->min = data[i];
        if (data[i] > out->max) out->max = data[i];
        squares += (double)data[i] * data[i];
    }
    out->norm = sqrt(squares);
    out->shown = count < GS_STEP_SOME ? (int)count : GS_STEP_SOME;
    for (int i = 0; i < out->shown; i++)
        out->some[i] = data[out->shown > 1 ? (count - 1) * (size_t)i / (size_t)(out->shown - 1) : 0];
    out->bars = count < (size_t)bars ? (int)count : bars;
    for (int b = 0; b < out->bars; b++) {
        gs_shard part = gs_shard_of(count, b, out->bars);
        double sum = 0;
        for (size_t i = part.first; i < part.first + part.count; i++) sum += data[i];
        out->bar[b] = (float)(sum / (double)part.count);
    }
}

static bool same(double x, double y) {
    return x == y || (isnan(x) && isnan(y));
}

static bool all_same(int count, const float *x, const float *y) {
    int i = 0;
    while (i < count && same(x[i], y[i])) i++;
    return i == count;
}

bool gs_step_values_same(const gs_step_values *a, const gs_step_values *b) {
    return same(a->norm, b->norm) && same(a->min, b->min) && same(a->max, b->max) && a->shown == b->shown &&
           a->bars == b->bars && all_same(a->shown, a->some, b->some) && all_same(a->bars, a->bar, b->bar);
}
