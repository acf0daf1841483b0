#include "cli/launch/elastic.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "cli/cli.h"
#include "cli/launch/board.h"
#include "cli/launch/elastic_nodes.h"
#include "comm/process.h"
#include "core/clock.h"
#include "core/text.h"

#define CUT_OFF "a rank was cut off"
static const double GRACE = 2; /* seconds beyond the time-out, until one that does not ask is killed */

typedef struct gs_elastic {
    int generation;        /* of several nodes: the one that is in force here */
    bool takes_part;       /* it has had ranks: what became of them before it came is not its own */
    double since;          /* the first loss of this generation was noticed; 0: there was none */
    int lost;              /* the child that was lost first, or has ended for wrong usage; -1: none was */
    bool misused;          /* one has ended for wrong usage, as each of the next generation would */
    bool idle;             /* the generation before made no step */
    bool over;             /* there is no other generation */
    gs_launch_place place; /* of the generations after the first */
    bool placed;
} gs_elastic;

/* ---- making it ---- */

gs_status gs_elastic_create(gs_launch_state *s) {
    if (!s->launch->elastic) return GS_OK;
    s->elastic = calloc(1, sizeof *s->elastic);
    s->board = gs_elastic_board_create();
    if (!s->elastic || !s->board) return gs_fail(GS_E_MEMORY, "no memory for --elastic");
    s->elastic->lost = -1;
    if (s->elastic_nodes) gs_elastic_board_begin(s->board, 0, 0, s->rank, "");
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

/* Not one that was let go. */
static bool survives(const gs_launch_state *s, int seat) {
    return s->child[seat].pid > 0 && s->rank[seat] >= 0;
}

static int count_survivors(const gs_launch_state *s) {
    int survivors = 0;
    for (int i = 0; i < s->launch->size; i++) survivors += survives(s, i);
    return survivors;
}

/* Number the ranks from `first` on: the survivors in the order of before, then new ones. *more: how many are to be
 * started. */
static void number(gs_launch_state *s, int first, int count, int *more) {
    int order[GS_LAUNCH_MOST], survivors = 0, next = 0;
    for (int i = 0; i < s->launch->size; i++) {
        int at = survivors;
        if (!survives(s, i)) continue;
        for (; at > 0 && s->rank[order[at - 1]] > s->rank[i]; at--) order[at] = order[at - 1];
        order[at] = i;
        survivors++;
    }
    for (int i = 0; i < s->launch->size; i++) s->rank[i] = -1;
    while (next < survivors && next < count) s->rank[order[next]] = first + next, next++;
    *more = count - next;
    for (int i = 0; i < s->launch->size && next < count; i++)
        if (s->child[i].pid == 0) s->rank[i] = first + next++;
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
    gs_launch_why_clear(s->why);
    number(s, 0, size, more);
    gs_elastic_board_begin(s->board, gs_elastic_board_generation(s->board) + 1, size, s->rank, e->place.meet);
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
    if (e->misused) s->verdict = GS_EXIT_USAGE;
    gs_elastic_board_end(s->board);
    describe_lost(s, lost, sizeof lost);
    if (why && s->running > 0) gs_launch_say("%s; the others do not go on: %s", *lost ? lost : CUT_OFF, why);
    if (e->lost >= 0) gs_launch_note_failure(s, e->lost);
}

static void go_on(gs_launch_state *s) {
    gs_elastic *e = s->elastic;
    const int survivors = count_survivors(s),
              size = gs_elastic_size(s->launch, gs_elastic_board_is_exact(s->board), survivors,
                                     s->launch->size - survivors);
    const bool idle = gs_elastic_board_stepped(s->board) < gs_elastic_board_generation(s->board);
    const char *why = e->misused        ? GS_ELASTIC_MISUSED
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
        say_generation(text, gs_elastic_board_generation(s->board), size, size - more, survivors);
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
    gs_elastic_board_end(s->board);
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
    if (s->running == 0 && !s->elastic_nodes) end(s, NULL); /* nobody is left */
}

/* Is there a process that is still to ask? One that hangs is killed. */
static bool wait_for_all(gs_launch_state *s) {
    const bool late = gs_awake_seconds() - s->elastic->since > s->timeout + GRACE;
    bool waits = false;
    for (int i = 0; i < s->launch->size; i++) {
        gs_launch_child *c = &s->child[i];
        if (c->pid <= 0 || gs_elastic_board_asks(s->board, i)) continue;
        waits = true;
        if (!late && !gs_process_is_stopped(c->pid)) continue;
        if (s->elastic->lost < 0 && s->rank[i] >= 0) s->elastic->lost = i;
        gs_launch_note_hanging(c);
        kill(c->pid, SIGKILL);
    }
    return waits;
}

bool gs_elastic_is_ending(const gs_launch_state *s) {
    if (s->elastic_nodes && gs_elastic_nodes_are_ending(s->elastic_nodes)) return true;
    for (int i = 0; i < s->launch->size; i++)
        if (s->child[i].pid == 0 && s->rank[i] >= 0 && s->child[i].status == 0) return true;
    return false;
}

static int count_asking(const gs_launch_state *s) {
    int asking = 0;
    for (int i = 0; i < s->launch->size; i++) asking += survives(s, i) && gs_elastic_board_asks(s->board, i);
    return asking;
}

/* ---- of several nodes ---- */

/* The generation, or the end, on which all have agreed. True: there is news. */
static bool obey(gs_launch_state *s) {
    gs_elastic *e = s->elastic;
    int exit_status;
    const char *why = gs_elastic_nodes_end(s->elastic_nodes, &exit_status);
    const int generation = gs_elastic_nodes_generation(s->elastic_nodes);
    if (why) {
        e->over = true;
        s->verdict = exit_status;
        gs_elastic_board_end(s->board);
        if (exit_status == GS_EXIT_OK) return true;
        gs_launch_end_all(s, gs_elastic_nodes_is_cut_off(s->elastic_nodes) ? SIGKILL : SIGTERM);
        return true;
    }
    if (generation == e->generation || s->stopped_by) return false; /* who would stop those that it starts? */
    const gs_elastic_share share = gs_elastic_nodes_share(s->elastic_nodes);
    int more;
    gs_launch_why_clear(s->why);
    gs_launch_place_forget(&s->place);
    number(s, share.first, share.count, &more);
    gs_elastic_board_begin(s->board, generation, share.size, s->rank, s->place.meet);
    e->takes_part |= share.count > 0;
    if (generation > 1 && e->takes_part)
        say_generation(share.what, generation, share.size, share.kept, share.survivors);
    e->generation = generation;
    e->lost = -1;
    e->misused = false;
    e->since = 0;
    if (start_new(s, &s->place, share.size) == GS_OK) return true;
    gs_launch_say("%s", gs_message());
    e->over = true;
    s->verdict = GS_EXIT_FAILED;
    gs_elastic_board_end(s->board);
    gs_launch_end_all(s, SIGTERM);
    return true;
}

static void report(gs_launch_state *s, bool lost) {
    gs_elastic_report r = {.lost = lost,
                           .done = s->failed >= 0 || gs_elastic_is_ending(s),
                           .stepped = gs_elastic_board_stepped(s->board) >= s->elastic->generation,
                           .misused = s->elastic->misused,
                           .exact = gs_elastic_board_is_exact(s->board)};
    if (!r.done) r.survivors = count_survivors(s);
    if (lost) describe_lost(s, r.what, sizeof r.what);
    gs_elastic_nodes_report(s->elastic_nodes, &r);
}

/* Returns true where something is about to happen. */
static bool look_at_all(gs_launch_state *s) {
    gs_elastic *e = s->elastic;
    gs_elastic_nodes_look(s->elastic_nodes);
    if (e->over || obey(s) || s->stopped_by || e->generation == 0) return true;
    const bool lost =
        e->lost >= 0 || s->failed >= 0 || count_asking(s) > 0 || gs_elastic_nodes_lost(s->elastic_nodes);
    if (lost) {
        if (e->since <= 0) e->since = gs_awake_seconds();
        gs_elastic_nodes_say_lost(s->elastic_nodes);
        if (s->failed < 0 && !gs_elastic_is_ending(s) && wait_for_all(s)) return true;
        report(s, true);
        return true;
    }
    if (gs_elastic_nodes_share(s->elastic_nodes).count == 0) return false;
    if (count_survivors(s) == 0) report(s, false);
    if (gs_elastic_board_stepped(s->board) >= e->generation &&
        gs_elastic_nodes_has_newcomers(s->elastic_nodes, gs_elastic_board_is_exact(s->board)))
        gs_elastic_board_summon(s->board);
    return false;
}

/* ---- for the launch ---- */

bool gs_elastic_waits(const gs_launch_state *s) {
    return s->elastic_nodes && !s->elastic->over && !s->stopped_by;
}

void gs_elastic_close(gs_launch_state *s) {
    const gs_elastic *e = s->elastic;
    if (e && s->elastic_nodes && s->stopped_by && !e->over)
        gs_elastic_nodes_say_stopped(s->elastic_nodes, s->stopped_by, e->generation);
    if (e && !s->elastic_nodes && e->lost >= 0 && s->failed < 0 && !s->stopped_by) end(s, NULL);
}

bool gs_elastic_look(gs_launch_state *s) {
    gs_elastic *e = s->elastic;
    if (e && s->elastic_nodes) return look_at_all(s);
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
