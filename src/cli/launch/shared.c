#include "cli/launch/launch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include "core/clock.h"
#include "train/train.h"

#define VARIABLE "GRADSUM_LAUNCH" /* "FILE SLOT GENERATION" */
#define NAME "gradsum-launch"

static const double LOOK = 0.005,
                    MARGIN = 60; /* seconds that the launcher may need to decide, on top of the time-outs */

static gs_shared *map(int file) {
    const int flags = file < 0 ? MAP_SHARED | MAP_ANONYMOUS : MAP_SHARED;
    gs_shared *s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, flags, file, 0);
    return s == MAP_FAILED ? NULL : s;
}

gs_status gs_shared_create(bool elastic, gs_shared **out) {
    int file = memfd_create(NAME, 0);
    if (file >= 0 && ftruncate(file, sizeof(gs_shared)) != 0) { /* exceeds ulimit -f: no process finds it */
        close(file);
        file = -1;
    }
    gs_shared *s = file >= 0 || !elastic ? map(file) : NULL;
    if (!(*out = s))
        return gs_fail(GS_E_MEMORY, "no memory that the processes could share: %s", strerror(errno));
    s->file = file;
    s->elastic = elastic;
    gs_shared_clear(s);
    return GS_OK;
}

void gs_shared_free(gs_shared *s) {
    if (!s) return;
    close(s->file);
    munmap(s, sizeof *s);
}

void gs_shared_clear(gs_shared *s) {
    atomic_store(&s->reports, 0);
    atomic_store(&s->met, 0);
    atomic_store(&s->stepped, 0);
    atomic_store(&s->generation, 1);
}

bool gs_shared_set_environment(const gs_shared *s, int slot) {
    char text[64];
    const int generation = atomic_load(&s->generation);
    snprintf(text, sizeof text, "%d %d %d", s->file, slot, generation);
    return setenv(VARIABLE, text, 1) == 0 &&
           (!s->elastic || gs_launch_set_number("GRADSUM_GENERATION", generation));
}

bool gs_shared_has_reported(const gs_shared *s, int slot) {
    for (int i = 0; i < atomic_load(&s->reports); i++)
        if (s->report[i].slot == slot) return true;
    return false;
}

const gs_launch_report *gs_shared_cause(const gs_shared *s) {
    const int reports = atomic_load(&s->reports);
    const gs_launch_report *own = NULL, *lost = NULL, *stopped = NULL;
    for (int i = reports - 1; i >= 0; i--) {
        const gs_launch_report *r = &s->report[i];
        *(r->code == GS_E_INTERRUPTED ? &stopped : r->code == GS_E_PEER ? &lost : &own) = r;
    }
    return own ? own : lost ? lost : stopped;
}

bool gs_shared_has_asked(const gs_shared *s, int slot) {
    return atomic_load(&s->slot[slot].asks) > atomic_load(&s->generation);
}

void gs_shared_begin_generation(gs_shared *s, int size, const int *rank, const char *where) {
    atomic_store(&s->reports, 0);
    atomic_store(&s->met, 0);
    s->size = size;
    for (int i = 0; i < GS_LAUNCH_MOST; i++) s->slot[i].rank = rank[i];
    snprintf(s->where, sizeof s->where, "%s", where);
    atomic_fetch_add(&s->generation, 1); /* last: whoever sees the new number finds the rest complete */
}

typedef struct membership {
    gs_shared *shared; /* NULL: this process was not started by a launch */
    int file, slot, generation;
} membership;

/* Maps the launcher's memory, unless the variable is left over from another launch. */
static membership find_launcher(void) {
    const char *text = getenv(VARIABLE);
    char path[64], target[64] = "";
    membership m = {0};
    if (!text || sscanf(text, "%d %d %d", &m.file, &m.slot, &m.generation) != 3) return m;
    snprintf(path, sizeof path, "/proc/self/fd/%d", m.file);
    if (readlink(path, target, sizeof target - 1) < 0) return m;
    if (strncmp(target, "/memfd:" NAME, strlen("/memfd:" NAME)) == 0 && m.slot >= 0 &&
        m.slot < GS_LAUNCH_MOST)
        m.shared = map(m.file);
    return m;
}

static membership *mine(void) {
    static membership m;
    static bool looked;
    if (!looked) m = find_launcher();
    looked = true;
    return &m;
}

/* The lock decides which of several equal reports is the first; it is released if its holder is killed. */
bool gs_launch_report_failure(gs_status code, const char *message, bool *said) {
    const membership *m = mine();
    *said = false;
    if (!m->shared || lockf(m->file, F_LOCK, 0) != 0) return false;
    const int n = atomic_load(&m->shared->reports);
    gs_launch_report own = {.slot = m->slot, .code = code};
    snprintf(own.message, sizeof own.message, "%s", message);
    for (char *c = own.message; *c; c++)
        if (*c == '\n') *c = ' ';
    for (int i = 0; i < n; i++) {
        const gs_launch_report *other = &m->shared->report[i];
        *said |= other->code == code ? strcmp(other->message, own.message) == 0 : code == GS_E_INTERRUPTED;
    }
    if (n < GS_LAUNCH_MOST) m->shared->report[n] = own;
    if (n < GS_LAUNCH_MOST) atomic_store(&m->shared->reports, n + 1);
    return lockf(m->file, F_ULOCK, 0) == 0 && n < GS_LAUNCH_MOST;
}

void gs_launch_note_joined(void) {
    if (mine()->shared) atomic_store(&mine()->shared->met, 1);
}

void gs_launch_note_step(void) {
    if (mine()->shared) atomic_store(&mine()->shared->stepped, mine()->generation);
}

int gs_launch_generation(void) {
    return mine()->shared && mine()->shared->elastic ? mine()->generation : 0;
}

static gs_launch_answer enter_generation(const membership *m, gs_rendezvous *r) {
    static char where[GS_LAUNCH_WHERE];
    const int rank = m->shared->slot[m->slot].rank;
    if (rank < 0) return GS_LAUNCH_LETS_GO;
    memcpy(where, m->shared->where, sizeof where);
    r->rank = rank;
    r->size = m->shared->size;
    r->directory = where;
    gs_launch_set_number("GRADSUM_RANK", rank);
    gs_launch_set_number("GRADSUM_GENERATION", m->generation);
    return GS_LAUNCH_GOES_ON;
}

gs_launch_answer gs_launch_next_generation(gs_rendezvous *r, bool exact) {
    membership *m = mine();
    if (gs_launch_generation() == 0) return GS_LAUNCH_ENDS;
    const double until = gs_awake_seconds() + 2 * r->timeout + MARGIN;
    if (exact) atomic_store(&m->shared->exact, 1);
    atomic_store(&m->shared->slot[m->slot].asks, m->generation + 1);
    while (atomic_load(&m->shared->generation) <= m->generation) {
        if (atomic_load(&m->shared->over) || gs_stop_requested || gs_awake_seconds() > until)
            return GS_LAUNCH_ENDS;
        gs_sleep(LOOK);
    }
    m->generation = atomic_load(&m->shared->generation);
    return enter_generation(m, r);
}
