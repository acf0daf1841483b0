#include "optim/offload.h"

#include <stdlib.h>

enum { WINDOWS = 3 /* for the block being updated and the two after it */ };

/* A block that is being fetched or has arrived. */
typedef struct block {
    size_t element, count; /* in each vector; count 0: none */
    size_t weight;         /* index of its first weight */
    int window;
    uint64_t number; /* the number of its last fetch */
} block;

typedef struct gs_optimizer_offload {
    float *host[GS_OPTIMIZER_VECTORS]; /* NULL: only the weights are offloaded, not the vectors */
    bool in_place;                     /* the device's operators work on `host`; otherwise in windows */
    gs_mem window[WINDOWS][GS_OPTIMIZER_VECTORS];
    gs_mem weights[WINDOWS]; /* GS_NONE: operators update the weights in place */
    int windows;             /* fetches so far; each uses the next window, in rotation */
    block ahead;             /* the first block of the next update */
} gs_optimizer_offload;

bool gs_optimizer_offloads(const gs_optimizer_ops *ops, const gs_device *d) {
    return (d->offload & (GS_OFFLOAD_OPTIMIZER | GS_OFFLOAD_WEIGHTS)) && !ops->whole;
}

/* ---- creating and freeing ---- */

static gs_status make_windows(gs_optimizer *o, size_t bytes) {
    gs_device *d = o->model->device;
    gs_optimizer_offload *a = o->offload;
    for (int w = 0; w < WINDOWS && o->model->weights_in_windows; w++)
        GS_TRY(gs_alloc(d, GS_MEMORY_WEIGHTS, bytes, &a->weights[w]));
    for (int w = 0; w < WINDOWS && a->host[0] && !a->in_place; w++)
        for (int i = 0; i < o->vectors; i++)
            GS_TRY(gs_alloc(d, GS_MEMORY_OPTIMIZER, bytes, &a->window[w][i]));
    return GS_OK;
}

gs_status gs_optimizer_offload_create(gs_optimizer *o) {
    gs_device *d = o->model->device;
    gs_optimizer_offload *a = o->offload = calloc(1, sizeof *a);
    if (!a) return gs_fail(GS_E_MEMORY, "%s: no memory for a list of vectors", o->ops->name);
    a->in_place = d->ops->host_memory;
    for (int i = 0; i < o->vectors && !(d->offload & GS_OFFLOAD_OPTIMIZER); i++)
        GS_TRY(gs_alloc(d, GS_MEMORY_OPTIMIZER, o->held * sizeof(float), &o->vector[i]));
    for (int i = 0; i < o->vectors && (d->offload & GS_OFFLOAD_OPTIMIZER); i++) {
        void *host;
        GS_TRY(gs_alloc_offloaded(d, GS_MEMORY_OPTIMIZER, o->held * sizeof(float), &host));
        a->host[i] = host;
        o->vector[i] = a->in_place ? d->ops->host_memory(host) : GS_NONE;
    }
    return make_windows(o, gs_smaller(GS_OFFLOAD_BLOCK, o->held) * sizeof(float));
}

void gs_optimizer_offload_free(gs_optimizer *o) {
    gs_device *d = o->model->device;
    gs_optimizer_offload *a = o->offload;
    for (int i = 0; i < o->vectors && !a->host[0]; i++) d->ops->free(d, o->vector[i]);
    for (int i = 0; i < GS_OPTIMIZER_VECTORS; i++) {
        d->ops->free_offloaded(d, a->host[i]);
        for (int w = 0; w < WINDOWS; w++) d->ops->free(d, a->window[w][i]);
    }
    for (int w = 0; w < WINDOWS; w++) d->ops->free(d, a->weights[w]);
    free(a);
    o->offload = NULL;
}

/* ---- blocks ---- */

/* Fetch a block's elements of the vectors, and its weights if they are offloaded too. */
static gs_status fetch(gs_optimizer *o, size_t element, size_t weight, size_t count, block *b) {
    gs_device *d = o->model->device;
    gs_optimizer_offload *a = o->offload;
    float *weights = o->model->offloaded_weights;
    *b = (block){element, count, weight, a->windows++ % WINDOWS, 0};
    for (int i = 0; i < o->vectors && a->host[i]; i++)
        GS_TRY(d->ops->fetch(d, a->window[b->window][i], a->host[i] + element, count * sizeof(float),
                             &b->number));
    if (weights)
        GS_TRY(d->ops->fetch(d, a->weights[b->window], weights + weight, count * sizeof(float), &b->number));
    return GS_OK;
}

static gs_status put_back(gs_optimizer *o, const block *b) {
    gs_device *d = o->model->device;
    gs_optimizer_offload *a = o->offload;
    float *weights = o->model->offloaded_weights;
    const size_t bytes = b->count * sizeof(float);
    for (int i = 0; i < o->vectors && a->host[i]; i++)
        GS_TRY(d->ops->offload(d, a->host[i] + b->element, a->window[b->window][i], bytes, NULL));
    return weights ? d->ops->offload(d, weights + b->weight, a->weights[b->window], bytes, NULL) : GS_OK;
}

/* Update the parameters whose vector elements are in block b, from index `first` on. */
static gs_status update_block(gs_optimizer *o, const block *b, size_t first, float scale) {
    const gs_optimizer_offload *a = o->offload;
    gs_mem kept[GS_OPTIMIZER_VECTORS];
    const gs_mem weights = o->model->weights;
    memcpy(kept, o->vector, sizeof kept);
    if (o->model->weights_in_windows) {
        o->model->weights = a->weights[b->window];
        o->model->weights.at -= first; /* size_t wraps around */
    }
    for (int i = 0; i < o->vectors && a->host[i] && !a->in_place; i++) {
        o->vector[i] = a->window[b->window][i];
        o->vector[i].at -= first;
    }
    const gs_status status = gs_optimizer_update_watched(o, first, b->count, scale);
    memcpy(o->vector, kept, sizeof kept);
    o->model->weights = weights;
    return status;
}

/* Before it updates a block, requests more blocks until enough are ahead. */
gs_status gs_optimizer_offload_update(gs_optimizer *o, size_t first, size_t count, float scale) {
    gs_device *d = o->model->device;
    gs_optimizer_offload *a = o->offload;
    /* when a shard is updated, weights and vectors have different offsets */
    const size_t element = first + o->vector[0].at,
                 weight = first + (o->model->weights_in_windows ? 0 : o->model->weights.at);
    block list[WINDOWS] = {a->ahead};
    const bool came = list[0].element == element && list[0].count == gs_smaller(GS_OFFLOAD_BLOCK, count);
    size_t asked = came ? list[0].count : 0;
    a->ahead.count = 0;
    for (size_t done = 0, number = 0; done < count; number++) {
        for (; asked < count && asked < done + WINDOWS * (size_t)GS_OFFLOAD_BLOCK; asked += GS_OFFLOAD_BLOCK)
            GS_TRY(fetch(o, element + asked, weight + asked, gs_smaller(GS_OFFLOAD_BLOCK, count - asked),
                         &list[asked / GS_OFFLOAD_BLOCK % WINDOWS]));
        const block now = list[number % WINDOWS];
        GS_TRY(d->ops->await(d, now.number));
        GS_TRY(update_block(o, &now, first + done, scale));
        GS_TRY(put_back(o, &now));
        done += now.count;
    }
    return GS_OK;
}

gs_status gs_optimizer_offload_fetch_first(gs_optimizer *o) {
    if (!o->offload->host[0] || o->model->offloaded_weights || o->held == 0)
        return GS_OK; /* the weights are fetched for forward */
    return fetch(o, 0, 0, gs_smaller(GS_OFFLOAD_BLOCK, o->held), &o->offload->ahead);
}

bool gs_optimizer_is_offloaded(const gs_optimizer *o) {
    return o->offload && o->offload->host[0];
}

/* ---- vectors for the host ---- */

gs_status gs_optimizer_map_vector(gs_optimizer *o, int i, size_t at, size_t count, float **host) {
    gs_device *d = o->model->device;
    gs_optimizer_offload *a = o->offload;
    void *mapped;
    uint64_t number;
    if (!gs_optimizer_is_offloaded(o)) {
        GS_TRY(d->ops->map(d, gs_at(o->vector[i], at), count * sizeof **host, &mapped));
        *host = mapped;
        return GS_OK;
    }
    a->ahead.count = 0; /* the host may now change the block that was fetched */
    *host = a->host[i] + at;
    if (a->in_place) GS_TRY(d->ops->fetch(d, (gs_mem)GS_NONE, *host, count * sizeof **host, &number));
    return d->ops->settle(d);
}

gs_status gs_optimizer_unmap_vector(gs_optimizer *o, int i, size_t at, size_t count, float *host) {
    gs_device *d = o->model->device;
    if (!gs_optimizer_is_offloaded(o)) return d->ops->unmap(d, gs_at(o->vector[i], at), host);
    if (!o->offload->in_place) return GS_OK;
    return d->ops->offload(d, host, (gs_mem)GS_NONE, count * sizeof *host, NULL);
}

/* Block by block, so that only one block of the offloaded data is in memory at a time. */
gs_status gs_optimizer_copy_vector(gs_optimizer *o, int i, size_t at, size_t count, float *to,
                                   const float *from) {
    gs_device *d = o->model->device;
    const gs_mem here = gs_at(o->vector[i], at);
    if (!gs_optimizer_is_offloaded(o))
        return to ? d->ops->read(d, to, here, count * sizeof *to)
                  : d->ops->write(d, here, from, count * sizeof *from);
    for (size_t done = 0; done < count; done += GS_OFFLOAD_BLOCK) {
        const size_t some = gs_smaller(GS_OFFLOAD_BLOCK, count - done);
        float *host;
        GS_TRY(gs_optimizer_map_vector(o, i, at + done, some, &host));
        if (to) gs_host_copy(d, to + done, host, some * sizeof *host);
        if (from) gs_host_copy(d, host, from + done, some * sizeof *host);
        GS_TRY(gs_optimizer_unmap_vector(o, i, at + done, some, host));
    }
    return GS_OK;
}
