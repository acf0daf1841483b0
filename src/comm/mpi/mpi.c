/* Ranks as processes that mpirun has started, over MPI (any of version 3; tried with Open MPI 4.1). */
#ifdef GRADSUM_MPI
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include "comm/mpi/session.h"
#include "comm/mpi/state.h"
#include "comm/rendezvous.h"

/* ---- collectives ---- */

static gs_status barrier(gs_comm *c, const gs_call *call) {
    const gs_mpi *s = c->state;
    MPI_Request request;
    GS_TRY(gs_mpi_check(c, call, MPI_Ibarrier(s->channel[GS_MPI_COLLECTIVES], &request)));
    return gs_mpi_wait(c, call, -1, 1, &request, MPI_STATUS_IGNORE);
}

static gs_status mpi_collective(gs_comm *c, const gs_call *call, const void *in, void *out) {
    const gs_mpi *s = c->state;
    if (c->size > 1) gs_mpi_listen(c);
    if (atomic_load(&s->failed)) return gs_mpi_failed(s);
    if (call->count == 0 && call->operation != GS_BARRIER) return GS_OK;
    if (c->size == 1) return gs_collective_by_messages(c, call, in, out);
    switch (call->operation) {
    case GS_ALL_REDUCE:
        return gs_mpi_reduce(c, call, out, -1);
    case GS_REDUCE:
        return gs_mpi_reduce(c, call, out, call->root);
    case GS_REDUCE_SCATTER:
        return gs_mpi_reduce_scatter(c, call, in, out);
    case GS_BARRIER:
        return barrier(c, call);
    default:
        return gs_mpi_move(c, call, in, out);
    }
}

/* ---- failing, making, freeing ---- */

static void mpi_abort(gs_comm *c, const char *message) {
    gs_mpi_fail(c, GS_E_PEER, message, true);
}

/* A process is about to hold several workers, each a thread that calls MPI. */
static void mpi_of_processes(gs_comm *c) {
    gs_mpi *s = c->state;
    s->noun = "process";
    if (c->size > 1 && s->level < MPI_THREAD_MULTIPLE)
        gs_mpi_fail(c, GS_E_DEVICE,
                    "several workers in one process need MPI_THREAD_MULTIPLE, which this MPI lacks; start "
                    "one process per worker: mpirun -n",
                    true);
}

static void free_state(gs_mpi *s, int size) {
    gs_mpi_free_mailboxes(s, size);
    pthread_mutex_destroy(&s->lock);
    gs_scratch_free(&s->scratch);
    free(s->first);
    free(s->count);
    free(s->place);
    free(s->pid);
    free(s);
}

/* All ranks have sent and received everything: nothing is under way when the communicators are freed. */
static void close_communicators(gs_comm *c) {
    gs_mpi *s = c->state;
    if (c->size == 1 || gs_mpi_flush(c) != GS_OK || gs_comm_barrier(c) != GS_OK) return;
    int error = MPI_Cancel(&s->ear);
    if (error == MPI_SUCCESS) error = MPI_Wait(&s->ear, MPI_STATUS_IGNORE);
    for (int i = 0; i < GS_MPI_CHANNELS && error == MPI_SUCCESS; i++) error = MPI_Comm_free(&s->channel[i]);
    gs_mpi_check(c, &(gs_call){.operation = GS_BARRIER}, error);
}

static void mpi_free(gs_comm *c) {
    gs_mpi *s = c->state;
    close_communicators(c);
    /* After a failure MPI may still use memory of this comm. So it is not freed; the process is about to end. */
    if (!atomic_load(&s->failed)) free_state(s, c->size);
}

static const gs_transport transport_mpi = {
    .name = "mpi",
    .send = gs_mpi_send,
    .recv = gs_mpi_recv,
    .collective = mpi_collective,
    .abort = mpi_abort,
    .free = mpi_free,
    .of_processes = mpi_of_processes,
};

static gs_status check_rendezvous(const gs_rendezvous *r) {
    GS_TRY(gs_rendezvous_check(r, false));
    if (r->size > 1 && !getenv("OMPI_COMM_WORLD_SIZE"))
        return gs_fail(
            GS_E_USAGE,
            "mpirun starts MPI's processes, but did not start this one: use mpirun -n %d gradsum train ...",
            r->size);
    return GS_OK;
}

/* Begin MPI, and check that it agrees with the rendezvous. */
static gs_status begin(const gs_rendezvous *r, int *level) {
    int rank = -1, size = 0, *most_tag, known;
    GS_TRY(gs_mpi_begin(r->timeout, level));
    if (MPI_Comm_rank(MPI_COMM_WORLD, &rank) != MPI_SUCCESS ||
        MPI_Comm_size(MPI_COMM_WORLD, &size) != MPI_SUCCESS || rank != r->rank || size != r->size)
        return gs_fail(GS_E_USAGE, "rank %d of %d process%s is rank %d of %d to MPI: use its own mpirun",
                       r->rank, r->size, gs_es(r->size), rank, size);
    if (*level < MPI_THREAD_SERIALIZED)
        return gs_fail(GS_E_DEVICE,
                       "only one thread may call this MPI (level %d); wanted MPI_THREAD_SERIALIZED, "
                       "or MPI_THREAD_MULTIPLE for several workers in a process",
                       *level);
    if (MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, (void *)&most_tag, &known) != MPI_SUCCESS || !known ||
        *most_tag < (1 << 2 * GS_MPI_TAG_BITS) - 1)
        return gs_fail(GS_E_DEVICE, "this MPI has too few tags for messages; wanted %d",
                       1 << 2 * GS_MPI_TAG_BITS);
    return GS_OK;
}

/* Learn the processes of all ranks; those elsewhere count as 0. Places are compared by a hash of what names them. */
static gs_status learn_processes(gs_comm *c) {
    gs_mpi *s = c->state;
    char place[512];
    uint64_t mine[2] = {(uint64_t)getpid(), 14695981039346656037u},
             *all = calloc((size_t)c->size, sizeof mine);
    if (!all) return gs_fail(GS_E_MEMORY, "no memory for the numbers of %d processes", c->size);
    gs_rendezvous_place(place, sizeof place);
    for (const char *at = place; *at; at++) mine[1] = (mine[1] ^ (unsigned char)*at) * 1099511628211u;
    GS_TRY(gs_comm_all_gather(c, mine, all, 2, GS_I64)); /* after a failure MPI may still write to `all` */
    for (int r = 0; r < c->size; r++) s->pid[r] = all[2 * r + 1] == mine[1] ? (long)all[2 * r] : 0;
    free(all);
    return GS_OK;
}

/* The communicators are made by all ranks together. */
static gs_status open_communicators(gs_comm *c) {
    gs_mpi *s = c->state;
    gs_call call = {.operation = GS_BARRIER};
    for (int i = 0; i < GS_MPI_CHANNELS; i++) {
        MPI_Request request;
        GS_TRY(gs_mpi_check(c, &call, MPI_Comm_idup(MPI_COMM_WORLD, &s->channel[i], &request)));
        GS_TRY(gs_mpi_wait(c, &call, -1, 1, &request, MPI_STATUS_IGNORE));
        GS_TRY(gs_mpi_check(c, &call, MPI_Comm_set_errhandler(s->channel[i], MPI_ERRORS_RETURN)));
    }
    GS_TRY(learn_processes(c));
    return gs_mpi_check(c, &call,
                        MPI_Irecv(s->heard, GS_LAST_WORDS, MPI_BYTE, MPI_ANY_SOURCE, 0,
                                  s->channel[GS_MPI_LAST_WORDS], &s->ear));
}

gs_status gs_comm_mpi_create(const gs_rendezvous *r, gs_comm **out) {
    GS_TRY(check_rendezvous(r));
    int level = MPI_THREAD_MULTIPLE;
    if (r->size > 1) GS_TRY(begin(r, &level));
    size_t size = (size_t)r->size;
    gs_mpi *s = calloc(1, sizeof *s);
    if (!s) return gs_fail(GS_E_MEMORY, "no memory for the connections between processes");
    pthread_mutex_init(&s->lock, NULL);
    s->comm = (gs_comm){&transport_mpi, r->rank, r->size, r->timeout, s};
    s->noun = "rank";
    s->level = level;
    s->ear = MPI_REQUEST_NULL;
    s->first = malloc(size * sizeof *s->first);
    s->count = malloc(size * sizeof *s->count);
    s->place = malloc(size * sizeof *s->place);
    s->pid = calloc(size, sizeof *s->pid);
    s->mailboxes = calloc(size, sizeof *s->mailboxes);
    gs_status status = GS_OK;
    if (!s->first || !s->count || !s->place || !s->pid || !s->mailboxes)
        status = gs_fail(GS_E_MEMORY, "no memory for the connections between processes");
    else if (r->size > 1)
        status = open_communicators(&s->comm);
    if (status != GS_OK) {
        if (!atomic_load(&s->failed)) free_state(s, r->size);
        return status;
    }
    signal(SIGPIPE, SIG_IGN);
    *out = &s->comm;
    return GS_OK;
}
#else
#include "comm/comm.h"

gs_status gs_comm_mpi_create(const gs_rendezvous *r, gs_comm **out) {
    *out = NULL;
    return gs_fail(
        GS_E_USAGE,
        "process %d of %d cannot talk over MPI: this gradsum was built without it; install Open MPI "
        "(Debian: libopenmpi-dev) and rebuild it",
        r->rank, r->size);
}
#endif
