#include "sync/scheme.h"

#include <stdlib.h>
#include <string.h>
#include "core/clock.h"
#include "comm/device.h"

/* ---- what schemes are written in ---- */

static void round_done(gs_sync *s) {
    if (s->observer && s->observer->round_done && s->counted.rounds > 0)
        s->observer->round_done(s->observer->context, s->comm->rank, (int)s->counted.rounds, s->data,
                                s->array.count);
}

void gs_sync_round(gs_sync *s) {
    round_done(s);
    s->counted.rounds++;
}

/* In virtual time (comm/virtual/list.h) there are no data: nothing is converted, and nothing is added. */
bool gs_sync_is_virtual(const gs_sync *s) {
    return s->comm->ops->added != NULL;
}

/* What is sent: the part itself, or a packed copy: | 16 bits a value | f32 of the tail |. The part is rounded. */
static const void *pack(gs_sync *s, float *data, gs_chunk part) {
    if (s->wire == GS_WIRE_F32 || gs_sync_is_virtual(s)) return data + part.first;
    size_t narrow = gs_sync_narrow_count(&s->array, part);
    float *rest = data + part.first + narrow;
    gs_wire_narrow(s->wire, s->packed[0], data + part.first, narrow);
    memcpy(s->packed[0] + narrow, rest, (part.count - narrow) * sizeof *rest);
    return s->packed[0];
}

/* What has come in: to[i] = value i of the part, or to[i] += it. `to` is this part's place or another one. */
static void unpack(gs_sync *s, float *to, gs_chunk part, bool add) {
    size_t narrow = gs_sync_narrow_count(&s->array, part), rest = part.count - narrow;
    const uint16_t *from = s->packed[1];
    float *tail = add ? s->scratch : to + narrow; /* where it came in it is not aligned for additions */
    (add ? gs_wire_widen_add : gs_wire_widen)(s->wire, to, from, narrow);
    memcpy(tail, from + narrow, rest * sizeof *tail);
    if (add) gs_sync_add(to + narrow, tail, rest);
}

void gs_sync_round_off(gs_sync *s, float *data, gs_chunk part) {
    pack(s, data, part);
}

/* Before a message its start time; after it, the report to the observer. */
static double move_begins(const gs_sync *s) {
    return s->observer && s->observer->moved ? gs_seconds() : 0;
}

static void move_ends(const gs_sync *s, gs_chunk part, int from, int to, double start) {
    if (!s->observer || !s->observer->moved) return;
    gs_sync_move m = {(int)s->counted.rounds,
                      from,
                      to,
                      part.first,
                      part.count,
                      gs_sync_message_bytes(&s->array, part),
                      to == s->comm->rank,
                      start,
                      gs_seconds()};
    s->observer->moved(s->observer->context, &m);
}

void gs_sync_count_message(gs_sync *s, const float *data, gs_chunk part, int to, size_t bytes) {
    s->counted.messages++;
    s->counted.bytes += bytes;
    if (part.count == 0 || !s->observer || !s->observer->message) return;
    gs_sync_message m = {(int)s->counted.rounds, s->comm->rank, to, part.first, part.count,
                         data + part.first};
    s->observer->message(s->observer->context, &m);
}

gs_status gs_sync_send(gs_sync *s, float *data, gs_chunk part, int to) {
    if (part.count == 0) return GS_OK;
    const void *message = pack(s, data, part);
    size_t bytes = gs_sync_message_bytes(&s->array, part);
    gs_sync_count_message(s, data, part, to, bytes);
    double start = move_begins(s);
    GS_TRY(gs_comm_send(s->comm, message, bytes, to));
    move_ends(s, part, s->comm->rank, to, start);
    return GS_OK;
}

/* A message comes in: to where f32 is wanted, or to packed[1]. */
static gs_status receive(gs_sync *s, float *to, gs_chunk part, int from) {
    size_t bytes = gs_sync_message_bytes(&s->array, part);
    void *place = s->wire == GS_WIRE_F32 ? (void *)to : s->packed[1];
    double start = move_begins(s);
    GS_TRY(gs_comm_recv(s->comm, place, bytes, from));
    move_ends(s, part, from, s->comm->rank, start);
    return GS_OK;
}

gs_status gs_sync_recv_to(gs_sync *s, float *to, gs_chunk part, int from) {
    if (part.count == 0) return GS_OK;
    GS_TRY(receive(s, to, part, from));
    if (s->wire != GS_WIRE_F32 && !gs_sync_is_virtual(s)) unpack(s, to, part, false);
    return GS_OK;
}

gs_status gs_sync_recv(gs_sync *s, float *data, gs_chunk part, int from) {
    return gs_sync_recv_to(s, data + part.first, part, from);
}

void gs_sync_add(float *restrict sum, const float *restrict x, size_t count) {
    for (size_t i = 0; i < count; i++) sum[i] += x[i];
}

gs_status gs_sync_add_received(gs_sync *s, float *sum, const float *x, size_t count) {
    if (gs_sync_is_virtual(s)) return s->comm->ops->added(s->comm, count * sizeof *sum);
    gs_sync_add(sum, x, count);
    return GS_OK;
}

gs_status gs_sync_recv_add(gs_sync *s, float *data, gs_chunk part, int from) {
    if (part.count == 0) return GS_OK;
    GS_TRY(receive(s, s->scratch, part, from));
    if (s->wire == GS_WIRE_F32 || gs_sync_is_virtual(s))
        return gs_sync_add_received(s, data + part.first, s->scratch, part.count);
    unpack(s, data + part.first, part, true);
    return GS_OK;
}

/* ---- a worker's way to sum ---- */

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
    if (s->comm && s->comm->size == 1) return 0; /* nothing comes in */
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

/* Where nobody is there: what would be sent. Of a scheme without a formula what an all-reduce needs. */
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
    GS_TRY(s->scheme->sum(s, data, count));
    round_done(s);
    return GS_OK;
}

gs_status gs_sync_sum(gs_sync *s, gs_device *device, gs_mem data, size_t count) {
    if (s->comm->size == 1) return GS_OK;
    void *host;
    GS_TRY(device->ops->map(device, data, count * sizeof(float), &host));
    return gs_device_unmap_after(device, data, host, gs_sync_run(s, host, count));
}
