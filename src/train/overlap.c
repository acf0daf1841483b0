#include "train/overlap.h"
#include "train/internal.h"
#include "train/timeline/timeline.h"

#include "core/clock.h"
#include "core/thread.h"
#include "train/buckets.h"
#include "train/ways/way.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

struct gs_overlap {
    gs_worker *worker;
    float *copy; /* of all gradients, on the host; NULL where the device's memory is the host's */
    int buckets;
    gs_bucket *bucket; /* the last elements first */
    float **host;      /* where the thread finds them */
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

static gs_status sum(const gs_overlap *o, int i) {
    gs_sync *s = o->worker->sync;
    s->tail = i == 0 ? gs_model_tail(o->worker->model) : 0; /* state and counts lie at the end of the array */
    GS_TRY(gs_sync_run(s, o->host[i], o->bucket[i].count));
    o->worker->measured.sent += (double)s->counted.bytes;
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
            int i = o->summed;
            pthread_mutex_unlock(&o->lock);
            double start = gs_seconds();
            gs_status status = sum(o, i);
            double end = gs_seconds(), took = end - start;
            gs_timeline_bucket(o->worker, i, start, end);
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

/* A layer begins where its weights do, or those of the layers in it. */
static gs_status cut(gs_overlap *o) {
    const gs_model *m = o->worker->model;
    size_t least = (size_t)o->worker->settings->bucket * 1024 / sizeof(float),
           layers = (size_t)m->net->children;
    size_t *layer = malloc((layers + 1) * sizeof *layer);
    o->bucket = malloc((layers + 1) * sizeof *o->bucket);
    o->host = malloc((layers + 1) * sizeof *o->host);
    bool there = layer && o->bucket && o->host;
    for (size_t i = 0; i < layers && there; i++) layer[i] = m->net->child[i]->at;
    if (there) o->buckets = gs_buckets_plan(layer, (int)layers, m->saved + GS_STATS, least, o->bucket);
    free(layer);
    return there ? GS_OK : gs_fail(GS_E_MEMORY, "--bucket: no memory for %zu layers", layers);
}

/* OpenCL lets no kernel write to a buffer while any part of it is mapped (1.2, section 5.4.3), and backward still
 * writes to the rest of the gradients: so from such a device a bucket is copied. Where operators work on the host's
 * memory, a place is a pointer. */
static bool is_host_memory(const gs_device *d) {
    return d->ops->host_memory != NULL;
}

static gs_status create(gs_overlap *o) {
    const gs_model *m = o->worker->model;
    size_t count = m->saved + GS_STATS;
    if (!is_host_memory(m->device) &&
        !(o->copy = gs_host_alloc(o->worker, GS_MEMORY_COMMUNICATION, count * sizeof *o->copy)))
        return gs_fail(GS_E_MEMORY, "--bucket: no memory for %zu gradients", count);
    GS_TRY(cut(o));
    o->started = gs_thread_start(&o->thread, thread_main, o) == 0;
    return o->started ? GS_OK : gs_fail(GS_E_MEMORY, "--bucket: cannot start a thread");
}

gs_status gs_overlap_create(gs_worker *w) {
    gs_overlap *o = w->way_state = calloc(1, sizeof *o);
    if (!o) return gs_fail(GS_E_MEMORY, "no memory for --bucket");
    o->worker = w;
    pthread_mutex_init(&o->lock, NULL);
    pthread_cond_init(&o->changed, NULL);
    GS_TRY(create(o));
    w->final = gs_overlap_release;
    w->sync_most = 0;
    for (int i = 0; i < o->buckets; i++)
        if (o->bucket[i].count > w->sync_most) w->sync_most = o->bucket[i].count;
    return GS_OK;
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
    free(o->host);
    free(o->copy);
    free(o);
}

/* ---- a step ---- */

/* The device is the worker's: the thread never calls it. Reading waits for the work on these gradients. */
static gs_status show(gs_overlap *o, int i) {
    gs_device *d = o->worker->device;
    const gs_bucket *b = &o->bucket[i];
    gs_mem place = gs_at(o->worker->model->gradients, b->first);
    size_t bytes = b->count * sizeof *o->copy;
    void *mapped = o->copy ? o->copy + b->first : NULL;
    GS_TRY(o->copy ? d->ops->read(d, mapped, place, bytes) : d->ops->map(d, place, bytes, &mapped));
    o->host[i] = mapped;
    return GS_OK;
}

static gs_status bring_back(gs_overlap *o, int i) {
    gs_device *d = o->worker->device;
    gs_mem place = gs_at(o->worker->model->gradients, o->bucket[i].first);
    return o->copy ? d->ops->write(d, place, o->host[i], o->bucket[i].count * sizeof *o->copy)
                   : d->ops->unmap(d, place, o->host[i]);
}

gs_status gs_overlap_release(void *overlap, size_t first) {
    gs_overlap *o = overlap;
    if (o->released == 0) GS_TRY(gs_tell_wish_to_stop(o->worker)); /* the counts are in the first bucket */
    /* only this thread changes `released`, so it may look at it without the lock */
    while (o->released < o->buckets && o->bucket[o->released].first >= first) {
        GS_TRY(show(o, o->released));
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
    for (int i = 0; i < o->buckets && failed == GS_OK; i++) GS_TRY(bring_back(o, i));
    return failed == GS_OK ? GS_OK : gs_fail(failed, "%s", o->message);
}

gs_overlap_times gs_overlap_measured(const gs_overlap *o, uint64_t steps) {
    if (steps == 0) return (gs_overlap_times){.buckets = o->buckets};
    return (gs_overlap_times){o->buckets, o->summing / (double)steps, o->waited / (double)steps};
}
