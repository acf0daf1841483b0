/* The clock beside a step: phases, the timeline, and a worker that is made slow on purpose. */
#include "core/clock.h"
#include "train/hooks.h"
#include "train/run.h"
#include "train/strategy.h"

const char *const gs_phase_names[GS_PHASES] = {"data", "forward", "backward", "sync", "update"};

/* One step in this many is measured: a measured step waits after each phase, which costs a little. */
enum { MEASURE_EVERY = 8 };
static const double LOOK = 0.1; /* s */

static bool is_measured(const gs_worker *w) {
    return w->settings->measure && (w->settings->every > 0 || w->step % MEASURE_EVERY == 1);
}

gs_status gs_phase_ends(gs_worker *w, gs_phase phase) {
    bool measured = is_measured(w);
    if (!measured && !w->recorded) return GS_OK;
    GS_TRY(w->device->ops->finish(w->device));
    double now = gs_seconds();
    if (measured) w->measured.phase[phase] += now - w->measured.phase_start;
    GS_HOOKS(phase, w, phase, w->measured.phase_start, now);
    w->measured.phase_start = now;
    return GS_OK;
}

/* Ctrl-C, also where another thread has got the signal; or another worker has given up waiting for this one, which then
 * learns of it in its next sum. */
static bool is_woken(const gs_worker *w) {
    return gs_stop_requested || (w->run && atomic_load(&w->run->failed));
}

/* --slow: as if this worker's machine were slower; --jitter: as if it did something else now and then. */
static void sleep_if_slow(const gs_worker *w) {
    const gs_settings *s = w->settings;
    double seconds = gs_jitter_seconds(&s->jitter, s->seed, w->comm->rank, w->step);
    if (s->slow.rank == w->comm->rank) seconds += s->slow.ms / 1000;
    const double end = gs_seconds() + seconds;
    for (double left = seconds; left > 0 && !is_woken(w); left = end - gs_seconds())
        gs_nap(left < LOOK ? left : LOOK);
}

gs_status gs_step_begins(gs_worker *w) {
    GS_HOOKS(before_step, w);
    w->measured.phase_start = gs_seconds();
    sleep_if_slow(w); /* counts as a part of loading */
    return GS_OK;
}

void gs_step_ends(gs_worker *w) {
    if (is_measured(w)) w->measured.steps++;
}
