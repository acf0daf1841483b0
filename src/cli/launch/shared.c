#include "cli/launch/launch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/clock.h"
#include "train/train.h"

#define VARIABLE "GRADSUM_LAUNCH" /* "FILE SEAT GENERATION" */
#define NAME "gradsum-launch"

static const double LOOK = 0.005,
                    MARGIN = 60; /* seconds; more than the launcher takes to decide, beyond time-outs */

/* ---- the launcher ---- */

static gs_shared *map(int file) {
    const int flags = file < 0 ? MAP_SHARED | MAP_ANONYMOUS : MAP_SHARED;
    gs_shared *s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, flags, file, 0);
    return s == MAP_FAILED ? NULL : s;
}

gs_shared *gs_shared_create(bool elastic) {
    const int file = memfd_create(NAME, 0);
    const bool whole = file >= 0 && ftruncate(file, sizeof(gs_shared)) == 0; /* not within ulimit -f */
    gs_shared *s = whole || !elastic ? map(whole ? file : -1) : NULL;
    if (!s) return NULL;
    s->alone = !whole;
    s->file = file;
    s->elastic = elastic;
    gs_shared_clear(s);
    return s;
}

void gs_shared_free(gs_shared *s) {
    if (!s) return;
    close(s->file);
    munmap(s, sizeof *s);
}

void gs_shared_clear(gs_shared *s) {
    atomic_store(&s->failures, 0);
    atomic_store(&s->met, 0);
    atomic_store(&s->stepped, 0);
    atomic_store(&s->generation, 1);
}

bool gs_shared_set(const gs_shared *s, int seat) {
    char text[64];
    const int generation = atomic_load(&s->generation);
    snprintf(text, sizeof text, "%d %d %d", s->file, seat, generation);
    return s->alone ? unsetenv(VARIABLE) == 0
                    : (setenv(VARIABLE, text, 1) == 0 &&
                       (!s->elastic || gs_launch_set_number("GRADSUM_GENERATION", generation)));
}

bool gs_shared_has_told(const gs_shared *s, int seat) {
    for (int i = 0; i < atomic_load(&s->failures); i++)
        if (s->failure[i].seat == seat) return true;
    return false;
}

const gs_launch_why *gs_shared_first(const gs_shared *s) {
    const int failures = atomic_load(&s->failures);
    for (int i = 0; i < failures; i++)
        if (s->failure[i].code != GS_E_PEER) return &s->failure[i];
    return failures > 0 ? &s->failure[0] : NULL;
}

bool gs_shared_asks(const gs_shared *s, int seat) {
    return atomic_load(&s->seat[seat].asks) > atomic_load(&s->generation);
}

void gs_shared_begin(gs_shared *s, int size, const int *rank, const char *meet) {
    atomic_store(&s->failures, 0);
    atomic_store(&s->met, 0);
    s->size = size;
    for (int i = 0; i < GS_LAUNCH_MOST; i++) s->seat[i].rank = rank[i];
    snprintf(s->meet, sizeof s->meet, "%s", meet);
    atomic_fetch_add(&s->generation, 1); /* last: who sees it finds the rest */
}

/* ---- a process ---- */

typedef struct place {
    gs_shared *shared; /* NULL: no launch has started this process */
    int file, seat, generation;
} place;

/* The launcher's memory, if that is what the variable names: it may be left over from elsewhere. */
static place find_place(void) {
    const char *text = getenv(VARIABLE);
    char path[64], target[64] = "";
    place p = {0};
    if (!text || sscanf(text, "%d %d %d", &p.file, &p.seat, &p.generation) != 3) return p;
    snprintf(path, sizeof path, "/proc/self/fd/%d", p.file);
    if (readlink(path, target, sizeof target - 1) < 0) return p;
    if (strncmp(target, "/memfd:" NAME, strlen("/memfd:" NAME)) == 0 && p.seat >= 0 &&
        p.seat < GS_LAUNCH_MOST)
        p.shared = map(p.file);
    return p;
}

static place *here(void) {
    static place p;
    static bool looked;
    if (!looked) p = find_place();
    looked = true;
    return &p;
}

/* The lock, which ends with a process that is killed, makes one of those that say the same the first. */
bool gs_launch_tell(gs_status code, const char *message, bool *said) {
    const place *p = here();
    *said = false;
    if (!p->shared || lockf(p->file, F_LOCK, 0) != 0) return false;
    const int n = atomic_load(&p->shared->failures);
    gs_launch_why why = {.seat = p->seat, .code = code};
    snprintf(why.message, sizeof why.message, "%s", message);
    for (char *c = why.message; *c; c++)
        if (*c == '\n') *c = ' ';
    for (int i = 0; i < n; i++) {
        const gs_launch_why *other = &p->shared->failure[i];
        *said = *said || (other->code == code && strcmp(other->message, why.message) == 0);
    }
    if (n < GS_LAUNCH_MOST) p->shared->failure[n] = why;
    if (n < GS_LAUNCH_MOST) atomic_store(&p->shared->failures, n + 1);
    return lockf(p->file, F_ULOCK, 0) == 0 && n < GS_LAUNCH_MOST;
}

void gs_launch_has_met(void) {
    if (here()->shared) atomic_store(&here()->shared->met, 1);
}

void gs_launch_has_stepped(void) {
    if (here()->shared) atomic_store(&here()->shared->stepped, here()->generation);
}

bool gs_launch_is_elastic(void) {
    return here()->shared && here()->shared->elastic;
}

static gs_launch_answer take(const place *p, gs_rendezvous *r) {
    static char meet[GS_LAUNCH_MEET];
    const int rank = p->shared->seat[p->seat].rank;
    if (rank < 0) return GS_LAUNCH_LETS_GO;
    memcpy(meet, p->shared->meet, sizeof meet);
    r->rank = rank;
    r->size = p->shared->size;
    r->directory = meet;
    gs_launch_set_number("GRADSUM_RANK", rank);
    gs_launch_set_number("GRADSUM_GENERATION", p->generation);
    return GS_LAUNCH_GOES_ON;
}

gs_launch_answer gs_launch_next(gs_rendezvous *r) {
    place *p = here();
    if (!gs_launch_is_elastic()) return GS_LAUNCH_ENDS;
    const double until = gs_awake_seconds() + 2 * r->timeout + MARGIN;
    atomic_store(&p->shared->seat[p->seat].asks, p->generation + 1);
    while (atomic_load(&p->shared->generation) <= p->generation) {
        if (atomic_load(&p->shared->over) || gs_stop_requested || gs_awake_seconds() > until)
            return GS_LAUNCH_ENDS;
        gs_nap(LOOK);
    }
    p->generation = atomic_load(&p->shared->generation);
    return take(p, r);
}

void gs_launch_say_exact(void) {
    if (here()->shared) atomic_store(&here()->shared->exact, 1);
}

bool gs_launch_is_later(void) {
    return gs_launch_is_elastic() && here()->generation > 1;
}
