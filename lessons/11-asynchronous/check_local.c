/* Lesson 11: the checks of local SGD. H = 1 is compared with synchronous training; and when workers have the same
 * weights tells when they met. */
#include "check.h"

/* A row of drawn numbers (lab_pick). */
enum { EVERY_ROW = 100 };

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
