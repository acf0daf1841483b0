#include "cli/launch/elastic.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/launch/board.h"
#include "cli/launch/elastic_nodes.h"
#include "cli/launch/post.h"
#include "comm/process.h"
#include "core/clock.h"

static const double GRACE = 2; /* seconds beyond the time-out, until one that does not ask is killed */

typedef struct gs_elastic {
    int generation;        /* of several nodes: the one that is in force here */
    bool takes_part;       /* it has had ranks: what became of them before it came is not its own */
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
    if (l->nodes > 1 || l->hosts) {
        char what[60];
        snprintf(what, sizeof what, "--elastic %.30s", l->elastic);
        GS_TRY(gs_launch_post_check(l, what, GS_ELASTIC_NODES, true));
    } else if (l->meet) {
        return gs_fail(GS_E_USAGE,
                       "--elastic: on one node the processes meet again in a folder of their own; "
                       "leave --meet out");
    }
    if (!l->hosts && (min > l->world || max > l->world)) /* with --hosts each of the launches says so */
        return gs_fail(GS_E_USAGE, "--elastic %s: more than the %d processes %s", l->elastic, l->world,
                       l->nodes > 1 ? "of all nodes" : "of -n");
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

int gs_elastic_size(const gs_launch *l, int left, int room) {
    int min = 1, max = 0;
    gs_elastic_read(l->elastic, &min, &max);
    if (left < min) return 0;
    int size = left >= max ? left : left + room < max ? left + room : max;
    bool exact = false;
    for (char **word = l->command; *word; word++) exact |= strcmp(*word, "--exact") == 0;
    while (exact && size > 0 && (size & (size - 1)) != 0) size--;
    while (exact && size > 8) size /= 2;
    return size < min ? 0 : size;
}

/* Those that are left, without those that were let go. */
static int count_left(const gs_launch_state *s) {
    int left = 0;
    for (int i = 0; i < s->launch->size; i++) left += s->child[i].pid > 0 && s->rank[i] >= 0;
    return left;
}

/* Ranks from `first` on, in the order of before; those that are left first. *more: how many are to be started. */
static void number(gs_launch_state *s, int first, int count, int *more) {
    int order[GS_LAUNCH_MOST], left = 0, next = 0;
    for (int i = 0; i < s->launch->size; i++) {
        int at = left;
        if (s->child[i].pid <= 0 || s->rank[i] < 0) continue;
        for (; at > 0 && s->rank[order[at - 1]] > s->rank[i]; at--) order[at] = order[at - 1];
        order[at] = i;
        left++;
    }
    for (int i = 0; i < s->launch->size; i++) s->rank[i] = -1;
    while (next < left && next < count) s->rank[order[next]] = first + next, next++;
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

static void say_lost(const gs_launch_state *s) {
    char text[200];
    describe_lost(s, text, sizeof text);
    fprintf(stderr, "gradsum launch: %s", *text ? text : "a rank was cut off");
}

/* left: how many go on of the `before` that could. */
static void say_generation(int generation, int size, int left, int before) {
    fprintf(stderr, "; generation %d: %d go%s on", generation, left, left == 1 ? "es" : "");
    if (size > left) fprintf(stderr, ", %d new", size - left);
    if (left < before) fprintf(stderr, ", %d let go, for --exact", before - left);
    fprintf(stderr, "\n");
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
    const int before = count_left(s), size = gs_elastic_size(s->launch, before, s->launch->size - before);
    const bool idle = gs_elastic_board_stepped(s->board) < gs_elastic_board_generation(s->board);
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
        say_generation(gs_elastic_board_generation(s->board), size, size - more, before);
    else
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

void gs_elastic_give_up(gs_launch_state *s) {
    if (!s->elastic) return;
    s->elastic->over = true;
    gs_elastic_board_end(s->board);
}

void gs_elastic_lost(gs_launch_state *s, int seat) {
    gs_elastic *e = s->elastic;
    if (s->rank[seat] < 0) return; /* it was let go */
    if (e->over || s->stopped_by) {
        gs_launch_note_failure(s, seat);
        return;
    }
    if (e->lost < 0) e->lost = seat;
    if (e->since <= 0) e->since = gs_seconds();
    if (s->running == 0 && !s->elastic_nodes) end(s, NULL); /* nobody is left */
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
    for (int i = 0; i < s->launch->size; i++)
        asking += s->child[i].pid > 0 && s->rank[i] >= 0 && gs_elastic_board_asks(s->board, i);
    return asking;
}

/* ---- of several nodes ---- */

/* The generation, or the end, on which all have agreed. True: there is news. */
static bool obey(gs_launch_state *s) {
    gs_elastic *e = s->elastic;
    bool done;
    const char *why = gs_elastic_nodes_end(s->elastic_nodes, &done);
    const int generation = gs_elastic_nodes_generation(s->elastic_nodes);
    if (why) {
        e->over = true;
        s->verdict = done ? GS_EXIT_OK : GS_EXIT_FAILED;
        gs_elastic_board_end(s->board);
        if (done) return true;
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
    if (generation > 1 && e->takes_part) fprintf(stderr, "gradsum launch: %s", share.what);
    if (generation > 1 && e->takes_part) say_generation(generation, share.size, share.left, share.before);
    e->generation = generation;
    e->lost = -1;
    e->since = 0;
    if (start_new(s, &s->place, share.size) == GS_OK) return true;
    fprintf(stderr, "gradsum launch: %s\n", gs_message());
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
                           .signal = s->stopped_by};
    if (!r.done) r.left = count_left(s);
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
        if (e->since <= 0) e->since = gs_seconds();
        gs_elastic_nodes_say_lost(s->elastic_nodes);
        if (s->failed < 0 && !gs_elastic_is_ending(s) && wait_for_all(s)) return true;
        report(s, true);
        return true;
    }
    if (gs_elastic_nodes_share(s->elastic_nodes).count == 0) return false;
    if (count_left(s) == 0) report(s, false);
    if (gs_elastic_board_stepped(s->board) >= e->generation &&
        gs_elastic_nodes_has_newcomers(s->elastic_nodes))
        gs_elastic_board_summon(s->board);
    return false;
}

/* ---- for the launch ---- */

bool gs_elastic_waits(const gs_launch_state *s) {
    return s->elastic_nodes && !s->elastic->over && !s->stopped_by;
}

void gs_elastic_close(gs_launch_state *s) {
    const gs_elastic *e = s->elastic;
    if (e && s->elastic_nodes && s->stopped_by && !e->over) {
        report(s, false);
        gs_elastic_nodes_look(s->elastic_nodes);
        report(s, false); /* another generation may have begun just then */
    }
    if (e && !s->elastic_nodes && e->lost >= 0 && s->failed < 0 && !s->stopped_by) end(s, NULL);
}

bool gs_elastic_look(gs_launch_state *s) {
    gs_elastic *e = s->elastic;
    if (e && s->elastic_nodes) return look_at_all(s);
    if (!e || e->over || s->stopped_by || s->failed >= 0 || s->running == 0) return false;
    if (count_asking(s) == 0 && e->lost < 0) return false;
    if (e->since <= 0) e->since = gs_seconds();
    if (gs_elastic_is_ending(s)) {
        end(s, "some have done their work");
        return false;
    }
    if (wait_for_all(s)) return true;
    go_on(s);
    return true;
}
