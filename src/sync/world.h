/* Ranks as threads of several processes: what comm_world.c and world_parts.c share. */
#ifndef GS_SYNC_WORLD_H
#define GS_SYNC_WORLD_H

#include <stdatomic.h>
#include <string.h>
#include "sync/transports.h"

typedef struct gs_world {
    gs_comm *processes;
    int *first;         /* [processes + 1]: first rank of each process; the last entry is the world's size */
    atomic_int members; /* threads of this process that are not freed yet */
    /* the leader's, for the collective under way (world_parts.c): */
    gs_scratch shared, received;
    size_t *parts; /* [processes + 1] */
} gs_world;

typedef struct gs_world_member {
    gs_world *w;
    gs_comm *local; /* this thread among those of its process */
} gs_world_member;

int gs_world_process_of(const gs_world *, int rank);

static inline bool gs_world_is_leader(const gs_world_member *m) {
    return m->local->rank == 0;
}

/* The result of a step: a failure becomes that of all. */
gs_status gs_world_finish(const gs_world_member *, gs_status);

/* The last step: the leader shows its memory, and every thread takes its part (gs_threads_with_first). */
gs_status gs_world_from_leader(const gs_world_member *, const gs_call *, void *shared, gs_threads_move take,
                               void *context);

static inline unsigned char *gs_world_at(const void *buffer, size_t bytes) {
    return buffer ? (unsigned char *)buffer + bytes : NULL;
}

static inline void gs_world_copy(void *to, const void *from, size_t bytes) {
    if (bytes > 0 && to != from) memcpy(to, from, bytes);
}

/* What a rank gives to its leader's memory or takes from it. */
typedef struct gs_world_part {
    const void *give;
    void *take;
    size_t at, bytes; /* in the leader's memory */
} gs_world_part;

static inline void gs_world_give(void *context, void *shared) {
    const gs_world_part *p = context;
    gs_world_copy(gs_world_at(shared, p->at), p->give, p->bytes);
}

static inline void gs_world_take(void *context, void *shared) {
    const gs_world_part *p = context;
    gs_world_copy(p->take, gs_world_at(shared, p->at), p->bytes);
}

/* ---- world_parts.c: see comm.h ---- */

gs_status gs_world_reduce(gs_comm *, void *data, size_t count, gs_type, gs_reduction, int root);
gs_status gs_world_gather(gs_comm *, const void *mine, void *all, size_t count, gs_type, int root);
gs_status gs_world_scatter(gs_comm *, const void *all, void *mine, size_t count, gs_type, int root);
gs_status gs_world_reduce_scatter(gs_comm *, const void *all, void *mine, size_t total, gs_type,
                                  gs_reduction);
gs_status gs_world_all_to_all(gs_comm *, const void *from, void *to, size_t count, gs_type);

#endif
