/* Ranks as processes that mpirun has started, over MPI (any of version 3; tried with Open MPI 4.1). */
#ifdef GRADSUM_MPI
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sync/mpi_session.h"
#include "sync/mpi_state.h"

enum { TAG_BITS = 11 /* of a rank in a tag: a process holds at most 2048 workers */ };

/* Is there nothing to do? Then *status is the result: a failure of old, or nothing to move. */
static bool nothing_to_do(gs_comm *c, size_t count, gs_status *status) {
    const gs_mpi *s = c->state;
    if (c->size > 1) gs_mpi_listen(c);
    *status = atomic_load(&s->failed) ? gs_mpi_failed(s) : GS_OK;
    return *status != GS_OK || c->size == 1 || count == 0;
}

/* A rank alone has what it will get already, but perhaps in another place. */
static gs_status alone(const gs_comm *c, gs_status status, void *to, const void *from, size_t bytes) {
    if (status == GS_OK && c->size == 1 && bytes > 0 && to != from) memcpy(to, from, bytes);
    return status;
}

/* ---- collectives ---- */

static gs_status mpi_all_reduce(gs_comm *c, void *data, size_t count, gs_type type, gs_reduction reduction) {
    gs_status status;
    if (nothing_to_do(c, count, &status)) return status;
    return gs_mpi_reduce(c, &(gs_call){GS_ALL_REDUCE, count, type, reduction, 0}, data, -1);
}

static gs_status mpi_reduce(gs_comm *c, void *data, size_t count, gs_type type, gs_reduction reduction,
                            int root) {
    gs_status status;
    gs_check_root(c, root);
    if (nothing_to_do(c, count, &status)) return status;
    return gs_mpi_reduce(c, &(gs_call){GS_REDUCE, count, type, reduction, root}, data, root);
}

static gs_status mpi_reduce_scatter(gs_comm *c, const void *all, void *mine, size_t total, gs_type type,
                                    gs_reduction reduction) {
    gs_status status;
    if (nothing_to_do(c, total, &status)) return alone(c, status, mine, all, total * gs_type_size(type));
    return gs_mpi_reduce_scatter(c, &(gs_call){GS_REDUCE_SCATTER, total, type, reduction, 0}, all, mine);
}

static gs_status mpi_broadcast(gs_comm *c, void *data, size_t count, gs_type type, int root) {
    gs_status status;
    gs_check_root(c, root);
    if (nothing_to_do(c, count, &status)) return status;
    return gs_mpi_move(c, &(gs_call){GS_BROADCAST, count, type, 0, root}, NULL, data);
}

/* The other four bring one array and take another. */
static gs_status move(gs_comm *c, gs_call call, const void *in, void *out) {
    gs_status status;
    if (nothing_to_do(c, call.count, &status))
        return alone(c, status, out, in, call.count * gs_type_size(call.type));
    return gs_mpi_move(c, &call, in, out);
}

static gs_status mpi_all_gather(gs_comm *c, const void *mine, void *all, size_t count, gs_type type) {
    return move(c, (gs_call){GS_ALL_GATHER, count, type, 0, 0}, mine, all);
}

static gs_status mpi_gather(gs_comm *c, const void *mine, void *all, size_t count, gs_type type, int root) {
    gs_check_root(c, root);
    return move(c, (gs_call){GS_GATHER, count, type, 0, root}, mine, all);
}

static gs_status mpi_scatter(gs_comm *c, const void *all, void *mine, size_t count, gs_type type, int root) {
    gs_check_root(c, root);
    return move(c, (gs_call){GS_SCATTER, count, type, 0, root}, all, mine);
}

static gs_status mpi_all_to_all(gs_comm *c, const void *from, void *to, size_t count, gs_type type) {
    return move(c, (gs_call){GS_ALL_TO_ALL, count, type, 0, 0}, from, to);
}

static gs_status mpi_barrier(gs_comm *c) {
    const gs_mpi *s = c->state;
    gs_call call = {.operation = GS_BARRIER};
    gs_status status;
    MPI_Request request;
    if (nothing_to_do(c, 1, &status)) return status;
    GS_TRY(gs_mpi_check(c, &call, MPI_Ibarrier(s->comm[GS_MPI_COLLECTIVES], &request)));
    return gs_mpi_wait(c, &call, -1, 1, &request, MPI_STATUS_IGNORE);
}

/* ---- messages ---- */

static int tag_of(int from, int to) {
    int mask = (1 << TAG_BITS) - 1;
    return (from & mask) << TAG_BITS | (to & mask);
}

static gs_status mpi_send_as(gs_comm *c, const void *data, size_t bytes, int process, int from, int to) {
    gs_status status;
    gs_call call = {GS_SEND, bytes, GS_U8, 0, to};
    if (nothing_to_do(c, bytes, &status)) return status;
    return gs_mpi_send(c, GS_MPI_MESSAGES, &call, data, bytes, process, tag_of(from, to));
}

static gs_status mpi_recv_as(gs_comm *c, void *data, size_t bytes, int process, int from, int to) {
    gs_status status;
    gs_call call = {GS_RECV, bytes, GS_U8, 0, from};
    if (nothing_to_do(c, bytes, &status)) return status;
    return gs_mpi_recv(c, GS_MPI_MESSAGES, &call, data, bytes, process, tag_of(from, to));
}

static gs_status mpi_send_part(gs_comm *c, const gs_call *call, const void *data, size_t bytes, int to) {
    gs_status status;
    if (nothing_to_do(c, bytes, &status)) return status;
    return gs_mpi_send(c, GS_MPI_COLLECTIVES, call, data, bytes, to, GS_MPI_PART);
}

static gs_status mpi_recv_part(gs_comm *c, const gs_call *call, void *data, size_t bytes, int from) {
    gs_status status;
    if (nothing_to_do(c, bytes, &status)) return status;
    return gs_mpi_recv(c, GS_MPI_COLLECTIVES, call, data, bytes, from, GS_MPI_PART);
}

static gs_status mpi_send(gs_comm *c, const void *data, size_t bytes, int to) {
    gs_check_peer(c, "sends to", to);
    return mpi_send_as(c, data, bytes, to, c->rank, to);
}

static gs_status mpi_recv(gs_comm *c, void *data, size_t bytes, int from) {
    gs_check_peer(c, "receives from", from);
    return mpi_recv_as(c, data, bytes, from, from, c->rank);
}

/* ---- failing, making, freeing ---- */

static void mpi_fail(gs_comm *c, const char *message) {
    gs_mpi_fail(c, GS_E_PEER, message, true);
}

static void mpi_abort(gs_comm *c, const char *reason) {
    const gs_mpi *s = c->state;
    char message[GS_MPI_WORDS];
    snprintf(message, sizeof message, "%s %d: %s", s->noun, c->rank, reason);
    mpi_fail(c, message);
}

/* A process is about to hold several workers, each a thread that calls MPI. */
static void mpi_of_processes(gs_comm *c) {
    gs_mpi *s = c->state;
    s->noun = "process";
    if (c->size > 1 && s->level < MPI_THREAD_MULTIPLE)
        gs_mpi_fail(
            c, GS_E_DEVICE,
            "several workers in a process want MPI_THREAD_MULTIPLE, which this MPI has not; start one "
            "process for each worker: mpirun -n",
            true);
}

static void free_state(gs_mpi *s, int size) {
    gs_mpi_free_outboxes(s, size);
    pthread_mutex_destroy(&s->lock);
    free(s->scratch);
    free(s->first);
    free(s->count);
    free(s->counts);
    free(s->places);
    free(s);
}

/* All have sent and received all that there was: nothing is under way when the communicators go. */
static void close_communicators(gs_comm *c) {
    gs_mpi *s = c->state;
    if (c->size == 1 || gs_mpi_flush(c) != GS_OK || mpi_barrier(c) != GS_OK) return;
    int error = MPI_Cancel(&s->ear);
    if (error == MPI_SUCCESS) error = MPI_Wait(&s->ear, MPI_STATUS_IGNORE);
    for (int i = 0; i < GS_MPI_CHANNELS && error == MPI_SUCCESS; i++) error = MPI_Comm_free(&s->comm[i]);
    gs_mpi_check(c, &(gs_call){.operation = GS_BARRIER}, error);
}

static void mpi_free(gs_comm *c) {
    gs_mpi *s = c->state;
    close_communicators(c);
    /* After a failure MPI may still know of memory here: it stays, and the process is about to end. */
    if (!atomic_load(&s->failed)) free_state(s, c->size);
    free(c);
}

static const gs_process_ops between_processes = {
    .of_processes = mpi_of_processes,
    .send = mpi_send_as,
    .recv = mpi_recv_as,
    .send_part = mpi_send_part,
    .recv_part = mpi_recv_part,
    .fail = mpi_fail,
};

static const gs_transport transport_mpi = {
    .name = "mpi",
    .send = mpi_send,
    .recv = mpi_recv,
    .broadcast = mpi_broadcast,
    .all_reduce = mpi_all_reduce,
    .reduce = mpi_reduce,
    .all_gather = mpi_all_gather,
    .gather = mpi_gather,
    .scatter = mpi_scatter,
    .reduce_scatter = mpi_reduce_scatter,
    .all_to_all = mpi_all_to_all,
    .barrier = mpi_barrier,
    .abort = mpi_abort,
    .free = mpi_free,
    .between = &between_processes,
};

static gs_status check_rendezvous(const gs_rendezvous *r) {
    if (r->size < 1 || r->rank < 0 || r->rank >= r->size)
        return gs_fail(GS_E_USAGE, "rank %d of %d process%s: ranks are 0 to %d", r->rank, r->size,
                       gs_es(r->size), r->size - 1);
    if (!(r->timeout > 0))
        return gs_fail(GS_E_USAGE, "the timeout is %g s; it must be more than 0", r->timeout);
    if (r->size > 1 && !getenv("OMPI_COMM_WORLD_SIZE"))
        return gs_fail(
            GS_E_USAGE,
            "MPI's processes are started by mpirun, and this one was not: mpirun -n %d gradsum train ...",
            r->size);
    return GS_OK;
}

/* Begin MPI, and is it as the rendezvous says? */
static gs_status begin(const gs_rendezvous *r, int *level) {
    int rank, size, *most_tag, known;
    GS_TRY(gs_mpi_begin(r->timeout, level));
    if (MPI_Comm_rank(MPI_COMM_WORLD, &rank) != MPI_SUCCESS ||
        MPI_Comm_size(MPI_COMM_WORLD, &size) != MPI_SUCCESS || rank != r->rank || size != r->size)
        return gs_fail(GS_E_USAGE, "rank %d of %d process%s: for MPI this is rank %d of %d", r->rank, r->size,
                       gs_es(r->size), rank, size);
    if (*level < MPI_THREAD_SERIALIZED)
        return gs_fail(GS_E_DEVICE,
                       "this MPI may only be called by one thread (level %d); wanted MPI_THREAD_SERIALIZED, "
                       "or MPI_THREAD_MULTIPLE for several workers in a process",
                       *level);
    if (MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, (void *)&most_tag, &known) != MPI_SUCCESS || !known ||
        *most_tag < (1 << 2 * TAG_BITS) - 1)
        return gs_fail(GS_E_DEVICE, "this MPI has too few tags for messages; wanted %d", 1 << 2 * TAG_BITS);
    return GS_OK;
}

/* The communicators are made by all ranks together. */
static gs_status open_communicators(gs_comm *c) {
    gs_mpi *s = c->state;
    gs_call call = {.operation = GS_BARRIER};
    for (int i = 0; i < GS_MPI_CHANNELS; i++) {
        MPI_Request request;
        GS_TRY(gs_mpi_check(c, &call, MPI_Comm_idup(MPI_COMM_WORLD, &s->comm[i], &request)));
        GS_TRY(gs_mpi_wait(c, &call, -1, 1, &request, MPI_STATUS_IGNORE));
        GS_TRY(gs_mpi_check(c, &call, MPI_Comm_set_errhandler(s->comm[i], MPI_ERRORS_RETURN)));
    }
    return gs_mpi_check(
        c, &call,
        MPI_Irecv(s->heard, GS_MPI_WORDS, MPI_BYTE, MPI_ANY_SOURCE, 0, s->comm[GS_MPI_LAST_WORDS], &s->ear));
}

gs_status gs_comm_mpi_create(const gs_rendezvous *r, gs_comm **out) {
    GS_TRY(check_rendezvous(r));
    int level = MPI_THREAD_MULTIPLE;
    if (r->size > 1) GS_TRY(begin(r, &level));
    size_t size = (size_t)r->size;
    gs_comm *c = malloc(sizeof *c);
    gs_mpi *s = calloc(1, sizeof *s);
    if (s) {
        pthread_mutex_init(&s->lock, NULL);
        s->noun = "rank";
        s->level = level;
        s->ear = MPI_REQUEST_NULL;
        s->first = malloc(size * sizeof *s->first);
        s->count = malloc(size * sizeof *s->count);
        s->counts = malloc(size * sizeof *s->counts);
        s->places = malloc(size * sizeof *s->places);
        s->outboxes = calloc(size, sizeof *s->outboxes);
    }
    gs_status status = GS_OK;
    if (!c || !s || !s->first || !s->count || !s->counts || !s->places || !s->outboxes)
        status = gs_fail(GS_E_MEMORY, "no memory for the connections between processes");
    if (status == GS_OK) {
        *c = (gs_comm){&transport_mpi, r->rank, r->size, r->timeout, s};
        if (r->size > 1) status = open_communicators(c);
    }
    if (status != GS_OK) {
        if (s && !atomic_load(&s->failed)) free_state(s, r->size);
        free(c);
        return status;
    }
    signal(SIGPIPE, SIG_IGN);
    *out = c;
    return GS_OK;
}
#else
#include "sync/comm.h"

gs_status gs_comm_mpi_create(const gs_rendezvous *r, gs_comm **out) {
    *out = NULL;
    return gs_fail(
        GS_E_USAGE,
        "process %d of %d cannot talk over MPI: this gradsum was built without it; install Open MPI "
        "(Debian: libopenmpi-dev) and build it again",
        r->rank, r->size);
}
#endif
