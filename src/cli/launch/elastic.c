/* launch --elastic MIN:MAX: when a rank was lost, the processes that are left go on, without a checkpoint.
 *
 *     generation 1   processes a b c d    ranks 0 1 2 3      c is killed in step 57
 *     generation 2   processes a b d      ranks 0 1 2        the others repeat it (train/elastic/carry.h)
 *                    process  e           rank  3            new, where MAX allows: it gets the state from rank 0
 *
 * The launcher waits until every process has noticed the loss (shared.h); one that hangs is killed. Then it begins the
 * next generation with those that are left, and starts new ones until there are MAX. With --exact there must be 1, 2, 4
 * or 8 of them: surplus ones are let go, and end with 0. The run ends as without --elastic if fewer than MIN are left,
 * if some have done their work already, if two generations in turn make no step, or if a rank ends for wrong usage,
 * which the next generation would repeat.
 */
#include "cli/launch/launch.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "cli/cli.h"
#include "comm/process.h"
#include "core/clock.h"
#include "core/text.h"

#define CUT_OFF "a rank was cut off"
static const double GRACE = 2; /* seconds beyond the time-out, until one that does not ask is killed */

typedef struct gs_elastic {
    double since;          /* the first loss of this generation was noticed; 0: there was none */
    int lost;              /* the child that was lost first, or has ended for wrong usage; -1: none was */
    bool misused;          /* one has ended for wrong usage, as each of the next generation would */
    bool idle;             /* the generation before made no step */
    bool over;             /* there is no other generation */
    gs_launch_place place; /* of the generations after the first */
    bool placed;
} gs_elastic;

/* ---- what it asks for ---- */

/* "2:4" or "2". False: it is neither. */
static bool read_sizes(const char *text, int *min, int *max) {
    int used = 0;
    *max = 0;
    if (sscanf(text, "%6d%n", min, &used) == 1 && text[used] == '\0') return *min >= 1;
    used = 0;
    if (sscanf(text, "%6d:%6d%n", min, max, &used) != 2 || used == 0 || text[used] != '\0') return false;
    return *min >= 1 && *max >= *min;
}

gs_status gs_elastic_check(const gs_launch *l) {
    int min, max;
    if (!l->elastic) return GS_OK;
    if (!read_sizes(l->elastic, &min, &max))
        return gs_fail(GS_E_USAGE, "--elastic: '%s' is not MIN or MIN:MAX, the fewest processes and the most",
                       l->elastic);
    if (l->meet)
        return gs_fail(GS_E_USAGE,
                       "--elastic: the processes meet again in a folder of their own; leave --meet out");
    if (min > l->size || max > l->size)
        return gs_fail(GS_E_USAGE, "--elastic %s: more than the %d processes of -n", l->elastic, l->size);
    if (l->restarts > 0)
        return gs_fail(GS_E_USAGE,
                       "--elastic goes on with the processes that are left, --restarts starts all again; use "
                       "only one of them");
    if (strcmp(l->command[0], "train") != 0)
        return gs_fail(GS_E_USAGE, "--elastic is for train; '%s' has nothing to go on with", l->command[0]);
    return GS_OK;
}

/* How many ranks the next generation has, with so many survivors and room for so many new ones; 0: too few. exact: the
 * run is. */
static int next_size(const gs_launch *l, bool exact, int survivors, int room) {
    int min = 1, max = 0;
    read_sizes(l->elastic, &min, &max);
    if (survivors < min) return 0;
    int size = survivors >= max ? survivors : survivors + room < max ? survivors + room : max;
    while (exact && size > 0 && (size & (size - 1)) != 0) size--;
    while (exact && size > 8) size /= 2;
    return size < min ? 0 : size;
}

/* ---- making it ---- */

gs_status gs_elastic_create(gs_launch_state *s) {
    if (!s->launch->elastic) return GS_OK;
    s->elastic = calloc(1, sizeof *s->elastic);
    if (!s->elastic) return gs_fail(GS_E_MEMORY, "no memory for --elastic");
    s->elastic->lost = -1;
    return GS_OK;
}

void gs_elastic_free(gs_launch_state *s) {
    if (s->elastic && s->elastic->placed) gs_launch_place_remove(&s->elastic->place, 0);
    free(s->elastic);
    s->elastic = NULL;
}

/* ---- the next generation ---- */

/* Not one that was let go. */
static bool survives(const gs_launch_state *s, int seat) {
    return s->child[seat].pid > 0 && s->rank[seat] >= 0;
}

static int count_survivors(const gs_launch_state *s) {
    int survivors = 0;
    for (int i = 0; i < s->launch->size; i++) survivors += survives(s, i);
    return survivors;
}

/* Number the ranks: the survivors in the order of before, then new ones. *more: how many are to be
 * started. */
static void number(gs_launch_state *s, int count, int *more) {
    int order[GS_LAUNCH_MOST], survivors = 0, next = 0;
    for (int i = 0; i < s->launch->size; i++) {
        int at = survivors;
        if (!survives(s, i)) continue;
        for (; at > 0 && s->rank[order[at - 1]] > s->rank[i]; at--) order[at] = order[at - 1];
        order[at] = i;
        survivors++;
    }
    for (int i = 0; i < s->launch->size; i++) s->rank[i] = -1;
    while (next < survivors && next < count) s->rank[order[next]] = next, next++;
    *more = count - next;
    for (int i = 0; i < s->launch->size && next < count; i++)
        if (s->child[i].pid == 0) s->rank[i] = next++;
}

static gs_status start_new(gs_launch_state *s, const gs_launch_place *place, int size) {
    for (int i = 0; i < s->launch->size; i++)
        if (s->child[i].pid == 0 && s->rank[i] >= 0) GS_TRY(gs_launch_start_one(s, place, i, size));
    return GS_OK;
}

static gs_status begin(gs_launch_state *s, int size, int *more) {
    gs_elastic *e = s->elastic;
    if (e->placed) gs_launch_place_remove(&e->place, 0);
    gs_launch_place_forget(&s->place);
    e->placed = true;
    GS_TRY(gs_launch_place_create(s->launch, &e->place));
    number(s, size, more);
    gs_shared_begin(s->shared, size, s->rank, e->place.meet);
    return start_new(s, &e->place, size);
}

/* Who was lost first; "": nobody that is known. */
static void describe_lost(const gs_launch_state *s, char *text, size_t size) {
    const int seat = s->hung >= 0 ? s->hung : s->elastic->lost;
    *text = '\0';
    if (seat >= 0 && s->child[seat].hangs[0])
        snprintf(text, size, "rank %d hangs: %s", s->rank[seat], s->child[seat].hangs);
    else if (seat >= 0)
        gs_launch_status_text(s, seat, text, size);
}

/* lost: who was, "": nobody that is known; size: ranks of the generation; kept: how many of the survivors go on. */
static void say_generation(const char *lost, int generation, int size, int kept, int survivors) {
    char text[500];
    snprintf(text, sizeof text, "%s; generation %d: %d go%s on", *lost ? lost : CUT_OFF, generation, kept,
             kept == 1 ? "es" : "");
    if (size > kept) gs_append(text, sizeof text, ", %d new", size - kept);
    if (kept < survivors) gs_append(text, sizeof text, ", %d let go, for --exact", survivors - kept);
    gs_launch_say("%s", text);
}

/* The launch fails, as it would have without --elastic. why NULL: nobody is left who could go on. */
static void end(gs_launch_state *s, const char *why) {
    gs_elastic *e = s->elastic;
    char lost[200];
    e->over = true;
    s->misused = e->misused;
    atomic_store(&s->shared->over, 1);
    describe_lost(s, lost, sizeof lost);
    if (why && s->running > 0) gs_launch_say("%s; the others do not go on: %s", *lost ? lost : CUT_OFF, why);
    if (e->lost >= 0) gs_launch_note_failure(s, e->lost);
}

static void go_on(gs_launch_state *s) {
    gs_elastic *e = s->elastic;
    const int survivors = count_survivors(s), size = next_size(s->launch, atomic_load(&s->shared->exact) != 0,
                                                               survivors, s->launch->size - survivors);
    const bool idle = atomic_load(&s->shared->stepped) < atomic_load(&s->shared->generation);
    const char *why = e->misused        ? "wrong usage would fail again"
                      : idle && e->idle ? "two generations in turn made no step"
                      : size == 0       ? "they are too few"
                                        : NULL;
    char text[200];
    int more = 0;
    if (why) {
        end(s, why);
        return;
    }
    describe_lost(s, text, sizeof text);
    const gs_status status = begin(s, size, &more);
    if (status == GS_OK)
        say_generation(text, atomic_load(&s->shared->generation), size, size - more, survivors);
    else
        gs_launch_say("%s", *text ? text : CUT_OFF);
    e->idle = idle;
    e->since = 0;
    const int lost = e->lost;
    e->lost = -1;
    if (status == GS_OK) return;
    gs_launch_say("%s", gs_message());
    e->lost = lost >= 0 ? lost : 0;
    end(s, NULL);
}

/* ---- watching ---- */

void gs_elastic_give_up(gs_launch_state *s) {
    if (!s->elastic) return;
    s->elastic->over = true;
    atomic_store(&s->shared->over, 1);
}

/* Others may merely have lost one that has ended for wrong usage: that one is the cause, even if it was seen later. */
void gs_elastic_lost(gs_launch_state *s, int seat) {
    gs_elastic *e = s->elastic;
    const int status = s->child[seat].status;
    const bool misused = WIFEXITED(status) && WEXITSTATUS(status) == GS_EXIT_USAGE;
    if (s->rank[seat] < 0) return; /* it was let go */
    if (e->over || s->stopped_by) {
        gs_launch_note_failure(s, seat);
        return;
    }
    if (e->lost < 0) gs_launch_tell_absent(s, seat);
    if (e->lost < 0 || (misused && !e->misused)) e->lost = seat;
    e->misused |= misused;
    if (e->since <= 0) e->since = gs_awake_seconds();
    if (s->running == 0) end(s, NULL); /* nobody is left */
}

/* Is there a process that is still to ask? One that hangs is killed. */
static bool wait_for_all(gs_launch_state *s) {
    const bool late = gs_awake_seconds() - s->elastic->since > s->timeout + GRACE;
    bool waits = false;
    for (int i = 0; i < s->launch->size; i++) {
        gs_launch_child *c = &s->child[i];
        if (c->pid <= 0 || gs_shared_asks(s->shared, i)) continue;
        waits = true;
        if (!late && !gs_process_is_stopped(c->pid)) continue;
        if (s->elastic->lost < 0 && s->rank[i] >= 0) s->elastic->lost = i;
        gs_launch_note_hanging(c);
        kill(c->pid, SIGKILL);
    }
    return waits;
}

bool gs_elastic_is_ending(const gs_launch_state *s) {
    for (int i = 0; i < s->launch->size; i++)
        if (s->child[i].pid == 0 && s->rank[i] >= 0 && s->child[i].status == 0) return true;
    return false;
}

static int count_asking(const gs_launch_state *s) {
    int asking = 0;
    for (int i = 0; i < s->launch->size; i++) asking += survives(s, i) && gs_shared_asks(s->shared, i);
    return asking;
}

/* ---- for the launch ---- */

void gs_elastic_close(gs_launch_state *s) {
    const gs_elastic *e = s->elastic;
    if (e && e->lost >= 0 && s->failed < 0 && !s->stopped_by) end(s, NULL);
}

bool gs_elastic_look(gs_launch_state *s) {
    gs_elastic *e = s->elastic;
    if (!e || e->over || s->stopped_by || s->failed >= 0 || s->running == 0) return false;
    if (count_asking(s) == 0 && e->lost < 0) return false;
    if (e->since <= 0) e->since = gs_awake_seconds();
    if (gs_elastic_is_ending(s)) {
        end(s, "some have done their work");
        return false;
    }
    if (wait_for_all(s)) return true;
    go_on(s);
    return true;
}
