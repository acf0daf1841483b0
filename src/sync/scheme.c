/* The building blocks of schemes: rounds, and messages that hold chunks of the array, possibly in 16 bits. */
#include "sync/scheme.h"

#include "core/clock.h"

void gs_sync_round_done(gs_sync *s) {
    if (s->observer && s->observer->round_done && s->counted.rounds > 0)
        s->observer->round_done(s->observer->context, s->comm->rank, (int)s->counted.rounds, s->data,
                                s->array.count);
}

void gs_sync_round(gs_sync *s) {
    gs_sync_round_done(s);
    s->counted.rounds++;
}

/* In virtual time (predict/message_lists.h) there are no data, so nothing is converted or added. */
bool gs_sync_is_virtual(const gs_sync *s) {
    return s->comm->ops->added != NULL;
}

/* The message to send: the chunk itself, or a packed copy: | 16 bits per value | tail as f32 |. Packing rounds the
 * chunk. */
static const void *pack(gs_sync *s, float *data, gs_chunk part) {
    if (s->wire == GS_WIRE_F32 || gs_sync_is_virtual(s)) return data + part.first;
    size_t narrow = gs_sync_narrow_count(&s->array, part);
    float *rest = data + part.first + narrow;
    gs_wire_narrow(s->wire, s->packed[0], data + part.first, narrow);
    memcpy(s->packed[0] + narrow, rest, (part.count - narrow) * sizeof *rest);
    return s->packed[0];
}

/* Unpack a message: to[i] = value i of the chunk or, if `add`, to[i] += value i. `to` may be the chunk's own memory. */
static void unpack(gs_sync *s, float *to, gs_chunk part, bool add) {
    size_t narrow = gs_sync_narrow_count(&s->array, part), rest = part.count - narrow;
    const uint16_t *from = s->packed[1];
    float *tail = add ? s->scratch : to + narrow; /* the tail in the message may be misaligned for += */
    (add ? gs_wire_widen_add : gs_wire_widen)(s->wire, to, from, narrow);
    memcpy(tail, from + narrow, rest * sizeof *tail);
    if (add) gs_sync_add(to + narrow, tail, rest);
}

void gs_sync_round_off(gs_sync *s, float *data, gs_chunk part) {
    pack(s, data, part);
}

/* move_begins takes the start time of a message; move_ends reports the message to the observer. */
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

/* Receive a message into `to` if it is in f32, or else into packed[1]. */
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
