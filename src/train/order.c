#include "train/order.h"

#include <stdlib.h>
#include <string.h>

#include "train/internal.h"

gs_status gs_order_create(gs_worker *w, size_t count) {
    gs_order *o = &w->order;
    o->leaves = w->schedule.mine;
    o->device = w->device;
    for (int i = 0; 2 << i <= o->leaves; i++) {
        o->level[i] = gs_host_alloc(w, GS_MEMORY_COMMUNICATION, count * sizeof(float));
        if (!o->level[i]) return gs_fail(GS_E_MEMORY, "--exact: no memory for a sum of %zu floats", count);
        o->floats += count;
    }
    return GS_OK;
}

void gs_order_free(gs_order *o) {
    for (int i = 0; i < GS_ORDER_LEVELS; i++) free(o->level[i]);
    *o = (gs_order){0};
}

bool gs_order_add(const gs_order *o, size_t at, size_t count, int k, float *x) {
    int i = 0;
    for (; k >> i & 1; i++) gs_host_add(o->device, x, o->level[i] + at, count);
    if (k + 1 == o->leaves) return true;
    gs_host_copy(o->device, o->level[i] + at, x, count * sizeof *x);
    return false;
}

void gs_add_neighbours(const gs_device *d, float *x, size_t count, int workers) {
    for (int distance = 1; distance < workers; distance *= 2)
        for (int i = 0; i + distance < workers; i += 2 * distance)
            gs_host_add(d, x + (size_t)i * count, x + (size_t)(i + distance) * count, count);
}

/* Only where each operator is known to give the same bits. */
gs_status gs_exact_check(const gs_settings *s) {
    if (!s->exact) return GS_OK;
    for (int i = 0; i < gs_devices_count(s->devices); i++) {
        char name[48];
        GS_TRY(gs_devices_name(s->devices, i, name));
        if (strcmp(name, "cpu") != 0)
            return gs_fail(GS_E_USAGE,
                           "--exact: device '%s': only cpu is known to give the same bits for the same "
                           "samples; wanted --devices cpu,...",
                           name);
    }
    if (s->threads > 1)
        return gs_fail(GS_E_USAGE,
                       "--exact: --threads %d: splitting products over threads changes their bits; wanted 1 "
                       "thread per worker",
                       s->threads);
    return GS_OK;
}
