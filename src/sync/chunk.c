/* Chunks of an array, and the cost of a message that holds a chunk. */
#include "sync/scheme.h"

static size_t beginning(size_t count, int parts, int i) {
    return i < parts ? gs_shard_of(count, i, parts).first : count;
}

gs_chunk gs_chunk_range(size_t count, int parts, int first, int last) {
    size_t from = beginning(count, parts, first);
    return (gs_chunk){from, beginning(count, parts, last) - from};
}

gs_chunk gs_chunk_of(size_t count, int parts, int i) {
    return gs_shard_of(count, (i % parts + parts) % parts, parts);
}

size_t gs_sync_narrow_count(const gs_sync_array *a, gs_chunk part) {
    size_t end = a->wire == GS_WIRE_F32 ? 0 : a->count - a->tail;
    if (part.first >= end) return 0;
    return part.first + part.count < end ? part.count : end - part.first;
}

size_t gs_sync_message_bytes(const gs_sync_array *a, gs_chunk part) {
    size_t narrow = gs_sync_narrow_count(a, part);
    return narrow * sizeof(uint16_t) + (part.count - narrow) * sizeof(float);
}

void gs_sync_cost_add(gs_sync_cost *cost, const gs_sync_array *a, gs_chunk part) {
    if (part.count == 0) return;
    cost->messages++;
    cost->bytes += gs_sync_message_bytes(a, part);
}
