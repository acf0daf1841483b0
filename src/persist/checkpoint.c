#include "persist/checkpoint.h"

#include <inttypes.h>
#include <stdlib.h>

#include "core/clock.h"
#include "core/text.h"
#include "data/text_set.h"
#include "persist/folder.h"
#include "train/diverged.h"
#include "train/hooks.h"
#include "train/strategy.h"

/* What the thread has done so far. */
typedef struct written {
    gs_checkpoint_report report;
    double seconds;    /* spent on all writes */
    char message[600]; /* about the last failure */
} written;

/* Rank 0 writes in a thread while its worker trains. There is a single copy of the state, which belongs to the thread
 * during a write, and to the worker otherwise.
 *
 *     worker     steps | copy | steps                   | copy | steps
 *     thread             \--> write, fsync, rename      ^  \--> write, ...
 *                                                       idle: the copy belongs to the worker again
 */
typedef struct gs_checkpoints {
    uint64_t last;      /* step at which the last checkpoint was begun; 0 in a new run */
    sig_atomic_t seen;  /* value of gs_checkpoint_requested at that time */
    bool asked;         /* rank 0: a worker has been asked for a checkpoint since then */
    double moment;      /* time at which the last one was copied */
    double copied;      /* total seconds of all copies */
    double longest;     /* seconds of the longest copy */
    int copies, failed; /* failed: number of failures reported to the observer */
    float *weights;     /* the copy; on other ranks only a buffer for gathering; NULL: not needed */
    const gs_settings *settings;
    uint64_t per_epoch; /* steps per epoch */
    gs_model *plan;     /* describes the weights; this and `state` exist only on rank 0 */
    gs_state *state;
    gs_jobs *writer; /* NULL on other ranks */
    uint64_t ticket; /* of the last write */
    written done;    /* belongs to the thread while it writes */
} gs_checkpoints;

volatile sig_atomic_t gs_stop_requested, gs_checkpoint_requested;

/* ---- the thread ---- */

/* A run with non-finite weights is about to fail, and must not replace older checkpoints. */
static gs_status check_values(const gs_checkpoints *c) {
    const char *name;
    if (c->settings->keep_going || !gs_find_bad(c->plan, c->plan->saved_count, c->weights, &name))
        return GS_OK;
    return gs_fail(GS_E_DIVERGED, "a value in %s is not finite", name);
}

static gs_status write_one(void *checkpoints, const gs_job *job) {
    gs_checkpoints *c = checkpoints;
    const gs_settings *s = c->settings;
    written *d = &c->done;
    uint64_t bytes;
    (void)job;
    const double start = gs_seconds();
    gs_status status = check_values(c);
    if (status == GS_OK)
        status = gs_checkpoint_write(s->checkpoint, c->plan, s->optimizer, c->weights, c->state, c->per_epoch,
                                     gs_checkpoints_kept(s), &bytes);
    d->seconds += gs_seconds() - start;
    d->report.lost = status != GS_OK;
    if (status == GS_OK) {
        d->report.written++;
        d->report.step = c->state->step;
        d->report.bytes = (double)bytes;
        return GS_OK;
    }
    d->report.failed++;
    snprintf(d->message, sizeof d->message, "no checkpoint of step %" PRIu64 ": %s", c->state->step,
             gs_message());
    gs_append(d->message, sizeof d->message, "; %s",
              gs_checkpoint_is_empty(s->checkpoint) ? "there is no older one" : "the older ones stay");
    return GS_OK; /* training continues */
}

/* ---- when a checkpoint is due ---- */

static bool is_due(const gs_checkpoints *c, const gs_checkpoint_every *e, uint64_t step) {
    if (c->asked || c->seen != gs_checkpoint_requested) return true;
    if (e->steps > 0) return step / e->steps > c->last / e->steps;
    return gs_seconds() - c->moment >= (e->seconds > 0 ? e->seconds : GS_CHECKPOINT_SECONDS);
}

static float wish(const gs_worker *w, uint64_t done) {
    const gs_checkpoints *c = w->checkpoints;
    if (!c) return 0;
    if (!c->writer) return c->seen != gs_checkpoint_requested ? GS_ASKS_FOR_CHECKPOINT : 0;
    const bool due = is_due(c, &w->settings->checkpoint_every, done);
    return due && gs_jobs_is_done(c->writer, c->ticket) ? GS_SAYS_CHECKPOINT : 0;
}

/* ---- creation ---- */

static gs_status make_plan(const gs_worker *w, gs_model **plan) {
    GS_TRY(gs_model_create(NULL, &(gs_model_config){.text = w->settings->model, .in = w->model->in}, plan));
    (*plan)->scaling = w->model->scaling;
    (*plan)->vocabulary = w->train_set->text ? &w->train_set->text->vocabulary : NULL;
    return GS_OK;
}

int gs_checkpoints_kept(const gs_settings *s) {
    return s->keep.checkpoints > 0 ? s->keep.checkpoints : GS_KEEP_CHECKPOINTS;
}

static gs_status book(gs_worker *w) {
    const bool first = w->comm->rank == 0;
    const size_t bytes = gs_model_whole(w->model)->saved * sizeof(float);
    if (!w->settings->checkpoint) return GS_OK;
    GS_TRY(GS_NEW(w->checkpoints, 1, "--checkpoint"));
    gs_checkpoints *c = w->checkpoints;
    c->settings = w->settings;
    c->per_epoch = gs_steps_of_epoch(w->train_set->count, w->batch);
    c->seen = gs_checkpoint_requested;
    c->last = w->step;
    c->moment = gs_seconds();
    if (first || gs_weights_are_divided(w->model))
        GS_TRY(gs_context(gs_host_alloc(w, GS_MEMORY_WEIGHTS, bytes, &c->weights), "--checkpoint"));
    if (!first) return GS_OK;
    GS_TRY(make_plan(w, &c->plan));
    GS_TRY(gs_state_create(w, &c->state));
    return gs_context(w->jobs(w, 1, &c->writer), "--checkpoint");
}

static void free_checkpoints(gs_worker *w) {
    gs_checkpoints *c = w->checkpoints;
    if (!c) return;
    if (c->writer) gs_jobs_wait(c->writer, c->ticket);
    gs_jobs_free(c->writer);
    gs_state_free(c->state);
    gs_model_free(c->plan);
    free(c->weights);
    free(c);
    w->checkpoints = NULL;
}

/* ---- taking a checkpoint ---- */

static gs_status copy(gs_worker *w, gs_checkpoints *c) {
    GS_TRY(gs_state_fill(w, c->state));
    return c->weights ? gs_partition_weights(w, c->weights) : GS_OK;
}

static gs_status take(gs_worker *w, gs_checkpoints *c) {
    GS_TRY(w->device->ops->finish(w->device));
    const double start = gs_seconds();
    c->seen = gs_checkpoint_requested;
    c->asked = false;
    c->last = w->step;
    GS_TRY(gs_context(copy(w, c), "checkpoint of step %llu", (unsigned long long)w->step));
    c->moment = gs_seconds();
    const double took = c->moment - start;
    c->copied += took;
    if (took > c->longest) c->longest = took;
    c->copies++;
    return c->writer ? gs_jobs_give(c->writer, (gs_job){.run = write_one, .context = c}, &c->ticket) : GS_OK;
}

/* Report each failure once. */
static void tell_failure(gs_checkpoints *c, const gs_observer *observer) {
    if (!c->writer || !gs_jobs_is_done(c->writer, c->ticket)) return;
    const written *d = &c->done;
    if (d->report.failed == c->failed) return;
    c->failed = d->report.failed;
    if (observer->note) observer->note(observer->context, d->message);
}

/* Also called as after_steps, with the epoch's score: then it acts only if workers differ between steps. */
static gs_status after_step(gs_worker *w, gs_event *e) {
    gs_checkpoints *c = w->checkpoints;
    if (!c || e->diverged || e->total.stop) return GS_OK;
    tell_failure(c, w->observer);
    c->asked |= e->score.asked;
    return e->score.checkpoint ? take(w, c) : GS_OK;
}

/* Take a final checkpoint if there was a step since the last one, and wait until it is written. */
static gs_status end(gs_worker *w, gs_event *e) {
    gs_checkpoints *c = w->checkpoints;
    if (!c) return GS_OK;
    if (c->writer) gs_jobs_wait(c->writer, c->ticket);
    tell_failure(c, w->observer);
    int more = w->step > c->last;
    if (c->writer && c->copies == 0) more |= !gs_checkpoint_is_there(w->settings->checkpoint, w->step);
    GS_TRY(gs_comm_broadcast(w->comm, &more, 1, GS_I32, 0));
    if (more) GS_TRY(take(w, c));
    if (!c->writer) return GS_OK;
    gs_jobs_wait(c->writer, c->ticket);
    tell_failure(c, w->observer);
    gs_checkpoint_report *r = &e->result->checkpoints;
    *r = c->done.report;
    r->on = true;
    r->copied = c->copies > 0 ? c->copied / c->copies : 0;
    r->longest = c->longest;
    r->wrote = r->written > 0 ? c->done.seconds / (r->written + r->failed) : 0;
    r->share = e->seconds > 0 ? c->copied / e->seconds : 0;
    return GS_OK;
}

const gs_hook gs_hook_checkpoints = {.book = book,
                                     .wish = wish,
                                     .after_step = after_step,
                                     .after_steps = after_step,
                                     .end = end,
                                     .free = free_checkpoints};
