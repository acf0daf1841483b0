/* How processes come to share memory: they are connected over Gloo already and tell each other where they are.
 *
 *     1. all        tell place (gs_rendezvous_place) and process number: are they on one machine?
 *     2. rank 0     makes the segment, and tells as which of its files
 *     3. all        open it, and tell whether they could
 */
#include "comm/process.h"
#include "comm/rendezvous.h"
#include "comm/shm/shm.h"
#include "core/usable.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HALF = 256 * 1024, PLACE = 256, TEXT = 200 };

typedef struct passport {
    char place[PLACE];
    int64_t pid;
    cpu_set_t cpus; /* that it may use, */
    double quota;   /* and for how much of the time (core/usable.h) */
} passport;

typedef struct answer {
    int32_t can;
    char text[TEXT];
} answer;

/* Where things lie in the segment. */
typedef struct layout {
    size_t boxes, waits, stages, messages;
} layout;

static layout layout_of(size_t size) {
    layout l;
    l.boxes = gs_segment_pages(sizeof(gs_shm_header) + size * sizeof(gs_shm_seat));
    l.waits = l.boxes + gs_segment_pages(GS_SHM_MAILBOXES * sizeof(gs_shm_mailbox));
    l.stages = l.waits + gs_segment_pages(size * size * sizeof(uint64_t));
    l.messages = l.stages + size * 2 * HALF;
    return l;
}

/* ---- 1: who is where ---- */

/* Is there a CPU for each process? Then a waiting process can spin without taking anything from the others. */
static bool has_a_cpu_each(const passport *all, int size) {
    cpu_set_t together = all[0].cpus;
    for (int r = 1; r < size; r++) CPU_OR(&together, &together, &all[r].cpus);
    for (int r = 0; r < size; r++)
        if (all[r].quota > 0 && size > all[r].quota) return false;
    return size <= CPU_COUNT(&together);
}

static gs_status learn_places(gs_comm *gloo, gs_shm *m, char *why, size_t size) {
    passport mine = {.pid = getpid()}, *all = calloc((size_t)gloo->size, sizeof *all);
    if (!all) return gs_fail(GS_E_MEMORY, "no memory for the places of %d processes", gloo->size);
    mine.quota = gs_usable_here().quota;
    gs_rendezvous_place(mine.place, sizeof mine.place);
    if (sched_getaffinity(0, sizeof mine.cpus, &mine.cpus) != 0) CPU_ZERO(&mine.cpus);
    gs_status status = gs_comm_all_gather(gloo, &mine, all, sizeof mine, GS_U8);
    for (int r = 0; status == GS_OK && r < gloo->size; r++) {
        m->pid[r] = (long)all[r].pid;
        if (strncmp(all[r].place, all[0].place, PLACE) != 0 && !why[0])
            snprintf(why, size, "rank %d and rank 0 run on different machines, or in different containers",
                     r);
    }
    m->spins = status == GS_OK && has_a_cpu_each(all, gloo->size);
    if (gloo->size > GS_SHM_RANKS)
        snprintf(why, size, "there are %d processes; shared memory supports at most %d", gloo->size,
                 GS_SHM_RANKS);
    free(all);
    return status;
}

/* ---- 2 and 3: the segment ---- */

static gs_status watch_processes(gs_shm *m) {
    m->watch = gs_processes_watch(m->size, m->pid);
    if (!m->watch) return gs_fail(GS_E_MEMORY, "no memory to watch %d processes", m->size);
    for (int r = 0; r < m->size; r++)
        if (m->watch[r] < 0) return gs_fail(GS_E_FILE, "cannot watch process %ld", m->pid[r]);
    return GS_OK;
}

static void find_parts(gs_shm *m) {
    const layout l = layout_of((size_t)m->size);
    unsigned char *base = m->segment.base;
    m->header = (gs_shm_header *)base;
    m->mailboxes = (gs_shm_mailbox *)(base + l.boxes);
    m->waits = (_Atomic uint64_t *)(base + l.waits);
    m->stage = base + l.stages;
    m->half = HALF;
}

static gs_status make_segment(gs_shm *m) {
    const size_t used = layout_of((size_t)m->size).messages;
    GS_TRY(gs_segment_create(&m->segment));
    GS_TRY(gs_segment_reserve(&m->segment, 0, used));
    find_parts(m);
    atomic_store(&m->header->used, used);
    return GS_OK;
}

/* The first one that could not says why. */
static void hear_answers(const answer *all, int ranks, char *why, size_t size) {
    for (int r = 0; r < ranks && !why[0]; r++)
        if (!all[r].can) snprintf(why, size, "rank %d: %.*s", r, TEXT, all[r].text);
}

static gs_status share_segment(gs_comm *gloo, gs_shm *m, char *why, size_t size) {
    int32_t file = -1;
    answer mine = {.can = 1}, *all = calloc((size_t)gloo->size, sizeof *all);
    if (!all) return gs_fail(GS_E_MEMORY, "no memory for the answers of %d processes", gloo->size);
    gs_status can = gloo->rank == 0 ? make_segment(m) : GS_OK;
    if (can == GS_OK && gloo->rank == 0) file = m->segment.file;
    gs_status status = gs_comm_broadcast(gloo, &file, 1, GS_I32, 0);
    if (status == GS_OK && gloo->rank > 0 && file >= 0) can = gs_segment_open(&m->segment, m->pid[0], file);
    if (status == GS_OK && can == GS_OK) can = watch_processes(m);
    if (can != GS_OK) {
        mine.can = 0;
        snprintf(mine.text, sizeof mine.text, "%s", gs_message());
    }
    if (status == GS_OK) status = gs_comm_all_gather(gloo, &mine, all, sizeof mine, GS_U8);
    if (status == GS_OK) hear_answers(all, gloo->size, why, size);
    free(all);
    if (status == GS_OK && !why[0]) find_parts(m);
    return status;
}

void gs_shm_close(gs_shm *m) {
    if (!m) return;
    gs_processes_unwatch(m->size, m->watch);
    gs_segment_close(&m->segment);
    free(m->pid);
    free(m);
}

gs_status gs_shm_open(gs_comm *gloo, gs_shm **out, char *why, size_t size) {
    gs_shm *m = calloc(1, sizeof *m);
    why[0] = '\0';
    *out = NULL;
    if (!m) return gs_fail(GS_E_MEMORY, "no memory to share memory with");
    m->rank = gloo->rank;
    m->size = gloo->size;
    m->noun = "rank";
    m->pid = calloc((size_t)gloo->size, sizeof *m->pid);
    gs_status status =
        m->pid ? learn_places(gloo, m, why, size) : gs_fail(GS_E_MEMORY, "no memory to share memory with");
    if (status == GS_OK && !why[0]) status = share_segment(gloo, m, why, size);
    if (status == GS_OK && !why[0])
        *out = m;
    else
        gs_shm_close(m);
    return status;
}
