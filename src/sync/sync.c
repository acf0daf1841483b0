/* One worker's sums: allocate memory once, and run a scheme on the worker's array. */
#include "sync/scheme.h"

#include <stdlib.h>
#include "comm/device.h"

bool gs_sync_cost_of(const gs_sync_scheme *scheme, int ranks, int rank, gs_sync_array a, gs_sync_cost *cost) {
    *cost = (gs_sync_cost){0};
    gs_sync_cost (*formula)(int, int, const gs_sync_array *) = scheme->cost;
    if (!formula && a.wire != GS_WIRE_F32) formula = scheme->cost_in_16_bits;
    if (!formula) return false;
    if (ranks > 1 && a.count > 0) *cost = formula(ranks, rank, &a);
    return true;
}

size_t gs_sync_bytes(const gs_sync *s) {
    const gs_sync_array most = {s->most, s->wire, s->tail};
    if (s->comm && s->comm->size == 1) return 0; /* nothing is received */
    const size_t packed = s->wire == GS_WIRE_F32 ? 0 : gs_sync_packed_bytes(&most, s->comm->size);
    return gs_sync_scratch_floats(s->most) * sizeof *s->scratch + 2 * packed;
}

static gs_status make_buffers(gs_sync *s, gs_sync_array most) {
    GS_TRY(GS_NEW(s->scratch, gs_sync_scratch_floats(most.count), "a sum of %zu floats", most.count));
    for (int i = 0; i < 2 && most.wire != GS_WIRE_F32; i++)
        GS_TRY(GS_NEW(s->packed[i], gs_sync_packed_bytes(&most, s->comm->size) / sizeof *s->packed[i],
                      "a sum of %zu floats", most.count));
    return GS_OK;
}

gs_status gs_sync_create(const gs_sync_scheme *scheme, gs_comm *c, size_t most, gs_sync **out) {
    return gs_sync_create_wire(scheme, c, (gs_sync_array){most, GS_WIRE_F32, 0}, out);
}

gs_status gs_sync_create_wire(const gs_sync_scheme *scheme, gs_comm *c, gs_sync_array most, gs_sync **out) {
    gs_sync *s;
    GS_TRY(GS_NEW(s, 1, "a sum of %zu floats", most.count));
    *s = (gs_sync){.scheme = scheme, .comm = c, .most = most.count, .wire = most.wire, .tail = most.tail};
    gs_status status = c->size > 1 && !c->ops->dry ? make_buffers(s, most) : GS_OK;
    if (status == GS_OK && scheme == &gs_sync_auto && !c->ops->dry) status = gs_sync_choose(s);
    if (status == GS_OK)
        *out = s;
    else
        gs_sync_free(s);
    return status;
}

void gs_sync_free(gs_sync *s) {
    if (!s) return;
    free(s->scratch);
    free(s->packed[0]);
    free(s->packed[1]);
    free(s);
}

/* A dry run has no peers: count what would be sent or, for a scheme without a formula, what an all-reduce needs. */
static gs_status run_dry(gs_sync *s) {
    const int n = s->comm->size;
    if (!gs_sync_cost_of(s->scheme, n, s->comm->rank, s->array, &s->counted))
        s->counted.bytes = 2 * s->array.count * sizeof(float) * (size_t)(n - 1) / (size_t)n;
    return s->comm->ops->dry(s->comm, s->comm, NULL, s);
}

gs_status gs_sync_run(gs_sync *s, float *data, size_t count) {
    if (count > s->most) gs_bug("gs_sync_run: %zu floats, made for %zu", count, s->most);
    s->counted = (gs_sync_cost){0};
    s->data = data;
    s->array = (gs_sync_array){count, s->wire, s->tail < count ? s->tail : count};
    if (s->comm->size == 1 || count == 0) return GS_OK;
    if (s->comm->ops->dry) return run_dry(s);
    GS_TRY(s->scheme->sum(s, data, count)); /* by default the transport's collective: threads_collective */
    gs_sync_round_done(s);
    return GS_OK;
}

gs_status gs_sync_sum(gs_sync *s, gs_device *device, gs_mem data, size_t count) {
    if (s->comm->size == 1) return GS_OK;
    void *host;
    GS_TRY(device->ops->map(device, data, count * sizeof(float), &host)); /* on cpu: the memory itself */
    return gs_device_unmap_after(device, data, host, gs_sync_run(s, host, count));
}
