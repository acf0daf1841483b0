#include "sync/scheme.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "sync/auto.h"

/* ---- schemes by name ---- */

const gs_sync_scheme *const *gs_sync_schemes(void) {
    static const gs_sync_scheme *const schemes[] = {&gs_sync_allreduce,
                                                    &gs_sync_gloo,
                                                    &gs_sync_hierarchical,
                                                    &gs_sync_ps,
                                                    &gs_sync_sharded_ps,
                                                    &gs_sync_ring,
                                                    &gs_sync_tree,
                                                    &gs_sync_recursive_doubling,
                                                    &gs_sync_halving_doubling,
                                                    &gs_sync_auto,
                                                    NULL};
    return schemes;
}

gs_status gs_sync_find(const char *name, const gs_sync_scheme **out) {
    char names[256] = "";
    for (const gs_sync_scheme *const *s = gs_sync_schemes(); *s; s++) {
        if (strcmp((*s)->name, name) == 0) {
            *out = *s;
            return GS_OK;
        }
        size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, "%s%s", used > 0 ? ", " : "", (*s)->name);
    }
    return gs_fail(GS_E_USAGE, "no way to sum gradients is called '%s'; there are: %s", name, names);
}

/* ---- what schemes are written in ---- */

gs_chunk gs_chunk_range(size_t count, int parts, int first, int last) {
    size_t n = (size_t)parts, share = count / n,
           more = count % n; /* the first `more` have one element more */
    size_t from = (size_t)first * share + ((size_t)first < more ? (size_t)first : more);
    size_t to = (size_t)last * share + ((size_t)last < more ? (size_t)last : more);
    return (gs_chunk){from, to - from};
}

gs_chunk gs_chunk_of(size_t count, int parts, int i) {
    i = (i % parts + parts) % parts;
    return gs_chunk_range(count, parts, i, i + 1);
}

static void round_done(gs_sync *s) {
    if (s->observer && s->counted.rounds > 0)
        s->observer->round_done(s->observer->context, s->comm->rank, (int)s->counted.rounds, s->data,
                                s->count);
}

void gs_sync_round(gs_sync *s) {
    round_done(s);
    s->counted.rounds++;
}

void gs_sync_cost_add(gs_sync_cost *cost, size_t elements) {
    if (elements == 0) return;
    cost->messages++;
    cost->bytes += elements * sizeof(float);
}

gs_status gs_sync_send(gs_sync *s, const float *data, gs_chunk part, int to) {
    if (part.count == 0) return GS_OK;
    if (s->observer) {
        gs_sync_message m = {(int)s->counted.rounds, s->comm->rank, to, part.first, part.count,
                             data + part.first};
        s->observer->message(s->observer->context, &m);
    }
    gs_sync_cost_add(&s->counted, part.count);
    return s->comm->ops->send(s->comm, data + part.first, part.count * sizeof *data, to);
}

gs_status gs_sync_recv(gs_sync *s, float *data, gs_chunk part, int from) {
    if (part.count == 0) return GS_OK;
    return s->comm->ops->recv(s->comm, data + part.first, part.count * sizeof *data, from);
}

void gs_sync_add(float *restrict sum, const float *restrict x, size_t count) {
    for (size_t i = 0; i < count; i++) sum[i] += x[i];
}

gs_status gs_sync_recv_add(gs_sync *s, float *data, gs_chunk part, int from) {
    GS_TRY(gs_sync_recv(s, s->scratch, (gs_chunk){0, part.count}, from));
    gs_sync_add(data + part.first, s->scratch, part.count);
    return GS_OK;
}

/* ---- a worker's way to sum ---- */

bool gs_sync_cost_of(const gs_sync_scheme *scheme, int ranks, int rank, size_t count, gs_sync_cost *cost) {
    *cost = (gs_sync_cost){0};
    if (!scheme->cost) return false;
    if (ranks > 1 && count > 0) *cost = scheme->cost(ranks, rank, count);
    return true;
}

gs_status gs_sync_create(const gs_sync_scheme *scheme, gs_comm *c, size_t most, gs_sync **out) {
    gs_sync *s = calloc(1, sizeof *s);
    if (!s) return gs_fail(GS_E_MEMORY, "no memory to sum %zu floats", most);
    *s = (gs_sync){.scheme = scheme, .comm = c, .most = most};
    s->scratch = malloc(gs_sync_scratch_floats(most) * sizeof *s->scratch);
    gs_status status = s->scratch ? GS_OK : gs_fail(GS_E_MEMORY, "no memory to sum %zu floats", most);
    if (status == GS_OK && scheme == &gs_sync_auto) status = gs_sync_choose(s);
    if (status == GS_OK)
        *out = s;
    else
        gs_sync_free(s);
    return status;
}

void gs_sync_free(gs_sync *s) {
    if (!s) return;
    free(s->scratch);
    free(s);
}

gs_status gs_sync_run(gs_sync *s, float *data, size_t count) {
    if (count > s->most) gs_bug("gs_sync_run: %zu floats, made for %zu", count, s->most);
    s->counted = (gs_sync_cost){0};
    s->data = data;
    s->count = count;
    if (s->comm->size == 1 || count == 0) return GS_OK;
    GS_TRY(s->scheme->sum(s, data, count));
    round_done(s);
    return GS_OK;
}

gs_status gs_sync_sum(gs_sync *s, gs_device *device, gs_mem data, size_t count) {
    if (s->comm->size == 1) return GS_OK;
    void *host;
    GS_TRY(device->ops->map(device, data, count * sizeof(float), &host));
    gs_status summed = gs_sync_run(s, host, count);
    if (summed == GS_OK) return device->ops->unmap(device, data, host);
    /* Unmap here too, but the first message is the one that counts. */
    char message[1024];
    snprintf(message, sizeof message, "%s", gs_message());
    device->ops->unmap(device, data, host);
    return gs_fail(summed, "%s", message);
}
