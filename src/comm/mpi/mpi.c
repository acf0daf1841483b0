/* Ranks as processes started by mpirun, over any MPI 3 (tested with Open MPI 4.1). */
#include "comm/rendezvous/rendezvous.h"

#ifdef GRADSUM_MPI
#include "comm/transports.h"
#include "core/clock.h"
#include "core/jobs.h"

#include <limits.h>
#include <mpi.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

enum {
    TAG_BITS = 11,        /* bits of a rank in a tag, so a process holds at most 2048 workers */
    SHORT_ARRAYS = 32768, /* bytes in the arrays of all ranks together */
};

/* Each channel has its own communicator, so that it never receives a message of another channel. */
enum { MESSAGES, COLLECTIVES, OF_FAILURES, CHANNELS };

/* A sent message, kept until the peer has it. */
typedef struct copy {
    gs_scratch data;
    bool under_way;
    MPI_Request request;
} copy;

typedef struct mailbox {
    gs_mailbox box;
    copy copies[GS_COPIES];
} mailbox;

typedef struct mpi_state {
    gs_comm comm;
    const char *noun; /* what messages call a rank: "rank" or "process" */
    long *pid;        /* [size] processes of this machine; 0: on another machine */
    MPI_Comm channel[CHANNELS];
    atomic_int waiting;   /* threads that are letting MPI make progress */
    pthread_mutex_t lock; /* guards the members below, except `failed` and scratch */
    atomic_bool failed;   /* once true, error does not change */
    gs_error error;
    MPI_Request inbox; /* where the failure message of any rank arrives */
    char heard[GS_FAILURE_TEXT];
    gs_mailbox *mailboxes;
    gs_scratch scratch; /* for the current collective */
} mpi_state;

/* ---- MPI in this process: initialised once, finalised once ---- */

/* MPI_Init_thread and MPI_Finalize wait for the other processes without a limit. Therefore a separate thread makes both
 * calls (MPI requires the same thread for both), and the callers wait for it with a timeout. */

enum { INIT = 1 /* the ticket of the thread's first job */ };

static struct {
    gs_jobs *thread; /* NULL: not started */
    int level;       /* the thread support that MPI provides */
    double timeout;
    atomic_bool broken;
} session;

static gs_status init(void *context, const gs_job *job) {
    (void)context, (void)job;
    int error = MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &session.level);
    if (error == MPI_SUCCESS) error = MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (error == MPI_SUCCESS) error = MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    return error == MPI_SUCCESS ? GS_OK : gs_fail(GS_E_PEER, "MPI_Init_thread failed with error %d", error);
}

static gs_status finalize(void *context, const gs_job *job) {
    (void)context, (void)job;
    MPI_Finalize();
    return GS_OK;
}

static bool is_done_in_time(uint64_t ticket) {
    const double until = gs_awake_seconds() + session.timeout;
    while (!gs_jobs_is_done(session.thread, ticket) && gs_awake_seconds() < until) gs_sleep(1e-3);
    return gs_jobs_is_done(session.thread, ticket);
}

static void end_session(void) {
    uint64_t ticket;
    if (!atomic_load(&session.broken) && gs_jobs_is_done(session.thread, INIT) &&
        gs_jobs_give(session.thread, (gs_job){.run = finalize}, &ticket) == GS_OK)
        is_done_in_time(ticket);
}

/* Initialise MPI, requesting MPI_THREAD_MULTIPLE, and wait for all processes that mpirun started. Later calls return at
 * once. MPI is finalised when the process ends, unless mpi_break was called. GS_E_PEER: the others did not begin within
 * `timeout` seconds, or MPI was broken before. */
static gs_status mpi_begin(double timeout) {
    session.timeout = timeout;
    if (!session.thread) {
        GS_TRY(gs_context(gs_jobs_create(1, &session.thread), "MPI"));
        GS_TRY(gs_jobs_give(session.thread, (gs_job){.run = init}, NULL));
        atexit(end_session);
    }
    if (atomic_load(&session.broken)) return gs_fail(GS_E_PEER, "MPI has already failed in this process");
    if (is_done_in_time(INIT)) return gs_jobs_wait(session.thread, INIT);
    return gs_fail(GS_E_PEER,
                   "MPI_Init waited %g s for the other processes of mpirun; it does not say for which",
                   timeout);
}

/* Called when an operation has failed: from then on MPI is neither used nor finalised. MPI_Finalize would continue
 * pending operations in freed memory, and wait for lost ranks. If a process exits without MPI_Finalize and with a
 * nonzero status, Open MPI's mpirun ends the others, and exits with the status of the first failed process. */
static void mpi_break(void) {
    atomic_store(&session.broken, true);
}

/* Waiting for MPI, never longer than the timeout, and how a failure spreads.
 *
 * MPI_Wait has no timeout. Therefore every operation is nonblocking, and a waiting rank calls MPI_Test repeatedly,
 * which also lets MPI make progress: first without a pause, then yielding the core, later with short sleeps.
 *
 * A failing rank sends its message to all others on a separate communicator. Waiting ranks also check that
 * communicator, and fail with the same message. After that MPI is not used for this comm: pending operations are never
 * completed, and must not touch reused memory. Therefore no thread returns with a failure while another is inside MPI,
 * and MPI_Finalize is skipped.
 */

enum {
    BUSY_TESTS = 200,    /* tests before the core is yielded between them: about 20 us */
    INBOX_INTERVAL = 16, /* tests between two checks for failures */
};

static const double SLEEPLESS = 5e-3, TELLING = 0.5, LISTENING = 0.05; /* seconds */

/* ---- failing ---- */

/* Send the message to all ranks, and give it a moment to leave. */
static void tell_all(gs_comm *c) {
    mpi_state *s = c->state;
    double end = gs_seconds() + TELLING;
    for (int r = 0; r < c->size; r++) {
        MPI_Request request = MPI_REQUEST_NULL;
        int done = 0;
        if (r == c->rank || MPI_Isend(s->error.message, GS_FAILURE_TEXT, MPI_BYTE, r, 0,
                                      s->channel[OF_FAILURES], &request) != MPI_SUCCESS)
            continue;
        while (MPI_Test(&request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && !done && gs_seconds() < end)
            sched_yield();
    }
}

static void fail_locked(gs_comm *c, gs_status code, const char *message, bool tell) {
    mpi_state *s = c->state;
    if (atomic_load(&s->failed)) return;
    snprintf(s->error.message, sizeof s->error.message, "%s", message);
    s->error.status = code;
    atomic_fetch_add(&s->waiting, 1);
    atomic_store(&s->failed, true);
    mpi_break();
    if (tell && s->inbox != MPI_REQUEST_NULL) tell_all(c); /* else not all ranks are connected yet */
    atomic_fetch_sub(&s->waiting, 1);
}

/* Make every later call fail with `message`, here and, if `tell`, on all other ranks; the first message is kept. */
static void mpi_fail(gs_comm *c, gs_status code, const char *message, bool tell) {
    mpi_state *s = c->state;
    pthread_mutex_lock(&s->lock);
    fail_locked(c, code, message, tell);
    pthread_mutex_unlock(&s->lock);
}

/* If another rank has failed, this one fails too. Only one thread looks at a time. */
static void mpi_listen(gs_comm *c) {
    mpi_state *s = c->state;
    if (pthread_mutex_trylock(&s->lock) != 0) return;
    int heard = 0;
    atomic_fetch_add(&s->waiting, 1);
    if (s->inbox != MPI_REQUEST_NULL && !atomic_load(&s->failed) &&
        MPI_Test(&s->inbox, &heard, MPI_STATUS_IGNORE) == MPI_SUCCESS && heard) {
        s->heard[GS_FAILURE_TEXT - 1] = '\0';
        fail_locked(c, GS_E_PEER, s->heard, false);
    }
    atomic_fetch_sub(&s->waiting, 1);
    pthread_mutex_unlock(&s->lock);
}

/* ---- messages of failures ---- */

/* Like mpi_fail, for a call of this rank: "rank 0: all_reduce of 5 f32: why". Returns the first failure. */
static gs_status mpi_fail_call(gs_comm *c, const gs_call *call, const char *why) {
    const mpi_state *s = c->state;
    char message[GS_FAILURE_TEXT];
    snprintf(message, sizeof message, "%s %d: %s: %s", s->noun, c->rank, gs_call_text(call, false), why);
    mpi_fail(c, GS_E_PEER, message, true);
    return gs_error_again(&s->error);
}

/* MPI returned `error`: any value except MPI_SUCCESS becomes a failure of `call`. */
static gs_status mpi_check(gs_comm *c, const gs_call *call, int error) {
    const mpi_state *s = c->state;
    char text[MPI_MAX_ERROR_STRING] = "", why[MPI_MAX_ERROR_STRING + 16];
    int length;
    if (error == MPI_SUCCESS) return GS_OK;
    /* A failed rank may have left half an operation behind; its failure message is then on its way. */
    for (double end = gs_seconds() + LISTENING; gs_seconds() < end && !atomic_load(&s->failed);)
        mpi_listen(c);
    MPI_Error_string(error, text, &length);
    snprintf(why, sizeof why, "MPI says: %s", text);
    return mpi_fail_call(c, call, why);
}

static gs_status fail_late(gs_comm *c, const gs_call *call, int peer) {
    const mpi_state *s = c->state;
    char why[GS_FAILURE_TEXT / 2] = "";
    bool *late = calloc((size_t)(unsigned)c->size, sizeof *late);
    if (peer < 0 && c->size == 2) peer = 1 - c->rank;
    for (int r = 0; late && r < c->size; r++) late[r] = peer < 0 ? r != c->rank : r == peer;
    const gs_waits waits = {.noun = s->noun,
                            .size = c->size,
                            .rank = c->rank,
                            .timeout = c->timeout,
                            .awaited = late,
                            .one_of = peer < 0,
                            .pid = s->pid};
    if (late) gs_waits_explain(&waits, why, sizeof why);
    free(late);
    return mpi_fail_call(c, call, why);
}

/* ---- waiting ---- */

static gs_status wait_inside(gs_comm *c, const gs_call *call, int peer, MPI_Request *request,
                             MPI_Status *status) {
    mpi_state *s = c->state;
    double start = 0;
    for (unsigned tests = 1;; tests++) {
        int done = 0;
        if (atomic_load(&s->failed)) return gs_error_again(&s->error);
        GS_TRY(mpi_check(c, call, MPI_Test(request, &done, status)));
        if (done) return GS_OK;
        if (tests % INBOX_INTERVAL == 0) mpi_listen(c);
        if (tests < BUSY_TESTS) continue;
        const double now = gs_awake_seconds();
        if (start == 0) start = now;
        if (now - start > c->timeout) return fail_late(c, call, peer);
        if (now - start < SLEEPLESS)
            sched_yield();
        else
            gs_sleep(50e-6);
    }
}

/* Wait for a request that belongs to `call`. peer: the rank on the other side; -1: any. */
static gs_status mpi_wait(gs_comm *c, const gs_call *call, int peer, MPI_Request *request,
                          MPI_Status *status) {
    mpi_state *s = c->state;
    atomic_fetch_add(&s->waiting, 1);
    gs_status result = wait_inside(c, call, peer, request, status);
    atomic_fetch_sub(&s->waiting, 1);
    while (result != GS_OK && atomic_load(&s->waiting) > 0) sched_yield();
    return result;
}

/* Messages over MPI. MPI_Isend requires that the data stay unchanged until they have left, but send must not wait for
 * the receiver. Therefore a copy is sent.
 *
 * Long messages (more than a few KiB) move only while both sides are inside a call of MPI. For the sender this is its
 * next MPI call, which may be the one that frees the comm.
 */

static int channel_of(const gs_envelope *e) {
    return gs_is_collective(e) ? COLLECTIVES : MESSAGES;
}

static int tag_of(const gs_envelope *e) {
    int mask = (1 << TAG_BITS) - 1;
    return (e->from & mask) << TAG_BITS | (e->to & mask);
}

/* MPI counts bytes in an int. */
static gs_status check_length(gs_comm *c, const gs_call *call, size_t bytes) {
    return bytes <= INT_MAX ? GS_OK : mpi_fail_call(c, call, "MPI sends less than 2 GiB in one message");
}

static gs_status wait_for_copy(gs_comm *c, const gs_call *call, int process, copy *k) {
    if (k->under_way) GS_TRY(mpi_wait(c, call, process, &k->request, MPI_STATUS_IGNORE));
    k->under_way = false;
    return GS_OK;
}

/* The rank to blame if the peer does not answer; -1: in this collective the peer may itself wait for another rank. */
static int blamed(const gs_envelope *e) {
    const gs_operation o = e->call->operation;
    const bool waits = gs_is_collective(e) && o != GS_REDUCE && o != GS_GATHER && o != GS_SCATTER;
    return waits ? -1 : e->peer;
}

/* Fails if another rank has failed. */
static gs_status look(gs_comm *c) {
    const mpi_state *s = c->state;
    if (c->size > 1) mpi_listen(c);
    return atomic_load(&s->failed) ? gs_error_again(&s->error) : GS_OK;
}

static gs_status mpi_send(gs_comm *c, const gs_envelope *e, const void *data, size_t bytes) {
    mpi_state *s = c->state;
    GS_TRY(look(c));
    if (bytes == 0) return GS_OK;
    GS_TRY(check_length(c, e->call, bytes));
    mailbox *box = gs_mailbox_of(&s->mailboxes, &s->lock, e, sizeof *box);
    if (!box) return gs_fail(GS_E_MEMORY, "no memory for messages to %s %d", s->noun, e->peer);
    copy *k = &box->copies[gs_mailbox_turn(&box->box, bytes)];
    GS_TRY(wait_for_copy(c, e->call, blamed(e), k));
    GS_TRY(gs_scratch_for(&k->data, e->call, bytes));
    memcpy(k->data.memory, data, bytes);
    const int error = MPI_Isend(k->data.memory, (int)bytes, MPI_BYTE, e->peer, tag_of(e),
                                s->channel[channel_of(e)], &k->request);
    k->under_way = error == MPI_SUCCESS;
    return mpi_check(c, e->call, error);
}

static gs_status mpi_recv(gs_comm *c, const gs_envelope *e, void *data, size_t bytes) {
    const mpi_state *s = c->state;
    MPI_Request request;
    MPI_Status status;
    int got;
    GS_TRY(look(c));
    if (bytes == 0) return GS_OK;
    GS_TRY(check_length(c, e->call, bytes));
    GS_TRY(mpi_check(
        c, e->call,
        MPI_Irecv(data, (int)bytes, MPI_BYTE, e->peer, tag_of(e), s->channel[channel_of(e)], &request)));
    GS_TRY(mpi_wait(c, e->call, blamed(e), &request, &status));
    GS_TRY(mpi_check(c, e->call, MPI_Get_count(&status, MPI_BYTE, &got)));
    return got == (int)bytes ? GS_OK : mpi_fail_call(c, e->call, "the message received is shorter");
}

/* Wait until all sent messages have left. */
static gs_status mpi_flush(gs_comm *c) {
    mpi_state *s = c->state;
    for (gs_mailbox *box = s->mailboxes; box; box = box->next)
        for (int i = 0; i < GS_COPIES; i++)
            GS_TRY(wait_for_copy(c, &(gs_call){GS_SEND, 0, GS_U8, 0, box->peer}, box->peer,
                                 &((mailbox *)box)->copies[i]));
    return GS_OK;
}

static void free_state(mpi_state *s) {
    while (s->mailboxes) {
        mailbox *box = (mailbox *)s->mailboxes;
        s->mailboxes = box->box.next;
        for (int i = 0; i < GS_COPIES; i++) gs_scratch_free(&box->copies[i].data);
        free(box);
    }
    pthread_mutex_destroy(&s->lock);
    gs_scratch_free(&s->scratch);
    free(s->pid);
    free(s);
}

/* ---- collectives ---- */

/* Collectives are made of messages, because MPI_Allreduce need not give the same bits in a second run (MPI 3.1, 5.9.1),
 * and MPI_MIN of a NaN is unspecified. Long arrays are summed in parts. */
static gs_status mpi_collective(gs_comm *c, const gs_call *call, const void *in, void *out) {
    mpi_state *s = c->state;
    GS_TRY(look(c));
    if (c->size > 1 && call->operation == GS_REDUCE_SCATTER)
        return gs_pairwise_reduce_scatter(c, call, in, out, NULL, &s->scratch);
    if (call->operation == GS_ALL_REDUCE &&
        call->count > SHORT_ARRAYS / gs_type_size(call->type) / (size_t)c->size)
        return gs_all_reduce_in_parts(c, call, out, &s->scratch);
    return gs_collective_by_messages(c, call, in, out);
}

/* ---- failing, making, freeing ---- */

static void mpi_abort(gs_comm *c, const char *message) {
    mpi_fail(c, GS_E_PEER, message, true);
}

/* A process is about to hold several workers, each a thread that calls MPI. */
static void mpi_set_multithreaded(gs_comm *c) {
    ((mpi_state *)c->state)->noun = "process";
    if (c->size > 1 && session.level < MPI_THREAD_MULTIPLE)
        mpi_fail(c, GS_E_DEVICE,
                 "several workers in one process need MPI_THREAD_MULTIPLE, which this MPI lacks; start "
                 "one process per worker: mpirun -n",
                 true);
}

/* Wait until all ranks have sent and received everything: nothing may be under way when communicators are freed. */
static void close_communicators(gs_comm *c) {
    mpi_state *s = c->state;
    if (c->size == 1 || gs_comm_barrier(c) != GS_OK || mpi_flush(c) != GS_OK) return;
    int error = MPI_Cancel(&s->inbox);
    if (error == MPI_SUCCESS) error = MPI_Wait(&s->inbox, MPI_STATUS_IGNORE);
    for (int i = 0; i < CHANNELS && error == MPI_SUCCESS; i++) error = MPI_Comm_free(&s->channel[i]);
    mpi_check(c, &(gs_call){.operation = GS_BARRIER}, error);
}

static void mpi_free(gs_comm *c) {
    mpi_state *s = c->state;
    close_communicators(c);
    /* After a failure MPI may still use this comm's memory, so it is not freed; the process is about to end anyway. */
    if (!atomic_load(&s->failed)) free_state(s);
}

static const gs_transport transport_mpi = {
    .name = "mpi",
    .send = mpi_send,
    .recv = mpi_recv,
    .collective = mpi_collective,
    .abort = mpi_abort,
    .free = mpi_free,
    .set_multithreaded = mpi_set_multithreaded,
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

/* Initialise MPI, and check that it agrees with the rendezvous. */
static gs_status agree_with(const gs_rendezvous *r) {
    int rank = -1, size = 0, *most_tag, known;
    GS_TRY(mpi_begin(r->timeout));
    if (MPI_Comm_rank(MPI_COMM_WORLD, &rank) != MPI_SUCCESS ||
        MPI_Comm_size(MPI_COMM_WORLD, &size) != MPI_SUCCESS || rank != r->rank || size != r->size)
        return gs_fail(GS_E_USAGE, "rank %d of %d process%s is rank %d of %d to MPI: use its own mpirun",
                       r->rank, r->size, gs_es(r->size), rank, size);
    if (session.level < MPI_THREAD_SERIALIZED)
        return gs_fail(GS_E_DEVICE,
                       "only one thread may call this MPI (level %d); wanted MPI_THREAD_SERIALIZED, "
                       "or MPI_THREAD_MULTIPLE for several workers in a process",
                       session.level);
    if (MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, (void *)&most_tag, &known) != MPI_SUCCESS || !known ||
        *most_tag < (1 << 2 * TAG_BITS) - 1)
        return gs_fail(GS_E_DEVICE, "this MPI has too few tags for messages; wanted %d", 1 << 2 * TAG_BITS);
    return GS_OK;
}

/* Learn the process ids of all ranks; 0: on another machine. */
static gs_status learn_processes(gs_comm *c) {
    mpi_state *s = c->state;
    gs_process_info *all;
    GS_TRY(gs_processes_learn(c, NULL, &all)); /* after a failure MPI may still write to `all` */
    for (int r = 0; r < c->size; r++)
        s->pid[r] = gs_is_same_machine(&all[r], &all[c->rank]) ? (long)all[r].pid : 0;
    free(all);
    return GS_OK;
}

/* All ranks create the communicators together. */
static gs_status open_communicators(gs_comm *c) {
    mpi_state *s = c->state;
    gs_call call = {.operation = GS_BARRIER};
    for (int i = 0; i < CHANNELS; i++) {
        MPI_Request request;
        GS_TRY(mpi_check(c, &call, MPI_Comm_idup(MPI_COMM_WORLD, &s->channel[i], &request)));
        GS_TRY(mpi_wait(c, &call, -1, &request, MPI_STATUS_IGNORE));
        GS_TRY(mpi_check(c, &call, MPI_Comm_set_errhandler(s->channel[i], MPI_ERRORS_RETURN)));
    }
    GS_TRY(learn_processes(c));
    return mpi_check(c, &call,
                     MPI_Irecv(s->heard, GS_FAILURE_TEXT, MPI_BYTE, MPI_ANY_SOURCE, 0,
                               s->channel[OF_FAILURES], &s->inbox));
}

gs_status gs_comm_mpi_create(const gs_rendezvous *r, gs_comm **out) {
    GS_TRY(check_rendezvous(r));
    if (r->size > 1) GS_TRY(agree_with(r));
    mpi_state *s;
    GS_TRY(GS_NEW(s, 1, "the connections between processes"));
    pthread_mutex_init(&s->lock, NULL);
    s->comm = (gs_comm){&transport_mpi, r->rank, r->size, r->timeout, s};
    s->noun = "rank";
    s->inbox = MPI_REQUEST_NULL;
    gs_status status = GS_NEW(s->pid, r->size, "the numbers of %d processes", r->size);
    if (status == GS_OK && r->size > 1) status = open_communicators(&s->comm);
    if (status != GS_OK) {
        if (!atomic_load(&s->failed)) free_state(s);
        return status;
    }
    signal(SIGPIPE, SIG_IGN);
    *out = &s->comm;
    return GS_OK;
}
#else
gs_status gs_comm_mpi_create(const gs_rendezvous *r, gs_comm **out) {
    *out = NULL;
    return gs_fail(
        GS_E_USAGE,
        "process %d of %d cannot talk over MPI: this gradsum was built without it; install Open MPI "
        "(Debian: libopenmpi-dev) and rebuild it",
        r->rank, r->size);
}
#endif
