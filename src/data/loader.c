#include "data/loader.h"

#include "core/clock.h"
#include "core/thread.h"
#include "data/order.h"

#include <stdlib.h>

/* Slots form a ring: the loader fills slot `filled % slots`; the worker takes slot `taken % slots` and owns it until it
 * takes the next one. */
struct gs_loader {
    const gs_dataset *set;
    gs_schedule schedule;
    gs_augment augment;
    uint64_t seed;
    gs_throttle throttle;
    uint32_t *order; /* of the epoch that the loader is in */
    size_t slots;
    gs_loaded slot[GS_LOADER_MOST_SLOTS];
    unsigned char *inputs, *targets; /* of all slots */

    pthread_t thread;
    bool running;
    pthread_mutex_t lock; /* guards the members below */
    pthread_cond_t wake_loader, wake_worker;
    uint64_t filled, taken, returned;
    bool ended, quit;
    gs_error error;                     /* in gathering the micro-batch after the last filled one */
    const gs_loader_observer *observer; /* may be NULL */

    double waited; /* written only by the worker */
};

double gs_throttle_until(gs_throttle *p, double now, double bytes) {
    if (!(p->rate > 0)) return now;
    if (p->free < now) p->free = now;
    p->free += bytes / p->rate;
    return p->free;
}

/* ---- the loader's thread ---- */

static void sleep_until(gs_loader *l, double moment) {
    const struct timespec until = gs_timespec(moment);
    while (!l->quit && gs_seconds() < moment) pthread_cond_timedwait(&l->wake_loader, &l->lock, &until);
}

/* Wait for a free slot. Once asleep, wait until half of the slots are free. */
static bool wait_for_room(gs_loader *l) {
    const bool full = l->filled - l->returned == l->slots;
    while (full && !l->quit && l->filled - l->returned > l->slots / 2)
        pthread_cond_wait(&l->wake_loader, &l->lock);
    return !l->quit;
}

static gs_status fill(gs_loader *l, const gs_micro_batch *micro_batch, uint64_t *epoch) {
    size_t slot = l->filled % l->slots; /* only this thread changes `filled` */
    unsigned char *inputs = l->inputs + slot * l->schedule.most * gs_dataset_input_bytes(l->set);
    unsigned char *targets = l->targets + slot * l->schedule.most * gs_dataset_target_bytes(l->set);
    if (micro_batch->epoch != *epoch) gs_epoch_order(l->seed, micro_batch->epoch, l->set->count, l->order);
    *epoch = micro_batch->epoch;
    l->slot[slot] = (gs_loaded){*micro_batch, inputs, targets};
    /* copies samples order[first ..] and their targets (gather.c) */
    return gs_augment_gather(&l->augment, l->set, l->seed, micro_batch->epoch, l->order + micro_batch->first,
                             micro_batch->n, inputs, targets);
}

static void *loader_main(void *argument) {
    gs_loader *l = argument;
    gs_schedule_position at = gs_schedule_begin(&l->schedule);
    gs_micro_batch micro_batch;
    uint64_t epoch = 0;
    pthread_mutex_lock(&l->lock);
    while (gs_schedule_next(&l->schedule, &at, &micro_batch) && wait_for_room(l)) {
        pthread_mutex_unlock(&l->lock);
        double bytes = (double)micro_batch.n * (double)gs_sample_bytes(l->set);
        double start = gs_seconds();
        double through = l->throttle.rate > 0 ? gs_throttle_until(&l->throttle, start, bytes) : 0;
        const gs_status status = fill(l, &micro_batch, &epoch);
        double end = gs_seconds();
        pthread_mutex_lock(&l->lock);
        if (gs_error_keep(&l->error, status) != GS_OK) break;
        if (l->observer && micro_batch.n > 0)
            l->observer->gathered(l->observer->context, &micro_batch, start, end);
        if (through > 0) sleep_until(l, through);
        l->filled++;
        pthread_cond_signal(&l->wake_worker);
    }
    l->ended = true;
    pthread_cond_signal(&l->wake_worker);
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

/* ---- the worker's side ---- */

gs_status gs_loader_next(gs_loader *l, const gs_loaded **next) {
    pthread_mutex_lock(&l->lock);
    l->returned = l->taken;
    if (l->filled - l->returned <= l->slots / 2) pthread_cond_signal(&l->wake_loader);
    if (l->filled == l->taken && !l->ended) {
        double start = gs_seconds();
        while (l->filled == l->taken && !l->ended) pthread_cond_wait(&l->wake_worker, &l->lock);
        l->waited += gs_seconds() - start;
    }
    const bool failed = l->filled == l->taken && l->error.status != GS_OK;
    if (l->filled == l->taken && !failed)
        gs_bug("gs_loader_next: the schedule is over after %llu micro-batches", (unsigned long long)l->taken);
    *next = failed ? NULL : &l->slot[l->taken++ % l->slots];
    pthread_mutex_unlock(&l->lock);
    return failed ? gs_error_again(&l->error) : GS_OK;
}

void gs_loader_watch(gs_loader *l, const gs_loader_observer *observer) {
    pthread_mutex_lock(&l->lock);
    l->observer = observer;
    pthread_mutex_unlock(&l->lock);
}

double gs_loader_waited(const gs_loader *l) {
    return l->waited;
}

/* ---- create, free ---- */

static size_t slots_of(const gs_dataset *set, size_t most) {
    const size_t slots = GS_LOADER_BYTES / (most * gs_dataset_input_bytes(set));
    if (slots < GS_LOADER_SLOTS) return GS_LOADER_SLOTS;
    return slots < GS_LOADER_MOST_SLOTS ? slots : GS_LOADER_MOST_SLOTS;
}

size_t gs_loader_bytes(const gs_dataset *set, size_t most) {
    const size_t sample = gs_dataset_input_bytes(set) + gs_dataset_target_bytes(set);
    return set->count * sizeof(uint32_t) + slots_of(set, most) * most * sample;
}

static gs_status create(gs_loader *l) {
    size_t input = gs_dataset_input_bytes(l->set), most = l->schedule.most;
    l->slots = slots_of(l->set, most);
    const size_t samples = l->slots * most;
    GS_TRY(GS_NEW(l->order, l->set->count, "the order of %zu samples", l->set->count));
    GS_TRY(GS_NEW(l->inputs, samples * input, "a loader of %zu samples", samples));
    GS_TRY(GS_NEW(l->targets, samples * gs_dataset_target_bytes(l->set), "a loader of %zu samples", samples));
    l->running = gs_thread_start(&l->thread, loader_main, l) == 0;
    return l->running ? GS_OK : gs_fail(GS_E_MEMORY, "cannot start a thread for the loader");
}

gs_status gs_loader_create(const gs_dataset *set, const gs_schedule *schedule, const gs_augment *augment,
                           uint64_t seed, double bytes_per_s, gs_loader **out) {
    *out = NULL;
    gs_loader *l;
    GS_TRY(GS_NEW(l, 1, "a loader"));
    l->set = set;
    l->schedule = *schedule;
    if (augment) l->augment = *augment;
    l->seed = seed;
    l->throttle.rate = bytes_per_s;
    pthread_condattr_t monotonic; /* the clock that gs_seconds uses */
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&l->wake_loader, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_cond_init(&l->wake_worker, NULL);
    pthread_mutex_init(&l->lock, NULL);
    gs_status status = create(l);
    if (status == GS_OK)
        *out = l;
    else
        gs_loader_free(l);
    return status;
}

void gs_loader_free(gs_loader *l) {
    if (!l) return;
    pthread_mutex_lock(&l->lock);
    l->quit = true;
    pthread_cond_signal(&l->wake_loader);
    pthread_mutex_unlock(&l->lock);
    if (l->running) pthread_join(l->thread, NULL);
    pthread_mutex_destroy(&l->lock);
    pthread_cond_destroy(&l->wake_loader);
    pthread_cond_destroy(&l->wake_worker);
    free(l->inputs);
    free(l->targets);
    free(l->order);
    free(l);
}
