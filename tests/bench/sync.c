/* Measures all-reduce times for sync.sh: each of our schemes compared with Gloo's ring.
 *
 *     bench-sync threads N         ranks as threads of this process
 *     bench-sync process           one rank of several processes, started with GRADSUM_RANK etc.
 *
 * Rank 0 prints a line for each way and size: "where|way|ranks|bytes|microseconds". Each figure is the median of
 * several batches; the ways alternate, so that other load on the machine affects all of them. The result of each first
 * call is checked. Each rank is bound to separate cores, as in `gradsum` and Open MPI.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/usable.h"
#include "core/median.h"
#include "comm/gloo/gloo_c.h"
#include "comm/mesh.h"
#include "comm/rendezvous/rendezvous.h"
#include "sync/sync.h"

enum { BATCHES = 7, MOST_WAYS = 24, MOST_RANKS = 16, MOST_FLOATS = 1 << 24 };

static const size_t sizes[] = {256, 4096, 65536, 1 << 19, 1 << 22, MOST_FLOATS}; /* floats: 1 KiB .. 64 MiB */

typedef struct way {
    char where[16], name[32];
    gs_sync *sync; /* ours, or */
    gs_gloo *gloo; /* Gloo itself */
} way;

typedef struct bench {
    gs_comm *comm; /* for barriers */
    way way[MOST_WAYS];
    int ways;
    float *data;
} bench;

static void stop(const char *what) {
    fprintf(stderr, "bench-sync: %s\n", what);
    exit(1);
}

static void must(gs_status status) {
    if (status != GS_OK) stop(gs_message());
}

/* ---- the ways ---- */

static void add_schemes(bench *b, gs_comm *c) {
    for (const gs_sync_scheme *const *s = gs_sync_schemes(); *s; s++) {
        if (*s == &gs_sync_gloo || *s == &gs_sync_hierarchical || *s == &gs_sync_auto) continue;
        way *w = &b->way[b->ways++];
        snprintf(w->where, sizeof w->where, "%s", c->ops->name);
        snprintf(w->name, sizeof w->name, "%s", (*s)->name);
        must(gs_sync_create(*s, c, MOST_FLOATS, &w->sync));
    }
}

static void add_raw_gloo(bench *b, gs_gloo *g) {
    way *w = &b->way[b->ways++];
    *w = (way){.gloo = g};
    snprintf(w->where, sizeof w->where, "raw");
    snprintf(w->name, sizeof w->name, "ring");
}

static void sum(const bench *b, const way *w, size_t count) {
    if (w->sync)
        must(gs_sync_run(w->sync, b->data, count));
    else if (gs_gloo_collective(w->gloo, &(gs_call){GS_ALL_REDUCE, count, GS_F32, GS_SUM, 0}, NULL, b->data,
                                60000) != GS_GLOO_OK)
        stop(gs_gloo_error_text());
}

/* ---- measuring ---- */

static void check(const bench *b, const way *w, size_t count) {
    int size = b->comm->size;
    for (size_t i = 0; i < count; i++) b->data[i] = (float)((size_t)b->comm->rank + i % 7);
    sum(b, w, count);
    for (size_t i = 0; i < count; i++)
        if (b->data[i] != (float)(size * (size - 1) / 2 + size * (int)(i % 7))) stop("a sum is wrong");
    memset(b->data, 0, count * sizeof *b->data);
}

static double batch(const bench *b, const way *w, size_t count, int calls) {
    must(gs_comm_barrier(b->comm));
    double start = gs_seconds();
    for (int i = 0; i < calls; i++) sum(b, w, count);
    return (gs_seconds() - start) / calls;
}

static void measure(bench *b, size_t count) {
    double seconds[MOST_WAYS][BATCHES];
    int calls[MOST_WAYS];
    for (int i = 0; i < b->ways; i++) {
        check(b, &b->way[i], count);
        double once = batch(b, &b->way[i], count, 3);
        calls[i] = (int)(0.03 / (once > 1e-7 ? once : 1e-7)) + 2;
        if (calls[i] > 3000) calls[i] = 3000;
        must(gs_comm_broadcast(b->comm, &calls[i], 1, GS_I32, 0));
    }
    for (int k = 0; k < BATCHES; k++)
        for (int i = 0; i < b->ways; i++) seconds[i][k] = batch(b, &b->way[i], count, calls[i]);
    for (int i = 0; i < b->ways && b->comm->rank == 0; i++) {
        const double median = gs_median(seconds[i], BATCHES);
        printf("%s|%s|%d|%zu|%.2f\n", b->way[i].where, b->way[i].name, b->comm->size, count * sizeof(float),
               1e6 * median);
        fflush(stdout);
    }
}

static void run(bench *b) {
    b->data = malloc(MOST_FLOATS * sizeof *b->data);
    if (!b->data) stop("no memory");
    memset(b->data, 0, MOST_FLOATS * sizeof *b->data);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) measure(b, sizes[i]);
    for (int i = 0; i < b->ways; i++) gs_sync_free(b->way[i].sync);
    free(b->data);
}

/* ---- ranks ---- */

static void *thread_main(void *argument) {
    bench b = {.comm = argument};
    gs_cores_bind_share(b.comm->rank, b.comm->size); /* binds no rank if there are too few cores */
    add_schemes(&b, b.comm);
    run(&b);
    gs_comm_free(b.comm);
    return NULL;
}

static void be_threads(int ranks) {
    gs_comm *comm[MOST_RANKS];
    pthread_t thread[MOST_RANKS];
    if (ranks < 1 || ranks > MOST_RANKS) stop("1 to 16 ranks");
    must(gs_comm_threads_create(ranks, 60, comm));
    for (int r = 0; r < ranks; r++)
        if (pthread_create(&thread[r], NULL, thread_main, comm[r]) != 0) stop("no thread");
    for (int r = 0; r < ranks; r++) pthread_join(thread[r], NULL);
}

/* Gloo alone, over separate connections. */
static gs_gloo *connect_raw_gloo(gs_rendezvous r, const char *folder) {
    gs_rendezvous_state *m;
    int socket[MOST_RANKS];
    gs_gloo *raw;
    r.directory = folder;
    if (r.size > MOST_RANKS) stop("at most 16 ranks");
    must(gs_rendezvous_open(&r, &m));
    must(gs_rendezvous_wait(m));
    must(gs_mesh_connect(&r, m->all, m->listener, NULL, 1, socket));
    if (gs_gloo_connect(r.rank, r.size, socket, 60000, &raw) != GS_GLOO_OK) stop(gs_gloo_error_text());
    gs_mesh_close(r.size, socket);
    gs_rendezvous_close(m);
    return raw;
}

/* Measures over Gloo, over shared memory, and with Gloo alone over separate connections. */
static void be_a_process(const char *raw_folder) {
    bench b = {0};
    gs_rendezvous r;
    gs_comm *gloo, *shm;
    char why[256];
    must(gs_rendezvous_from_environment(&r));
    must(gs_comm_gloo_create(&r, &gloo));
    must(gs_comm_shm_create(gloo, &shm, why, sizeof why));
    if (!shm) stop(why);
    gs_gloo *raw = connect_raw_gloo(r, raw_folder);
    b.comm = shm;
    gs_cores_bind_share(r.rank, r.size); /* does not bind Gloo's threads */
    add_raw_gloo(&b, raw);
    add_schemes(&b, shm);
    add_schemes(&b, gloo);
    run(&b);
    gs_gloo_free(raw);
    gs_comm_free(shm);
    gs_comm_free(gloo);
}

int main(int count, char **argument) {
    if (count == 3 && strcmp(argument[1], "threads") == 0)
        be_threads(atoi(argument[2]));
    else if (count == 3 && strcmp(argument[1], "process") == 0)
        be_a_process(argument[2]);
    else
        stop("usage: bench-sync threads N | bench-sync process FOLDER");
    return 0;
}
