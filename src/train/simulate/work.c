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
#include "train/profile/profile.h"
#include "train/simulate/simulate.h"

static gs_status allocate(gs_simulated_work *w) {
    const int layers = w->plan->net->children;
    w->layer = calloc((size_t)layers + 1, sizeof *w->layer);
    if (!w->layer) return gs_fail(GS_E_MEMORY, "no memory for %d layers", layers);
    for (int i = 0; i < layers; i++) w->layer[i].at = w->plan->net->child[i]->at;
    return GS_OK;
}

/* ---- from FLOPs ---- */

static gs_status from_flops(const gs_simulation *s, gs_simulated_work *w) {
    gs_shape in = s->input;
    const char *model = s->settings.model ? s->settings.model : "mlp";
    if (in.c == 0) {
        in = (gs_shape){1, 28, 28, 0};
        gs_model_usual_input(model, &in);
    }
    GS_TRY(gs_model_create(NULL, &(gs_model_wishes){.text = model, .in = in}, &w->plan));
    GS_TRY(allocate(w));
    for (int i = 0; i < w->plan->net->children; i++) {
        const gs_layer_flops flops = gs_layer_flops_of(w->plan->net->child[i]);
        w->layer[i].forward = flops.forward * (w->samples / s->flops);
        w->layer[i].backward = flops.backward * (w->samples / s->flops);
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

/* Rows of layers are named by their place, "34.body.0"; what is around the layers counts as a part of their ends. */
static gs_status spread(const gs_profile *p, double batch, gs_simulated_work *w) {
    const int layers = w->plan->net->children;
    double all = 0;
    for (int r = 0; r < p->row_count; r++) {
        const gs_profile_row *row = &p->rows[r];
        const double forward = fmax(0, row->cell[GS_FORWARD].seconds),
                     backward = fmax(0, row->cell[GS_BACKWARD].seconds);
        all += forward + backward;
        if (strcmp(row->name, "update") == 0) {
            w->update += forward + backward;
            continue;
        }
        const int i = strcmp(row->name, "data") == 0   ? 0
                      : strcmp(row->name, "loss") == 0 ? layers - 1
                                                       : (int)strtol(row->name, NULL, 10);
        if (i < 0 || i >= layers) gs_bug("a row of the profile is called '%s'", row->name);
        w->layer[i].forward += forward;
        w->layer[i].backward += backward;
    }
    if (!(all > 0) || !(p->step > 0))
        return gs_fail(GS_E_USAGE, "a step takes no time that could be measured");
    /* The rows wait for the device after each layer; the step alone does not. */
    const double scale = batch / p->step / all;
    for (int i = 0; i < layers; i++) {
        w->layer[i].forward *= scale * w->samples / batch;
        w->layer[i].backward *= scale * w->samples / batch;
    }
    w->update *= scale;
    return GS_OK;
}

static gs_status measure(const gs_settings *settings, gs_simulated_work *w) {
    enum { MOST = 64, LEAST = 4 /* samples */ };
    static const double FLOPS = 4e9 /* of a step: about a tenth of a second on a core */, SECONDS = 0.2;
    const double enough =
        fmin(MOST, fmax(LEAST, FLOPS / (w->plan->flops_forward + w->plan->flops_backward + 1)));
    gs_settings s = *settings;
    gs_profile profile = {0};
    s.batch = (size_t)ceil(fmin(w->samples, enough));
    gs_status status = gs_profile_run_at_once(&s, 1, SECONDS, &profile);
    if (status == GS_OK) status = spread(&profile, (double)s.batch, w);
    gs_profile_free(&profile);
    return status;
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
    if (status == GS_OK) status = allocate(w);
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
    free(w->layer);
    *w = (gs_simulated_work){0};
}

double gs_simulated_compute(const gs_simulated_work *w) {
    double all = w->update;
    for (int i = 0; i < w->plan->net->children; i++) all += w->layer[i].forward + w->layer[i].backward;
    return all;
}
