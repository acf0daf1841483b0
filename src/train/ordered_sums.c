#include "train/ordered_sums.h"

#include <stdlib.h>

#include "train/settings.h"

gs_status gs_ordered_sums_create(gs_worker *w, size_t count) {
    gs_ordered_sums *o = &w->ordered_sums;
    o->parts = w->schedule.mine / w->schedule.leaves;
    o->device = w->device;
    for (int i = 0; 2 << i <= o->parts; i++) {
        GS_TRY(gs_context(gs_host_alloc(w, GS_MEMORY_COMMUNICATION, count * sizeof(float), &o->level[i]),
                          "--exact"));
        o->floats += count;
    }
    return GS_OK;
}

void gs_ordered_sums_free(gs_ordered_sums *o) {
    for (int i = 0; i < GS_ORDERED_SUMS_LEVELS; i++) free(o->level[i]);
    *o = (gs_ordered_sums){0};
}

bool gs_ordered_sums_add(const gs_ordered_sums *o, size_t at, size_t count, int k, float *x) {
    int i = 0;
    for (; k >> i & 1; i++) gs_host_add(o->device, x, o->level[i] + at, count);
    if (k + 1 == o->parts) return true;
    gs_host_copy(o->device, o->level[i] + at, x, count * sizeof *x);
    return false;
}

gs_status gs_ordered_sums_add_here(gs_worker *w, gs_mem here, size_t at, size_t count, int k) {
    const gs_backend *ops = w->device->ops;
    void *x;
    if (count == 0 || w->ordered_sums.parts < 2) return GS_OK;
    GS_TRY(ops->map(w->device, here, count * sizeof(float), &x));
    (void)gs_ordered_sums_add(&w->ordered_sums, at, count, k, x);
    return ops->unmap(w->device, here, x);
}

void gs_add_neighbours(const gs_device *d, float *x, size_t count, int workers) {
    for (int distance = 1; distance < workers; distance *= 2)
        for (int i = 0; i + distance < workers; i += 2 * distance)
            gs_host_add(d, x + (size_t)i * count, x + (size_t)(i + distance) * count, count);
}

gs_status gs_exact_check(const gs_settings *s) {
    if (!s->exact || s->precision == GS_PRECISION_F32 || gs_devices_are_cpu(s->devices)) return GS_OK;
    return gs_fail(GS_E_USAGE,
                   "--exact: an OpenCL device stores activations in 16 bits with --precision %s, and "
                   "cpu does not; wanted --precision f32, or --devices cpu",
                   s->precision == GS_PRECISION_F16 ? "f16" : "bf16");
}
