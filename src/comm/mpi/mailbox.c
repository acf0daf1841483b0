/* Messages over MPI. MPI_Isend needs its data unchanged until it has left, but send must not wait for the receiver, so
 * a copy is sent. The copies of a pair of ranks take turns and keep their memory, so a message like an earlier one
 * allocates nothing.
 *
 * Long messages (over some KiB) move only while both sides are inside a call of MPI. For the sender that is its next
 * one, which may be the call that frees the comm.
 */
#ifdef GRADSUM_MPI
#include <stdlib.h>
#include <string.h>

#include "comm/mpi/state.h"

static gs_mpi_channel channel_of(const gs_envelope *e) {
    return gs_is_part(e) ? GS_MPI_COLLECTIVES : GS_MPI_MESSAGES;
}

static int tag_of(const gs_envelope *e) {
    int mask = (1 << GS_MPI_TAG_BITS) - 1;
    return (e->from & mask) << GS_MPI_TAG_BITS | (e->to & mask);
}

/* NULL: no memory. */
static gs_mpi_mailbox *mailbox_of(gs_mpi *s, const gs_envelope *e) {
    gs_mpi_channel channel = channel_of(e);
    int tag = tag_of(e);
    pthread_mutex_lock(&s->lock);
    gs_mpi_mailbox *box = s->mailboxes[e->peer];
    while (box && (box->channel != channel || box->tag != tag)) box = box->next;
    if (!box && (box = calloc(1, sizeof *box))) {
        box->channel = channel;
        box->tag = tag;
        box->next = s->mailboxes[e->peer];
        s->mailboxes[e->peer] = box;
    }
    pthread_mutex_unlock(&s->lock);
    return box;
}

/* Room for a message of that many bytes in that many pieces; false: no memory. */
static bool make_room(gs_mpi_copy *copy, size_t bytes, size_t pieces) {
    if (copy->room < bytes) {
        free(copy->data);
        copy->data = malloc(bytes);
        copy->room = copy->data ? bytes : 0;
    }
    if (copy->pieces_room < (int)pieces) {
        free(copy->pieces);
        copy->pieces = malloc(pieces * sizeof(MPI_Request));
        copy->pieces_room = copy->pieces ? (int)pieces : 0;
    }
    return copy->data && copy->pieces;
}

static size_t piece_of(size_t bytes, size_t at) {
    return bytes - at < gs_mpi_most ? bytes - at : gs_mpi_most;
}

static gs_status wait_for_copy(gs_comm *c, const gs_call *call, int process, gs_mpi_copy *copy) {
    if (copy->count > 0) GS_TRY(gs_mpi_wait(c, call, process, copy->count, copy->pieces, MPI_STATUS_IGNORE));
    copy->count = 0;
    return GS_OK;
}

/* Has another rank failed? */
static gs_status look(gs_comm *c) {
    const gs_mpi *s = c->state;
    gs_mpi_listen(c);
    return atomic_load(&s->failed) ? gs_mpi_failed(s) : GS_OK;
}

gs_status gs_mpi_send(gs_comm *c, const gs_envelope *e, const void *data, size_t bytes) {
    gs_mpi *s = c->state;
    GS_TRY(look(c));
    if (bytes == 0) return GS_OK;
    gs_mpi_mailbox *box = mailbox_of(s, e);
    if (!box) return gs_fail(GS_E_MEMORY, "no memory for messages to %s %d", s->noun, e->peer);
    gs_mpi_copy *copy =
        &box->copies[bytes > GS_MPI_SHORT ? box->turn++ % GS_MPI_COPIES
                                          : GS_MPI_COPIES + box->short_turn++ % GS_MPI_SHORT_COPIES];
    GS_TRY(wait_for_copy(c, e->call, e->peer, copy));
    if (!make_room(copy, bytes, (bytes + gs_mpi_most - 1) / gs_mpi_most))
        return gs_fail(GS_E_MEMORY, "no memory for a copy of a message of %zu bytes", bytes);
    memcpy(copy->data, data, bytes);
    for (size_t at = 0; at < bytes; at += gs_mpi_most) {
        int error = MPI_Isend(copy->data + at, (int)piece_of(bytes, at), MPI_BYTE, e->peer, tag_of(e),
                              s->channel[channel_of(e)], &copy->pieces[copy->count]);
        GS_TRY(gs_mpi_check(c, e->call, error));
        copy->count++;
    }
    return GS_OK;
}

gs_status gs_mpi_recv(gs_comm *c, const gs_envelope *e, void *data, size_t bytes) {
    const gs_mpi *s = c->state;
    GS_TRY(look(c));
    for (size_t at = 0; at < bytes; at += gs_mpi_most) {
        MPI_Request request;
        MPI_Status status;
        int wanted = (int)piece_of(bytes, at), got;
        int error = MPI_Irecv((unsigned char *)data + at, wanted, MPI_BYTE, e->peer, tag_of(e),
                              s->channel[channel_of(e)], &request);
        GS_TRY(gs_mpi_check(c, e->call, error));
        GS_TRY(gs_mpi_wait(c, e->call, e->peer, 1, &request, &status));
        GS_TRY(gs_mpi_check(c, e->call, MPI_Get_count(&status, MPI_BYTE, &got)));
        if (got != wanted) return gs_mpi_fail_call(c, e->call, "the message received is shorter");
    }
    return GS_OK;
}

gs_status gs_mpi_flush(gs_comm *c) {
    gs_mpi *s = c->state;
    for (int r = 0; r < c->size; r++) {
        gs_call call = {GS_SEND, 0, GS_U8, 0, r};
        for (gs_mpi_mailbox *box = s->mailboxes[r]; box; box = box->next)
            for (int i = 0; i < GS_MPI_COPIES + GS_MPI_SHORT_COPIES; i++)
                GS_TRY(wait_for_copy(c, &call, r, &box->copies[i]));
    }
    return GS_OK;
}

void gs_mpi_free_mailboxes(gs_mpi *s, int size) {
    for (int r = 0; s->mailboxes && r < size; r++) {
        while (s->mailboxes[r]) {
            gs_mpi_mailbox *box = s->mailboxes[r];
            s->mailboxes[r] = box->next;
            for (int i = 0; i < GS_MPI_COPIES + GS_MPI_SHORT_COPIES; i++) {
                free(box->copies[i].data);
                free(box->copies[i].pieces);
            }
            free(box);
        }
    }
    free(s->mailboxes);
}
#endif
