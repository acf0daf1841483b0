/* Timing of steps: the phases of a step, the median over all steps, and workers slowed down on purpose. */
#include "core/clock.h"
#include "core/median.h"
#include "core/philox.h"
#include "core/text.h"
#include "core/units.h"
#include "train/hooks.h"
#include "train/strategy.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

const char *const gs_phase_names[GS_PHASES] = {"data", "forward", "backward", "sync", "update"};

/* One step in 8 is measured. A measured step waits for the device after each phase, which costs a little time. */
enum { MEASURE_EVERY = 8 };
static const double LOOK = 0.1; /* seconds between checks for signals */

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

/* ---- workers slowed down on purpose ---- */

static bool is_named_before(const gs_jitter *j, int i) {
    for (int k = 0; k < i; k++)
        if (j->pause[k].rank == j->pause[i].rank) return true;
    return false;
}

static const gs_unit percent[] = {{"%", 1, 100}, {0}};

/* Read "3:20ms@5%", or "3:20ms" for each step, and advance *text past it. */
static bool read_pause(const char **text, gs_pause *p) {
    char *colon;
    if (**text < '0' || **text > '9') return false;
    unsigned long rank = strtoul(*text, &colon, 10);
    if (*colon != ':' || rank > INT_MAX) return false;
    p->rank = (int)rank;
    *text = colon + 1;
    p->share = 1;
    if (!gs_unit_read(text, gs_units_time, &p->seconds)) return false;
    if (**text == '@') {
        ++*text;
        if (!gs_unit_read(text, percent, &p->share)) return false;
    }
    return p->seconds > 0 && p->seconds <= 1000 && p->share > 0 && p->share <= 1;
}

bool gs_jitter_read(const char *text, gs_jitter *j) {
    gs_jitter read = {0};
    do {
        if (read.count == GS_PAUSES || !read_pause(&text, &read.pause[read.count]) ||
            is_named_before(&read, read.count))
            return false;
        read.count++;
    } while (*text++ == ',');
    if (text[-1]) return false;
    *j = read;
    return true;
}

const char *gs_jitter_text(const gs_jitter *j, char *text, size_t size) {
    char seconds[40], share[40];
    const bool valid = j->count >= 0 && j->count <= GS_PAUSES;
    snprintf(text, size, "%s", j->count > 0 ? "" : "none");
    if (!valid) snprintf(text, size, "%d pauses", j->count);
    for (int i = 0; valid && i < j->count; i++) {
        const gs_pause *p = &j->pause[i];
        gs_unit_print(p->seconds, gs_units_time, seconds, sizeof seconds);
        gs_unit_print(p->share, percent, share, sizeof share);
        gs_append(text, size, "%s%d:%s@%s", i > 0 ? "," : "", p->rank, seconds, share);
    }
    return text;
}

double gs_jitter_seconds(const gs_jitter *j, uint64_t seed, int rank, uint64_t step) {
    for (int i = 0; i < j->count; i++) {
        const gs_pause *p = &j->pause[i];
        uint32_t word[4];
        if (p->rank != rank) continue;
        gs_philox(seed, gs_stream_hi(GS_STREAM_JITTER, (uint64_t)rank), step, word);
        return (double)gs_uniform(word[0]) < p->share ? p->seconds : 0;
    }
    return 0;
}

/* True after Ctrl-C (even if another thread got the signal) or a worker's failure, which the next sum reports. */
static bool is_woken(const gs_worker *w) {
    return gs_stop_requested || (w->process && __atomic_load_n(&w->process->failed, __ATOMIC_SEQ_CST));
}

static void pause_if_named(const gs_worker *w) {
    const gs_settings *s = w->settings;
    const double seconds = gs_jitter_seconds(&s->jitter, s->seed, w->comm->rank, w->step);
    const double end = gs_seconds() + seconds;
    for (double left = seconds; left > 0 && !is_woken(w); left = end - gs_seconds())
        gs_sleep(left < LOOK ? left : LOOK);
}

/* ---- around a step ---- */

gs_status gs_step_begins(gs_worker *w) {
    GS_HOOKS(before_step, w);
    w->measured.phase_start = gs_seconds();
    pause_if_named(w); /* counts as loading time */
    return GS_OK;
}

void gs_step_ends(gs_worker *w) {
    if (is_measured(w)) w->measured.steps++;
}

/* ---- how long steps take ---- */

void gs_step_times_ended(gs_step_times *p, double now, bool counts) {
    if (counts) p->seconds[p->steps++ % GS_STEP_TIMES] = (float)(now - p->since);
    p->since = now;
}

double gs_step_times_median(const gs_step_times *p) {
    double seconds[GS_STEP_TIMES];
    const int count = p->steps < GS_STEP_TIMES ? (int)p->steps : GS_STEP_TIMES;
    for (int i = 0; i < count; i++) seconds[i] = (double)p->seconds[i];
    return count ? gs_median(seconds, count) : 0;
}
