/* What a worker computes in a step, layer by layer: measured, or from FLOPs. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "layer/make.h"
#include "model/model_text.h"
#include "train/internal.h"
#include "train/memory/memory.h"
#include "train/profile/times.h"
#include "train/simulate/simulate.h"

/* ---- from FLOPs ---- */

static gs_status from_flops(const gs_simulation *s, gs_simulated_work *w) {
    gs_shape in = s->input;
    const char *model = s->settings.model ? s->settings.model : "mlp";
    if (in.c == 0) {
        in = (gs_shape){1, 28, 28, 0};
        gs_model_usual_input(model, &in);
    }
    GS_TRY(gs_model_create(NULL, &(gs_model_wishes){.text = model, .in = in}, &w->plan));
    GS_TRY(gs_layer_times_create(w->plan->net->children, &w->times));
    for (int i = 0; i < w->times.layers; i++) {
        const gs_layer_flops flops = gs_layer_flops_of(w->plan->net->child[i]);
        w->times.forward[i] = flops.forward * (w->samples / s->flops);
        w->times.backward[i] = flops.backward * (w->samples / s->flops);
    }
    w->gamma = s->gamma > 0 ? s->gamma : 0;
    return GS_OK;
}

/* ---- measured ---- */

/* Seconds to add a byte to another. */
static double measure_gamma(void) {
    enum { FLOATS = 1 << 20, TIMES = 5 };
    float *sum = calloc(FLOATS, sizeof *sum), *x = calloc(FLOATS, sizeof *x);
    double best = 1;
    for (int i = 0; i < TIMES && sum && x; i++) {
        const double start = gs_seconds();
        for (int k = 0; k < FLOATS; k++) sum[k] += x[k] + (float)i;
        best = fmin(best, gs_seconds() - start);
    }
    const bool there = sum && x && sum[FLOATS / 2] >= 0;
    free(sum);
    free(x);
    return there ? best / (FLOATS * sizeof(float)) : 0;
}

static gs_status measure(const gs_settings *s, gs_simulated_work *w) {
    enum { MOST = 64, LEAST = 4 /* samples */ };
    static const double FLOPS = 4e9; /* of a step: about a tenth of a second on a core */
    const double enough =
        fmin(MOST, fmax(LEAST, FLOPS / (w->plan->flops_forward + w->plan->flops_backward + 1)));
    gs_layer_times *t = &w->times;
    GS_TRY(gs_layer_times_of(&(gs_layer_bench){.settings = s,
                                               .data = s->train_set,
                                               .device = s->devices,
                                               .threads = 1,
                                               .samples = (size_t)ceil(fmin(w->samples, enough)),
                                               .updates = true},
                             t));
    for (int i = 0; i < t->layers; i++) {
        t->forward[i] *= w->samples / (double)t->samples;
        t->backward[i] *= w->samples / (double)t->samples;
    }
    return GS_OK;
}

static gs_status measured(const gs_simulation *sim, gs_simulated_work *w) {
    gs_memory_plan memory = {0};
    char device[48];
    const gs_settings *s = &memory.settings;
    gs_settings one = sim->settings;
    one.layout = NULL;
    one.pipeline_schedule = NULL;
    one.pipeline = one.tensor = one.zero = one.micro_batches = one.bucket = 0;
    one.sequence = false;
    one.wire = GS_WIRE_F32;
    one.link = (gs_link){0, 0};
    one.jitter.count = 0;
    one.sync = "allreduce";
    one.steps = 0;
    one.batch = 1;
    one.threads = 1;
    one.accumulate = 1;
    GS_TRY(gs_devices_name(one.devices, 0, device));
    one.devices = device;
    gs_status status = gs_memory_plan_create(&one, &memory);
    if (status == GS_OK)
        status =
            gs_model_create(NULL, &(gs_model_wishes){.text = s->model, .in = s->train_set->shape}, &w->plan);
    if (status == GS_OK) status = measure(s, w);
    gs_memory_plan_free(&memory);
    w->gamma = sim->gamma >= 0 ? sim->gamma : measure_gamma();
    w->measured = true;
    return status;
}

gs_status gs_simulated_work_create(const gs_simulation *s, gs_simulated_work *w) {
    *w = (gs_simulated_work){.samples = (double)s->settings.batch / s->workers};
    return s->flops > 0 ? from_flops(s, w) : measured(s, w);
}

void gs_simulated_work_free(gs_simulated_work *w) {
    gs_model_free(w->plan);
    gs_layer_times_free(&w->times);
    *w = (gs_simulated_work){0};
}

double gs_simulated_compute(const gs_simulated_work *w) {
    double all = w->times.update;
    for (int i = 0; i < w->times.layers; i++) all += w->times.forward[i] + w->times.backward[i];
    return all;
}
