/* Lesson 11: the checks of local SGD. The average is compared with double precision, H = 1 with synchronous training;
 * and when workers have the same weights tells when they met. */
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Rows of drawn numbers (lab_number, lab_pick); values: one row for each rank. */
enum { WORKERS_ROW = 100, SAMPLES_ROW, EVERY_ROW, VALUES_ROW };

/* ---- 11.3 ---- */

typedef struct parts {
    int workers;
    double samples[4];
} parts;

static double number(int rank, size_t i) {
    return i == 0 ? 1 + 4 * rank : (double)lab_number(VALUES_ROW + (unsigned)rank, i) * (double)(1 + i % 13);
}

static gs_status check_average(gs_comm *c, void *context) {
    const parts *p = context;
    enum { COUNT = 50 };
    float x[COUNT];
    double all = 0;
    gs_sync *s;
    for (int r = 0; r < p->workers; r++) all += p->samples[r];
    for (size_t i = 0; i < COUNT; i++) x[i] = (float)number(c->rank, i);
    GS_TRY(gs_sync_create(&gs_sync_ps, c, COUNT, &s));
    gs_status status = weighted_average(s, x, COUNT, p->samples[c->rank], all);
    gs_sync_free(s);
    GS_TRY(status);
    for (size_t i = 0; i < COUNT; i++) {
        double wanted = 0;
        char text[60] = "";
        for (int r = 0; r < p->workers; r++) {
            wanted += p->samples[r] / all * (double)(float)number(r, i);
            snprintf(text + strlen(text), sizeof text - strlen(text), "%s%g", r > 0 ? ", " : "",
                     p->samples[r]);
        }
        LAB_CHECK(fabs((double)x[i] - wanted) <= 1e-5,
                  "workers with %s samples%s: element %zu is %.7g, expected %.7g", text,
                  i == 0 ? " that have 1, 5, 9, ..." : "", i, x[i], wanted);
    }
    return GS_OK;
}

static gs_status check_parts(const parts *p) {
    return gs_context(lab_run_ranks(p->workers, check_average, (void *)p), "%d worker%s", p->workers,
                      gs_s(p->workers));
}

gs_status lab_check_average(void) {
    static const parts cases[] = {{1, {3}},       {2, {2, 2}},       {2, {3, 1}},          {2, {2, 0}},
                                  {3, {0, 4, 1}}, {4, {1, 1, 1, 0}}, {4, {84, 83, 83, 83}}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) GS_TRY(check_parts(&cases[i]));
    for (size_t i = 0; i < 12; i++) {
        parts drawn = {1 + (int)lab_pick(WORKERS_ROW, i, 4), {0}};
        for (int r = 0; r < drawn.workers; r++)
            drawn.samples[r] = (double)lab_pick(SAMPLES_ROW, 4 * i + (size_t)r, i < 6 ? 5 : 200);
        drawn.samples[i % (size_t)drawn.workers]++; /* somebody has one */
        GS_TRY(check_parts(&drawn));
    }
    return GS_OK;
}

/* ---- 11.4 ---- */

/* H = 1 is the synchronous step: the mean of (W - lr mean gradient of a part), weighted, is W - lr mean gradient. */
static gs_status check_h_1(const char *devices, float momentum) {
    gs_settings s = lab_run_on(devices);
    gs_result synchronous = {0}, local = {0};
    s.momentum = momentum;
    s.sync = "ps";
    gs_status status = gs_train(&s, NULL, &synchronous);
    s.sync = "local";
    s.every = 1;
    if (status == GS_OK) status = gs_train(&s, NULL, &local);
    if (status == GS_OK && !(lab_largest_difference(&local, &synchronous) <= 1e-6))
        status =
            gs_fail(GS_E_DIFFER,
                    "train --devices %s --batch 333 --momentum %g --sync local --every 1: after 20 steps "
                    "the weights differ by %g from those of --sync ps, expected rounding, at most 1e-6",
                    devices, momentum, lab_largest_difference(&local, &synchronous));
    gs_result_free(&synchronous);
    gs_result_free(&local);
    return status;
}

static float seen[3][20]; /* by rank and step: one weight */

static void note_weight(gs_worker *w) {
    gs_mem last = gs_at(w->model->weights, w->model->params - 1);
    float *to = &seen[w->comm->rank][w->step - 1];
    if (w->device->ops->read(w->device, to, last, sizeof *to) != GS_OK) gs_bug("%s", gs_message());
}

/* The workers are the same after each H-th step and at the end of an epoch (step 19 of 6000 samples), and else not. */
static gs_status check_when(int every) {
    gs_settings s = lab_run_on("cpu,cpu,cpu");
    gs_result r = {0};
    s.sync = "local";
    s.every = every;
    s.test_hook = note_weight;
    GS_TRY(gs_train(&s, NULL, &r));
    gs_result_free(&r);
    for (int step = 1; step <= 20; step++) {
        if (step == 19) continue; /* the average of the epoch's end comes after the look */
        bool met = seen[0][step - 1] == seen[1][step - 1] && seen[0][step - 1] == seen[2][step - 1];
        LAB_CHECK(met == (step % every == 0),
                  "train --sync local --every %d: after step %d the workers' weights are %s, expected %s",
                  every, step, met ? "the same" : "different", met ? "different" : "the same");
    }
    return GS_OK;
}

gs_status lab_check_steps_alone(void) {
    GS_TRY(check_h_1("cpu", 0));
    GS_TRY(check_h_1("cpu,cpu", 0));
    GS_TRY(check_h_1("cpu,cpu,cpu", 0.9f));
    GS_TRY(check_h_1("cpu,cpu,cpu,cpu,cpu,cpu,cpu,cpu", 0.9f)); /* step 19 has 6 samples for 8 workers */
    GS_TRY(check_when(2));
    GS_TRY(check_when(7));
    return check_when(3 + (int)lab_pick(EVERY_ROW, 0, 15));
}
