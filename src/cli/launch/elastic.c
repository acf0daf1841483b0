/* launch --elastic MIN:MAX: after a loss the remaining processes continue, without a checkpoint.
 *
 *     generation 1   processes a b c d    ranks 0 1 2 3      c is killed in step 57
 *     generation 2   processes a b d      ranks 0 1 2        the others repeat step 57 (persist/snapshots.h)
 *                    process  e           rank  3            new, if MAX allows it: gets the state from rank 0
 *
 * The launcher waits until every process has noticed the loss (shared.h), and kills a process that hangs. Then it
 * begins the next generation with the remaining processes and starts new ones, up to MAX. With --exact there must be 1,
 * 2, 4 or 8 processes: surplus ones are let go and exit with status 0. The run ends as it would without --elastic if
 * fewer than MIN remain, if some have finished their work, if two consecutive generations complete no step, or if a
 * rank ends for wrong usage, which the next generation would repeat.
 */
#include "cli/cli.h"
#include "cli/launch/launch.h"
#include "core/process.h"
#include "core/clock.h"

#include <sys/wait.h>

static const double GRACE = 2; /* seconds after the time-out until a process that has not asked is killed */

/* Counts of processes; survivors exclude those that were let go. */
typedef struct census {
    int survivors, asking, done, vacant; /* vacant: empty slots */
} census;

static census count(const gs_launch_processes *p) {
    census n = {0};
    for (int i = 0; i < p->launch->size; i++) {
        const bool runs = p->child[i].pid > 0, ranked = p->rank[i] >= 0;
        n.survivors += runs && ranked;
        n.asking += runs && ranked && gs_shared_has_asked(p->shared, i);
        n.done += !runs && ranked && p->child[i].status == 0;
        n.vacant += !runs;
    }
    return n;
}

bool gs_elastic_is_ending(const gs_launch_processes *p) {
    return count(p).done > 0;
}

/* Returns true if any process has yet to ask; kills processes that hang. */
static bool wait_for_all(gs_elastic *e, gs_launch_processes *p) {
    const bool late = gs_awake_seconds() - e->lost_at > p->timeout + GRACE;
    bool waits = false;
    for (int i = 0; i < p->launch->size; i++) {
        gs_launch_child *c = &p->child[i];
        if (c->pid <= 0 || gs_shared_has_asked(p->shared, i)) continue;
        waits = true;
        if (!late && !gs_process_is_stopped(c->pid)) continue;
        if (e->lost < 0 && p->rank[i] >= 0) e->lost = i;
        gs_launch_note_hanging(c);
        kill(c->pid, SIGKILL);
    }
    return waits;
}

/* The number of ranks, given the survivors and the vacant slots for new processes; 0: too few processes. */
static int choose_size(const gs_launch *l, bool exact, int survivors, int vacant) {
    const int most = survivors + vacant < l->elastic_max ? survivors + vacant : l->elastic_max;
    int size = survivors > most ? survivors : most;
    if (survivors < l->elastic_min) return 0;
    while (exact && size > 0 && (size & (size - 1)) != 0) size--;
    while (exact && size > 8) size /= 2;
    return size < l->elastic_min ? 0 : size;
}

/* Renumber the ranks: survivors in their old order, then new processes in vacant slots. *kept: how many survive. */
static void renumber(gs_launch_processes *p, int size, int *kept) {
    int before[GS_LAUNCH_MOST], next = 0;
    memcpy(before, p->rank, sizeof before);
    for (int i = 0; i < GS_LAUNCH_MOST; i++) p->rank[i] = -1;
    for (int rank = 0; rank < p->launch->size; rank++)
        for (int i = 0; i < p->launch->size && next < size; i++)
            if (before[i] == rank && p->child[i].pid > 0) p->rank[i] = next++;
    *kept = next;
    for (int i = 0; i < p->launch->size && next < size; i++)
        if (p->child[i].pid == 0) p->rank[i] = next++;
}

static gs_status begin_generation(gs_elastic *e, gs_launch_processes *p, int size, int *kept) {
    if (e->regrouped) gs_launch_rendezvous_remove(&e->rendezvous, p->launch, true, false);
    e->regrouped = true;
    GS_TRY(gs_launch_rendezvous_create(p->launch, &e->rendezvous));
    renumber(p, size, kept);
    gs_shared_begin_generation(p->shared, size, p->rank, e->rendezvous.where);
    for (int i = 0; i < p->launch->size; i++)
        if (p->child[i].pid == 0 && p->rank[i] >= 0)
            GS_TRY(gs_launch_start_process(p, &e->rendezvous, i, size));
    return GS_OK;
}

static void say_generation(const char *lost, int generation, int size, int kept, int survivors) {
    char text[600];
    snprintf(text, sizeof text, "%s; generation %d: %d go%s on", lost, generation, kept,
             kept == 1 ? "es" : "");
    if (size > kept) gs_append(text, sizeof text, ", %d new", size - kept);
    if (kept < survivors) gs_append(text, sizeof text, ", %d let go, for --exact", survivors - kept);
    gs_tell("launch", "%s", text);
}

/* Why the survivors cannot continue; NULL: they can. */
static const char *why_not(const gs_elastic *e, const gs_launch_processes *p, bool idle, int size) {
    if (e->lost >= 0 && gs_launch_blame_of(p->child[e->lost].status) == GS_BLAME_USAGE)
        return "wrong usage would fail again";
    if (idle && e->idle) return "two generations in a row made no step";
    return size == 0 ? "they are too few" : NULL;
}

/* Appends "rank 1 was killed by signal 9 (Killed), rank 2 hangs: ...": first the rank to blame, then all others except
 * ranks that ended by themselves because it was lost. */
void gs_elastic_append_lost(const gs_elastic *e, const gs_launch_processes *p, char *text, size_t size) {
    if (e->lost >= 0) gs_launch_append_end(p, e->lost, text, size);
    for (int i = 0; i < p->launch->size && e->lost >= 0; i++) {
        const gs_launch_child *c = &p->child[i];
        if (i == e->lost || c->pid > 0 || p->rank[i] < 0 || (!WIFSIGNALED(c->status) && !c->hangs[0]))
            continue;
        gs_append(text, size, ", ");
        gs_launch_append_end(p, i, text, size);
    }
    if (!*text) gs_append(text, size, "a rank was cut off");
}

/* Continue, or end as a launch without --elastic would. */
static gs_elastic_state decide(gs_elastic *e, gs_launch_processes *p, const census *n) {
    gs_shared *s = p->shared;
    const int size = choose_size(p->launch, atomic_load(&s->exact) != 0, n->survivors, n->vacant);
    const bool idle = atomic_load(&s->stepped) < atomic_load(&s->generation);
    const char *no = n->done > 0 ? "some have done their work" : why_not(e, p, idle, size);
    char lost[400] = "";
    int kept = 0;
    gs_elastic_append_lost(e, p, lost, sizeof lost);
    if (!no && begin_generation(e, p, size, &kept) != GS_OK) no = gs_message();
    if (no) {
        atomic_store(&s->over, 1);
        gs_tell("launch", "%s; the others do not go on: %s", lost, no);
        return GS_ELASTIC_FAILS;
    }
    say_generation(lost, atomic_load(&s->generation), size, kept, n->survivors);
    e->idle = idle;
    e->lost_at = 0;
    e->lost = -1;
    return GS_ELASTIC_WAITS;
}

void gs_elastic_note_loss(gs_elastic *e, const gs_launch_processes *p, int slot) {
    const gs_launch_child *c = p->child;
    const bool ended = c[slot].hangs[0] && e->lost >= 0; /* killed by wait_for_all, after another's loss */
    if (e->lost < 0 || (!ended && gs_launch_blame_of(c[slot].status) > gs_launch_blame_of(c[e->lost].status)))
        e->lost = slot;
    if (e->lost_at <= 0) e->lost_at = gs_awake_seconds();
}

gs_elastic_state gs_elastic_look(gs_elastic *e, gs_launch_processes *p) {
    const census n = count(p);
    if (atomic_load(&p->shared->over) || p->running == 0 || (n.asking == 0 && e->lost < 0))
        return GS_ELASTIC_RUNS;
    if (e->lost_at <= 0) e->lost_at = gs_awake_seconds();
    return n.done == 0 && wait_for_all(e, p) ? GS_ELASTIC_WAITS : decide(e, p, &n);
}
