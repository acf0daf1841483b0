/* Mistakes in a worker's data: samples, targets, weights. */
#include <stdlib.h>

#include "data/augment.h"
#include "data/order.h"
#include "tests/faults/wraps.h"

fault fault_on;
_Thread_local gs_worker *fault_worker;

int fault_workers(void) {
    return fault_worker->comm->size;
}

int fault_passes(void) {
    return fault_worker->settings->accumulate > 1 ? fault_worker->settings->accumulate : 1;
}

/* ---- workers and devices ---- */

gs_status __wrap_gs_worker_create(gs_worker *w, const gs_settings *s, const char *device, gs_comm *comm,
                                  int threads, gs_scaling scaling, const gs_dataset *train,
                                  const gs_dataset *test) {
    fault_worker = w;
    w->comm = comm;
    w->settings = s;
    gs_status status = __real_gs_worker_create(w, s, device, comm, threads, scaling, train, test);
    if (status == GS_OK && is_on_rank_1(LESS_PRECISE)) w->device->precision = GS_PRECISION_BF16;
    return status;
}

/* Gives each device its own table of operators, which lives as long as the program. */
gs_status __wrap_gs_device_open(const char *name, int threads, gs_device **out) {
    GS_TRY(__real_gs_device_open(name, threads, out));
    gs_backend *ops = malloc(sizeof *ops);
    if (!ops) return gs_fail(GS_E_MEMORY, "no memory for a table");
    *ops = *(*out)->ops;
    fault_inputs(ops, (*out)->ops);
    fault_layers(ops, (*out)->ops);
    fault_kinks(ops, (*out)->ops);
    fault_update(ops, (*out)->ops);
    (*out)->ops = ops;
    return GS_OK;
}

/* Changes what must differ only after the ranks have checked that they agree. */
gs_status __wrap_gs_begin_training(gs_worker *w) {
    if (is_on_rank_1(INITIAL_SEED))
        gs_model_initial_values(w->model, w->settings->seed + 1, fault_floats(w->model->weights));
    return __real_gs_begin_training(w);
}

/* ---- the loader ---- */

static _Thread_local const uint32_t *order_begins; /* in the loader's thread */
enum { BATCH = 64, MOST = 256 };
static int loaders_workers = 1;

gs_status __wrap_gs_loader_create(const gs_dataset *set, const gs_schedule *schedule,
                                  const gs_augment *augment, uint64_t seed, double bytes_per_s,
                                  gs_loader **out) {
    gs_schedule s = *schedule;
    loaders_workers = s.parts;
    if (is_on(RESUME_DATA)) s.done = 0;
    if (is_on(OWN_SEED)) seed += (uint64_t)fault_worker->comm->rank;
    return __real_gs_loader_create(set, &s, augment, seed, bytes_per_s, out);
}

void __wrap_gs_epoch_order(uint64_t seed, uint64_t epoch, size_t n, uint32_t *order) {
    __real_gs_epoch_order(seed, is_on(SAME_ORDER) ? 1 : epoch, n, order);
    order_begins = order;
}

/* The offset of the sample that a rank loads in place of the one at `first`. */
static size_t taken_for(size_t first) {
    const size_t begin = first - first % BATCH, place = first % BATCH, part = BATCH / (size_t)loaders_workers;
    if (is_on(SAME_PART)) return begin + place % part;
    if (is_on(INTERLEAVED) && begin == 0)
        return begin + place % part * (size_t)loaders_workers + place / part;
    return first;
}

static void turn_targets(const gs_dataset *set, size_t n, void *targets) {
    const size_t bytes = gs_dataset_target_bytes(set);
    unsigned char first[64];
    if (n < 2 || bytes > sizeof first) return;
    memcpy(first, targets, bytes);
    memmove(targets, (char *)targets + bytes, (n - 1) * bytes);
    memcpy((char *)targets + (n - 1) * bytes, first, bytes);
}

gs_status __wrap_gs_augment_gather(const gs_augment *a, const gs_dataset *set, uint64_t seed, uint64_t epoch,
                                   const uint32_t *order, size_t n, void *inputs, void *targets) {
    uint32_t other[MOST];
    if ((is_on(SAME_PART) || is_on(INTERLEAVED)) && n <= MOST) {
        for (size_t i = 0; i < n; i++) other[i] = order_begins[taken_for((size_t)(order - order_begins) + i)];
        order = other;
    }
    GS_TRY(__real_gs_augment_gather(a, set, seed, epoch, order, n, inputs, targets));
    if (is_on(ANSWERS_MOVED)) turn_targets(set, n, targets);
    return GS_OK;
}

gs_status __wrap_gs_worker_next(gs_worker *w, gs_pass *pass) {
    GS_TRY(__real_gs_worker_next(w, pass));
    if (is_on(SAMPLE_DROPPED) && w->comm->rank == 0 && w->step == 0) pass->n--;
    if (is_on(NOT_CLEARED)) pass->fresh = false;
    return GS_OK;
}

/* ---- the input ---- */

static const gs_backend *real;

static gs_status bytes_to_float(gs_device *d, gs_mem y, gs_mem bytes, const gs_byte_scale *scale,
                                size_t count) {
    gs_byte_scale s = *scale;
    for (int c = 0; c < s.channels; c++) {
        if (is_on(INPUT_SCALED))
            s.scale[c] *= 0.3f, s.shift[c] *= 0.3f; /* not divided by the standard deviation */
        if (is_on_rank_1(INPUT_SHIFTED)) s.shift[c] = 0;
    }
    return real->bytes_to_float(d, y, bytes, &s, count);
}

void fault_inputs(gs_backend *ops, const gs_backend *of) {
    real = of;
    ops->bytes_to_float = bytes_to_float;
}

/* ---- weights ---- */

/* One rank gets the weights from before the update, as if it read them while they were being sent. */
gs_status fault_stale(gs_optimizer *o, double samples, gs_status (*update)(gs_optimizer *, double)) {
    const size_t bytes = o->model->params * sizeof(float);
    float *kept = malloc(bytes);
    if (!kept) return gs_fail(GS_E_MEMORY, "no memory");
    memcpy(kept, fault_floats(o->model->weights), bytes);
    gs_status status = update(o, samples);
    memcpy(fault_floats(o->model->weights), kept, bytes);
    free(kept);
    return status;
}

gs_status __wrap_gs_instructions_create(const gs_pipeline_schedule *schedule, const gs_pipeline *p, int stage,
                                        gs_instructions *out) {
    gs_status status = __real_gs_instructions_create(schedule, p, stage, out);
    while (status == GS_OK && is_on(STALE_TIED) && out->list[out->count - 1].action != GS_DO_UPDATE)
        out->count--; /* the messages after it */
    return status;
}

/* Stores weights in 16 bits: after the update only the upper half of each remains. */
void fault_round_weights(gs_worker *w) {
    float *x = fault_floats(w->model->weights);
    for (size_t i = 0; i < w->model->params; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        bits &= 0xffff0000u;
        memcpy(&x[i], &bits, sizeof bits);
    }
}
