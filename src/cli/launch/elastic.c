#include "cli/launch/elastic.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/launch/board.h"
#include "comm/process.h"
#include "core/clock.h"

static const double GRACE = 2; /* seconds beyond the time-out, until one that does not ask is killed */

typedef struct gs_elastic {
    double since;          /* the first loss of this generation was noticed; 0: there was none */
    int lost;              /* the child that was lost first; -1: none was */
    bool idle;             /* the generation before made no step */
    bool over;             /* there is no other generation */
    gs_launch_place place; /* of the generations after the first */
    bool placed;
} gs_elastic;

/* ---- what it goes with ---- */

bool gs_elastic_read(const char *text, int *min, int *max) {
    int used = 0;
    *max = 0;
    if (sscanf(text, "%d%n", min, &used) == 1 && text[used] == '\0') return *min >= 1;
    used = 0;
    if (sscanf(text, "%d:%d%n", min, max, &used) != 2 || used == 0 || text[used] != '\0') return false;
    return *min >= 1 && *max >= *min;
}

gs_status gs_elastic_check(const gs_launch *l) {
    int min, max;
    if (!l->elastic) return GS_OK;
    if (!gs_elastic_read(l->elastic, &min, &max))
        return gs_fail(GS_E_USAGE,
                       "--elastic: '%s' is not MIN or MIN:MAX, how many processes at least go on, and up to "
                       "how many new ones are started",
                       l->elastic);
    if (l->hosts)
        return gs_fail(GS_E_USAGE,
                       "--elastic: the processes of one launcher go on; with --hosts use --restarts");
    if (min > l->size || max > l->size)
        return gs_fail(GS_E_USAGE, "--elastic %s: more than the %d processes of -n", l->elastic, l->size);
    if (l->nodes > 1 || l->meet)
        return gs_fail(
            GS_E_USAGE,
            "--elastic: the processes of one launcher meet again in a folder of their own; on several "
            "nodes use --restarts, or leave --nodes and --meet out");
    if (l->restarts > 0)
        return gs_fail(GS_E_USAGE,
                       "--elastic goes on with the processes that are left, --restarts starts all again; use "
                       "only one of them");
    if (strcmp(l->command[0], "train") != 0)
        return gs_fail(GS_E_USAGE, "--elastic is for train; '%s' has nothing to go on with", l->command[0]);
    return GS_OK;
}

gs_status gs_elastic_create(gs_launch_state *s) {
    if (!s->launch->elastic) return GS_OK;
    s->elastic = calloc(1, sizeof *s->elastic);
    s->board = gs_elastic_board_create();
    if (!s->elastic || !s->board) return gs_fail(GS_E_MEMORY, "no memory for --elastic");
    s->elastic->lost = -1;
    return GS_OK;
}

void gs_elastic_free(gs_launch_state *s) {
    if (s->elastic && s->elastic->placed) gs_launch_place_remove(&s->elastic->place, 0);
    free(s->elastic);
    gs_elastic_board_free(s->board);
    s->elastic = NULL;
    s->board = NULL;
}

/* ---- the next generation ---- */

/* How many of them, with `left` processes; 0: too few. */
static int next_size(const gs_launch *l, int left) {
    int min = 1, max = 0;
    gs_elastic_read(l->elastic, &min, &max);
    if (left < min) return 0;
    int size = left < max ? max : left;
    bool exact = false;
    for (char **word = l->command; *word; word++) exact |= strcmp(*word, "--exact") == 0;
    while (exact && size > 0 && (size & (size - 1)) != 0) size--;
    while (exact && size > 8) size /= 2;
    return size < min ? 0 : size;
}

/* Ranks in the order of before; those that are left first. *more: how many are to be started. */
static void number(gs_launch_state *s, int size, int *more) {
    int order[GS_LAUNCH_MOST], next = 0;
    for (int r = 0; r < GS_LAUNCH_MOST; r++) order[r] = -1;
    for (int i = 0; i < s->launch->size; i++)
        if (s->child[i].pid > 0 && s->rank[i] >= 0) order[s->rank[i]] = i;
    for (int i = 0; i < s->launch->size; i++) s->rank[i] = -1;
    for (int r = 0; r < GS_LAUNCH_MOST; r++)
        if (order[r] >= 0 && next < size) s->rank[order[r]] = next++;
    *more = size - next;
    for (int i = 0; i < s->launch->size && next < size; i++)
        if (s->child[i].pid == 0) s->rank[i] = next++;
}

static gs_status begin(gs_launch_state *s, int size, int *more) {
    gs_elastic *e = s->elastic;
    if (e->placed) gs_launch_place_remove(&e->place, 0);
    gs_launch_place_forget(&s->place);
    e->placed = true;
    GS_TRY(gs_launch_place_create(s->launch, &e->place));
    gs_launch_why_clear(s->why);
    number(s, size, more);
    gs_elastic_board_begin(s->board, size, s->rank, e->place.meet);
    for (int i = 0; i < s->launch->size; i++)
        if (s->child[i].pid == 0 && s->rank[i] >= 0) GS_TRY(gs_launch_start_one(s, &e->place, i, size));
    return GS_OK;
}

static void say_lost(const gs_launch_state *s) {
    const gs_elastic *e = s->elastic;
    if (e->lost >= 0 && s->child[e->lost].hangs[0])
        fprintf(stderr, "gradsum launch: rank %d hangs: %s", s->rank[e->lost], s->child[e->lost].hangs);
    else if (e->lost >= 0)
        gs_launch_say_status(s, e->lost);
    else
        fprintf(stderr, "gradsum launch: a rank was cut off");
}

/* The launch fails, as it would have without --elastic. */
static void end(gs_launch_state *s, const char *why) {
    gs_elastic *e = s->elastic;
    e->over = true;
    gs_elastic_board_end(s->board);
    if (why && s->running > 0) {
        say_lost(s);
        fprintf(stderr, "; the others do not go on: %s\n", why);
    }
    if (e->lost >= 0) gs_launch_note_failure(s, e->lost);
}

static void go_on(gs_launch_state *s) {
    gs_elastic *e = s->elastic;
    const int size = next_size(s->launch, s->running);
    const bool idle = gs_elastic_board_stepped(s->board) < gs_elastic_board_generation(s->board);
    const int before = s->running;
    int more = 0;
    if (idle && e->idle) {
        end(s, "two generations in turn made no step");
        return;
    }
    if (size == 0) {
        end(s, "they are too few");
        return;
    }
    say_lost(s);
    const gs_status status = begin(s, size, &more);
    if (status == GS_OK)
        fprintf(stderr, "; generation %d: %d go%s on", gs_elastic_board_generation(s->board), size - more,
                size - more == 1 ? "es" : "");
    if (more > 0) fprintf(stderr, ", %d new", more);
    if (size < before) fprintf(stderr, ", %d let go, for --exact", before - size);
    fprintf(stderr, "\n");
    e->idle = idle;
    e->since = 0;
    const int lost = e->lost;
    e->lost = -1;
    if (status == GS_OK) return;
    fprintf(stderr, "gradsum launch: %s\n", gs_message());
    e->lost = lost >= 0 ? lost : 0;
    end(s, NULL);
}

/* ---- watching ---- */

void gs_elastic_lost(gs_launch_state *s, int seat) {
    gs_elastic *e = s->elastic;
    if (s->rank[seat] < 0) return; /* it was let go */
    if (e->over || s->stopped_by) {
        gs_launch_note_failure(s, seat);
        return;
    }
    if (e->lost < 0) e->lost = seat;
    if (e->since <= 0) e->since = gs_seconds();
    if (s->running == 0) end(s, NULL); /* nobody is left */
}

void gs_elastic_close(gs_launch_state *s) {
    const gs_elastic *e = s->elastic;
    if (e && e->lost >= 0 && s->failed < 0 && !s->stopped_by) end(s, NULL);
}

/* Is there a process that is still to ask? One that hangs is killed. */
static bool wait_for_all(gs_launch_state *s) {
    const bool late = gs_seconds() - s->elastic->since > s->timeout + GRACE;
    bool waits = false;
    for (int i = 0; i < s->launch->size; i++) {
        gs_launch_child *c = &s->child[i];
        if (c->pid <= 0 || gs_elastic_board_asks(s->board, i)) continue;
        waits = true;
        if (!late && !gs_process_is_stopped(c->pid)) continue;
        if (s->elastic->lost < 0) s->elastic->lost = i;
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

bool gs_elastic_look(gs_launch_state *s) {
    gs_elastic *e = s->elastic;
    int asking = 0;
    if (!e || e->over || s->stopped_by || s->failed >= 0 || s->running == 0) return false;
    for (int i = 0; i < s->launch->size; i++)
        asking += s->child[i].pid > 0 && gs_elastic_board_asks(s->board, i);
    if (asking == 0 && e->lost < 0) return false;
    if (e->since <= 0) e->since = gs_seconds();
    if (gs_elastic_is_ending(s)) {
        end(s, "some have done their work");
        return false;
    }
    if (wait_for_all(s)) return true;
    go_on(s);
    return true;
}
