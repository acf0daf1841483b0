#include "train/overlap.h"
#include "train/timeline.h"

#include "core/clock.h"
#include "train/buckets.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct bucket {
    size_t first, count; /* elements of the flat array */
    float *host;         /* where the thread finds them */
} bucket;

struct gs_overlap {
    gs_worker *worker;
    float *copy; /* of all gradients, on the host; NULL where the device's memory is the host's */
    int buckets;
    bucket *bucket; /* the last elements first */
    pthread_t thread;
    bool started;

    pthread_mutex_t lock;
    pthread_cond_t changed;
    int released; /* under the lock, as all below: buckets of this step that the thread may sum ... */
    int summed;   /* ... and has */
    bool end;
    gs_status failed;
    char message[1024]; /* errors belong to a thread; this carries one out of it */
    double summing;     /* seconds in sums, of all steps */
    /* the worker's own: */
    double handed_over; /* when backward was done and the last bucket released */
    double waited;      /* seconds that steps waited from then on, of all steps */
};

/* ---- the thread ---- */

static gs_status sum(const gs_overlap *o, const bucket *b) {
    gs_sync *s = o->worker->sync;
    s->tail = b == o->bucket ? GS_STATS : 0; /* the counts lie at the end of the array */
    GS_TRY(gs_sync_run(s, b->host, b->count));
    o->worker->sent += (double)s->counted.bytes;
    return GS_OK;
}

/* Sums what is released, in order: every rank does so in the same one. After a failure nothing more is summed. */
static void *thread_main(void *argument) {
    gs_overlap *o = argument;
    pthread_mutex_lock(&o->lock);
    while (!o->end) {
        if (o->summed == o->released) {
            pthread_cond_wait(&o->changed, &o->lock);
            continue;
        }
        if (o->failed == GS_OK) {
            const bucket *b = &o->bucket[o->summed];
            pthread_mutex_unlock(&o->lock);
            double start = gs_seconds();
            gs_status status = sum(o, b);
            double end = gs_seconds(), took = end - start;
            gs_timeline_bucket(o->worker, (int)(b - o->bucket), start, end);
            pthread_mutex_lock(&o->lock);
            o->summing += took;
            o->failed = status;
            if (status != GS_OK) snprintf(o->message, sizeof o->message, "%s", gs_message());
        }
        o->summed++;
        pthread_cond_broadcast(&o->changed);
    }
    pthread_mutex_unlock(&o->lock);
    return NULL;
}

/* ---- making and freeing ---- */

/* o->bucket, which has room for one more than there are layers. A layer's place is that of its weights and of those in
 * it. */
static gs_status cut(gs_overlap *o) {
    const gs_model *m = o->worker->model;
    size_t least = (size_t)o->worker->settings->bucket * 1024 / sizeof(float),
           layers = (size_t)m->net->children;
    size_t *layer = malloc((layers + 1) * sizeof *layer);
    gs_bucket *plan = malloc((layers + 1) * sizeof *plan);
    gs_status status =
        layer && plan ? GS_OK : gs_fail(GS_E_MEMORY, "--bucket: no memory for %zu layers", layers);
    for (size_t i = 0; i < layers && status == GS_OK; i++) layer[i] = m->net->child[i]->weight.at;
    if (status == GS_OK) o->buckets = gs_buckets_plan(layer, (int)layers, m->params + GS_STATS, least, plan);
    for (int i = 0; i < o->buckets; i++) o->bucket[i] = (bucket){plan[i].first, plan[i].count, NULL};
    free(layer);
    free(plan);
    return status;
}

/* OpenCL lets no kernel write to a buffer while any part of it is mapped (1.2, section 5.4.3), and backward still
 * writes to the rest of the gradients: so from such a device a bucket is copied. On cpu a place is a pointer. */
static bool is_host_memory(const gs_device *d) {
    return strcmp(d->ops->name, "cpu") == 0;
}

static gs_status create(gs_overlap *o) {
    const gs_model *m = o->worker->model;
    size_t count = m->params + GS_STATS;
    o->bucket = calloc((size_t)m->net->children + 1, sizeof *o->bucket);
    if (!is_host_memory(m->device)) o->copy = malloc(count * sizeof *o->copy);
    if (!o->bucket || (!o->copy && !is_host_memory(m->device)))
        return gs_fail(GS_E_MEMORY, "--bucket: no memory for %zu gradients", count);
    GS_TRY(cut(o));
    o->started = pthread_create(&o->thread, NULL, thread_main, o) == 0;
    return o->started ? GS_OK : gs_fail(GS_E_MEMORY, "--bucket: no thread could be started");
}

gs_status gs_overlap_create(gs_worker *w, gs_overlap **out) {
    gs_overlap *o = calloc(1, sizeof *o);
    if (!o) return gs_fail(GS_E_MEMORY, "no memory for --bucket");
    o->worker = w;
    pthread_mutex_init(&o->lock, NULL);
    pthread_cond_init(&o->changed, NULL);
    gs_status status = create(o);
    if (status == GS_OK)
        *out = o;
    else
        gs_overlap_free(o);
    return status;
}

void gs_overlap_free(gs_overlap *o) {
    if (!o) return;
    pthread_mutex_lock(&o->lock);
    o->end = true;
    pthread_cond_broadcast(&o->changed);
    pthread_mutex_unlock(&o->lock);
    if (o->started) pthread_join(o->thread, NULL);
    pthread_cond_destroy(&o->changed);
    pthread_mutex_destroy(&o->lock);
    free(o->bucket);
    free(o->copy);
    free(o);
}

size_t gs_overlap_most(const gs_overlap *o) {
    size_t most = 0;
    for (int i = 0; i < o->buckets; i++)
        if (o->bucket[i].count > most) most = o->bucket[i].count;
    return most;
}

/* ---- a step ---- */

/* The device is the worker's: the thread never calls it. Reading waits for the work on these gradients. */
static gs_status show(gs_overlap *o, bucket *b) {
    gs_device *d = o->worker->device;
    gs_mem place = gs_at(o->worker->model->gradients, b->first);
    size_t bytes = b->count * sizeof *b->host;
    void *mapped;
    if (o->copy) {
        b->host = o->copy + b->first;
        return d->ops->read(d, b->host, place, bytes);
    }
    GS_TRY(d->ops->map(d, place, bytes, &mapped));
    b->host = mapped;
    return GS_OK;
}

static gs_status bring_back(gs_overlap *o, const bucket *b) {
    gs_device *d = o->worker->device;
    gs_mem place = gs_at(o->worker->model->gradients, b->first);
    return o->copy ? d->ops->write(d, place, b->host, b->count * sizeof *b->host)
                   : d->ops->unmap(d, place, b->host);
}

gs_status gs_overlap_release(void *overlap, size_t first) {
    gs_overlap *o = overlap;
    /* only this thread changes `released`, so it may look at it without the lock */
    while (o->released < o->buckets && o->bucket[o->released].first >= first) {
        GS_TRY(show(o, &o->bucket[o->released]));
        o->handed_over = gs_seconds(); /* now, because the thread may take this core */
        pthread_mutex_lock(&o->lock);
        o->released++;
        pthread_cond_broadcast(&o->changed);
        pthread_mutex_unlock(&o->lock);
    }
    return GS_OK;
}

gs_status gs_overlap_finish(gs_overlap *o) {
    GS_TRY(gs_overlap_release(o, 0));
    pthread_mutex_lock(&o->lock);
    while (o->summed < o->buckets) pthread_cond_wait(&o->changed, &o->lock);
    o->released = o->summed = 0;
    gs_status failed = o->failed;
    pthread_mutex_unlock(&o->lock);
    o->waited += gs_seconds() - o->handed_over;
    for (int i = 0; i < o->buckets && failed == GS_OK; i++) GS_TRY(bring_back(o, &o->bucket[i]));
    return failed == GS_OK ? GS_OK : gs_fail(failed, "%s", o->message);
}

gs_overlap_times gs_overlap_measured(const gs_overlap *o, uint64_t steps) {
    if (steps == 0) return (gs_overlap_times){.buckets = o->buckets};
    return (gs_overlap_times){o->buckets, o->summing / (double)steps, o->waited / (double)steps};
}
