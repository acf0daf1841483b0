/* Lab 16, as given: makes zero1_step the step of --zero 1. In the open source, the library's is
 * src/train/reducers/zero.c. */
#include "tasks.h"

#include <stdlib.h>
#include <string.h>
#include "cpu/cpu.h"
#include "lab.h"
#include "train/tensor.h"
#include "train/strategy.h"

/* Weights and gradients, padded with zeros to a multiple of the number of ranks. */
typedef struct whole {
    size_t count;
    float *weights, *gradients;
} whole;

/* The length of each rank's part of the velocity. */
static size_t held(const gs_worker *w) {
    const size_t ranks = (size_t)w->groups.layout.dp;
    return (w->model->params + ranks - 1) / ranks;
}

static gs_status check(const gs_settings *s) {
    if (s->zero != 1 || s->optimizer != &gs_sgd || s->momentum <= 0 || s->weight_decay > 0 || s->clip > 0)
        return gs_fail(GS_E_USAGE, "lab 16: --zero is zero1_step of lab.c; wanted --zero 1 and sgd with a "
                                   "momentum, without --weight-decay and --clip");
    if (s->resume || s->save_state || s->checkpoint || s->offload || s->precision == GS_PRECISION_F16)
        return gs_fail(GS_E_USAGE, "lab 16: zero1_step keeps no state, and works in f32, in memory; wanted "
                                   "no --resume, --save-state, --checkpoint, --offload, --precision f16");
    return GS_OK;
}

static gs_status create(gs_worker *w) {
    whole *all = w->strategy_state = calloc(1, sizeof *all);
    if (!all) return gs_fail(GS_E_MEMORY, "lab 16: no memory");
    if (!w->device->ops->host_memory)
        return gs_fail(GS_E_USAGE, "lab 16: the device is %s; wanted cpu, whose memory lab.c can read",
                       w->device->name);
    all->count = held(w) * (size_t)w->comm->size;
    all->weights = calloc(all->count, sizeof *all->weights);
    all->gradients = calloc(all->count, sizeof *all->gradients);
    return all->weights && all->gradients
               ? GS_OK
               : gs_fail(GS_E_MEMORY, "lab 16: no memory for %zu floats", all->count);
}

static void free_whole(gs_worker *w) {
    whole *all = w->strategy_state;
    if (all) free(all->weights), free(all->gradients);
    free(all);
}

static gs_status step(gs_worker *w, gs_score *score) {
    const whole *all = w->strategy_state;
    const gs_model *m = w->model;
    gs_optimizer *o = w->optimizer;
    const size_t bytes = m->params * sizeof(float);
    GS_TRY(gs_gradient(w));
    GS_TRY(gs_tell_wish_to_stop(w));
    GS_TRY(gs_comm_all_reduce(w->comm, gs_cpu_floats(gs_at(m->gradients, m->params)), gs_model_tail(m),
                              GS_F32, GS_SUM)); /* loss, samples; the layers' state */
    GS_TRY(gs_read_score(w, score));
    memcpy(all->weights, gs_cpu_floats(m->weights), bytes);
    memcpy(all->gradients, gs_cpu_floats(m->gradients), bytes);
    GS_TRY(zero1_step(w->comm, all->weights, all->gradients, gs_cpu_floats(o->vector[0]), all->count, o->lr,
                      o->momentum, (float)(1 / score->samples)));
    memcpy(gs_cpu_floats(m->weights), all->weights, bytes);
    GS_TRY(gs_optimizer_end_update(o, score->samples));
    return gs_phase_ends(w, GS_PHASE_SYNC);
}

static void describe(const gs_settings *s, char *text, size_t size) {
    (void)s;
    snprintf(text, size, "zero1_step of lab.c");
}

static const gs_strategy of_lab = {.name = "zero",
                                   .option = "--zero",
                                   .check = check,
                                   .describe = describe,
                                   .create = create,
                                   .free = free_whole,
                                   .step = step};

void lab_install(void) {
    (void)gs_strategy_replace(of_lab.name, &of_lab);
}
