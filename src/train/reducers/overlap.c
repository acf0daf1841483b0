#include "train/reducers/overlap.h"
#include "train/timeline.h"

#include "core/clock.h"
#include "layer/layer.h"
#include "train/reducers/buckets.h"
#include "train/strategy.h"

#include <stdlib.h>

struct gs_overlap {
    gs_worker *worker;
    float *copy; /* of all gradients, on the host; NULL if the device uses host memory */
    int buckets;
    gs_bucket *bucket;  /* [buckets]: from the end of the array to its beginning */
    float **host;       /* [buckets]: where the thread finds each bucket's gradients */
    gs_jobs *jobs;      /* the thread's sums, in the same order on every rank */
    double summing;     /* seconds that the thread spent in sums, over all steps */
    int released;       /* number of buckets in this step that the thread may sum */
    double handed_over; /* time at which backward ended and the last bucket was released */
    double waited;      /* seconds that steps waited after handed_over, over all steps */
};

/* ---- the thread ---- */

static gs_status sum(void *overlap, const gs_job *job) {
    gs_overlap *o = overlap;
    const int i = job->unit;
    gs_sync *s = o->worker->sync;
    s->tail = i == 0 ? gs_model_tail(o->worker->model) : 0; /* state and counts are at the end of the array */
    const double start = gs_seconds();
    GS_TRY(gs_sync_run(s, o->host[i], o->bucket[i].count));
    const double end = gs_seconds();
    o->worker->measured.sent += (double)s->counted.bytes;
    gs_timeline_bucket(o->worker, i, start, end);
    o->summing += end - start;
    return GS_OK;
}

/* ---- creation and release ---- */

/* A layer begins at its first weight, or at the first weight of the layers in it. */
static gs_status cut(gs_overlap *o) {
    const gs_model *m = o->worker->model;
    size_t least = (size_t)o->worker->settings->bucket * 1024 / sizeof(float),
           layers = (size_t)m->net->children;
    size_t *layer;
    GS_TRY(GS_NEW(o->bucket, layers, "the buckets of %zu layers", layers));
    GS_TRY(GS_NEW(o->host, layers, "the buckets of %zu layers", layers));
    GS_TRY(GS_NEW(layer, layers, "the buckets of %zu layers", layers));
    for (size_t i = 0; i < layers; i++) layer[i] = m->net->child[i]->at;
    o->buckets = gs_buckets_plan(layer, (int)layers, m->saved + GS_STATS, least, o->bucket);
    free(layer);
    return GS_OK;
}

void gs_overlap_free(gs_overlap *o) {
    if (!o) return;
    gs_jobs_free(o->jobs);
    free(o->bucket);
    free(o->host);
    free(o->copy);
    free(o);
}

/* ---- a step ---- */

/* Only the worker calls its device, never the thread. Reading waits until these gradients have been computed. */
static gs_status show(gs_overlap *o, int i) {
    gs_device *d = o->worker->device;
    const gs_bucket *b = &o->bucket[i];
    gs_mem here = gs_at(o->worker->model->gradients, b->first);
    size_t bytes = b->count * sizeof *o->copy;
    void *mapped = o->copy ? o->copy + b->first : NULL;
    GS_TRY(o->copy ? gs_host_read(d, mapped, here, bytes) : d->ops->map(d, here, bytes, &mapped));
    o->host[i] = mapped;
    return GS_OK;
}

static gs_status bring_back(gs_overlap *o, int i) {
    gs_device *d = o->worker->device;
    gs_mem here = gs_at(o->worker->model->gradients, o->bucket[i].first);
    return o->copy ? d->ops->write(d, here, o->host[i], o->bucket[i].count * sizeof *o->copy)
                   : d->ops->unmap(d, here, o->host[i]);
}

/* For gs_pass.final: the gradients from element `first` on are final, so hand over the buckets in that range. */
static gs_status release(void *overlap, size_t first) {
    gs_overlap *o = overlap;
    if (o->released == 0) GS_TRY(gs_tell_wish_to_stop(o->worker)); /* the counts are in the first bucket */
    while (o->released < o->buckets && o->bucket[o->released].first >= first) {
        const int i = o->released++;
        GS_TRY(show(o, i));
        o->handed_over = gs_seconds(); /* before gs_jobs_give, because the thread may take this core */
        GS_TRY(gs_jobs_give(o->jobs, (gs_job){.run = sum, .context = o, .unit = i}, NULL));
    }
    return GS_OK;
}

/* OpenCL lets no kernel write to a buffer while any part of it is mapped (1.2, section 5.4.3), and backward still
 * writes to the remaining gradients. Buckets are therefore copied from an OpenCL device. If operators work in host
 * memory, the thread reads buckets directly. */
gs_status gs_overlap_create(gs_worker *w) {
    const size_t bytes = (w->model->saved + GS_STATS) * sizeof(float);
    gs_overlap *o;
    GS_TRY(GS_NEW(o, 1, "--bucket"));
    w->reducer_state = o;
    o->worker = w;
    if (!w->device->ops->host_memory)
        GS_TRY(gs_context(gs_host_alloc(w, GS_MEMORY_COMMUNICATION, bytes, &o->copy), "--bucket"));
    GS_TRY(cut(o));
    GS_TRY(gs_context(w->jobs(w, o->buckets, &o->jobs), "--bucket"));
    w->final = release;
    w->final_context = o;
    w->sync_most = 0;
    for (int i = 0; i < o->buckets; i++)
        if (o->bucket[i].count > w->sync_most) w->sync_most = o->bucket[i].count;
    return GS_OK;
}

gs_status gs_overlap_finish(gs_overlap *o) {
    GS_TRY(release(o, 0));
    GS_TRY(gs_jobs_wait_for_all(o->jobs));
    o->released = 0;
    o->waited += gs_seconds() - o->handed_over;
    for (int i = 0; i < o->buckets; i++) GS_TRY(bring_back(o, i));
    return GS_OK;
}

gs_overlap_times gs_overlap_measured(const gs_overlap *o, uint64_t steps) {
    if (steps == 0) return (gs_overlap_times){.buckets = o->buckets};
    return (gs_overlap_times){o->buckets, o->summing / (double)steps, o->waited / (double)steps};
}
