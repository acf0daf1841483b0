/* Task 14.3. The expected gradients are computed from all workers' numbers at once. */
#include "check.h"

#include <math.h>
#include <string.h>

enum { MOST_NUMBERS = MOST_WORKERS * MOST_SAMPLES * MOST_CHANNELS * MOST_PLANE };

static const float BEFORE = 3; /* in dweight and dbias */

/* A whole batch, and the statistics from its forward. */
typedef struct whole {
    batch b;
    size_t number, count;
    float x[MOST_NUMBERS], dy[MOST_NUMBERS];
    float weight[MOST_CHANNELS], mean[MOST_CHANNELS], var[MOST_CHANNELS];
    float eps;
    double all, sum_dy[MOST_CHANNELS], sum_dyu[MOST_CHANNELS];
} whole;

static size_t channel_of(const whole *w, size_t j) {
    return j / w->b.plane % w->b.channels;
}

static double u_of(const whole *w, size_t j) {
    const size_t k = channel_of(w, j);
    return ((double)w->x[j] - (double)w->mean[k]) / sqrt((double)w->var[k] + (double)w->eps);
}

static void draw(whole *w) {
    w->count = lab_samples(&w->b) * w->b.channels * w->b.plane;
    w->eps = 0.5f / (float)(1 + w->number % 3);
    w->all = (double)(lab_samples(&w->b) * w->b.plane);
    double mean[MOST_CHANNELS] = {0}, var[MOST_CHANNELS] = {0};
    for (size_t j = 0; j < w->count; j++) {
        w->x[j] = 2 * lab_number(X_ROW, 1000000 + w->number * MOST_NUMBERS + j);
        w->dy[j] = 0.5f + lab_number(DY_ROW, w->number * MOST_NUMBERS + j);
        mean[channel_of(w, j)] += (double)w->x[j] / w->all;
    }
    for (size_t j = 0; j < w->count; j++)
        var[channel_of(w, j)] += pow((double)w->x[j] - mean[channel_of(w, j)], 2) / w->all;
    for (size_t k = 0; k < w->b.channels; k++) {
        w->weight[k] = 1 + (float)(k % 3) + 0.5f * lab_number(WEIGHT_ROW, w->number * MOST_CHANNELS + k);
        w->mean[k] = (float)mean[k];
        w->var[k] = (float)var[k];
        w->sum_dy[k] = w->sum_dyu[k] = 0;
    }
    for (size_t j = 0; j < w->count; j++) {
        w->sum_dy[channel_of(w, j)] += (double)w->dy[j];
        w->sum_dyu[channel_of(w, j)] += (double)w->dy[j] * u_of(w, j);
    }
}

static gs_status check_own_sums(const whole *w, size_t first, size_t count, const float *dweight,
                                const float *dbias) {
    for (size_t k = 0; k < w->b.channels; k++) {
        double weight = (double)BEFORE, bias = (double)BEFORE;
        for (size_t j = first; j < first + count; j++) {
            weight += channel_of(w, j) == k ? (double)w->dy[j] * u_of(w, j) : 0;
            bias += channel_of(w, j) == k ? (double)w->dy[j] : 0;
        }
        LAB_CHECK(fabs((double)dbias[k] - bias) <= 1e-4,
                  "%s: channel %zu: dbias was %g and is %.7g, expected %.7g", lab_batch_text(&w->b), k,
                  BEFORE, dbias[k], bias);
        LAB_CHECK(fabs((double)dweight[k] - weight) <= 1e-4,
                  "%s: channel %zu: dweight was %g and is %.7g, expected %.7g", lab_batch_text(&w->b), k,
                  BEFORE, dweight[k], weight);
    }
    return GS_OK;
}

static gs_status backward(gs_comm *c, void *context) {
    const whole *w = context;
    const size_t each = w->b.channels * w->b.plane, first = lab_before(&w->b, c->rank) * each;
    const size_t n = w->b.samples[c->rank], count = n * each;
    const norm b = {n,         w->b.channels, w->b.plane, w->x + first, w->dy + first,
                    w->weight, w->mean,       w->var,     w->eps,       w->all};
    float dx[MOST_NUMBERS], dweight[MOST_CHANNELS], dbias[MOST_CHANNELS];
    double numbers[2 * MOST_CHANNELS];
    for (size_t j = 0; j < count; j++) dx[j] = NAN;
    for (size_t k = 0; k < w->b.channels; k++) dweight[k] = dbias[k] = BEFORE;
    for (size_t k = 0; k < 2 * w->b.channels; k++) numbers[k] = NAN;
    GS_TRY(shared_backward(c, &b, dx, dweight, dbias, numbers));
    GS_TRY(check_own_sums(w, first, count, dweight, dbias));
    for (size_t j = 0; j < count; j++) {
        const size_t k = channel_of(w, first + j);
        const double common = (w->sum_dy[k] + u_of(w, first + j) * w->sum_dyu[k]) / w->all;
        const double wanted = (double)w->weight[k] / sqrt((double)w->var[k] + (double)w->eps) *
                              ((double)w->dy[first + j] - common);
        LAB_CHECK(fabs((double)dx[j] - wanted) <= 1e-4, "%s: dx[%zu], of channel %zu, is %.7g, expected %.7g",
                  lab_batch_text(&w->b), j, k, dx[j], wanted);
    }
    return lab_check_one_call(c);
}

gs_status lab_check_backward(void) {
    static const batch always[] = {{1, {2}, 1, 1},    {1, {2}, 2, 3},       {2, {1, 1}, 1, 1},
                                   {2, {1, 3}, 2, 2}, {3, {2, 0, 1}, 2, 2}, {2, {2, 1}, MOST_CHANNELS, 2}};
    enum { ALWAYS = sizeof always / sizeof *always };
    static whole w; /* all ranks read it */
    for (size_t i = 0; i < ALWAYS + 6; i++) {
        w = (whole){.b = i < ALWAYS ? always[i] : lab_drawn_batch(200 + i), .number = i};
        draw(&w);
        GS_TRY(lab_run_counted(w.b.workers, backward, &w));
        if (i == 2) GS_TRY(lab_run_broken(2, 0, backward, &w));
    }
    return GS_OK;
}
