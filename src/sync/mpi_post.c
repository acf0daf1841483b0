/* Messages over MPI. MPI_Isend wants the data to stay as it is until it has left, and send must not wait for the
 * receiver: so what is sent is a copy. The copies of a pair of ranks are used in turn and keep their memory, so
 * that a message like an earlier one allocates nothing.
 *
 * Long messages (over some KiB) move only while both sides are in a call of MPI: the sender's next one, which
 * may be that of freeing the comm.
 */
#ifdef GRADSUM_MPI
#include <stdlib.h>
#include <string.h>

#include "sync/mpi_state.h"

/* NULL: no memory. */
static gs_mpi_outbox *outbox_for(gs_mpi *s, gs_mpi_channel channel, int process, int tag) {
    pthread_mutex_lock(&s->lock);
    gs_mpi_outbox *box = s->outboxes[process];
    while (box && (box->channel != channel || box->tag != tag)) box = box->next;
    if (!box && (box = calloc(1, sizeof *box))) {
        box->channel = channel;
        box->tag = tag;
        box->next = s->outboxes[process];
        s->outboxes[process] = box;
    }
    pthread_mutex_unlock(&s->lock);
    return box;
}

/* Room for a message of so many bytes in so many pieces; false: no memory. */
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

gs_status gs_mpi_send(gs_comm *c, gs_mpi_channel channel, const gs_call *call, const void *data, size_t bytes,
                      int process, int tag) {
    gs_mpi *s = c->state;
    gs_mpi_outbox *box = outbox_for(s, channel, process, tag);
    if (!box) return gs_fail(GS_E_MEMORY, "no memory for messages to %s %d", s->noun, process);
    gs_mpi_copy *copy = bytes > GS_MPI_SHORT ? &box->copies[box->turn++ % GS_MPI_COPIES]
                                             : &box->short_copies[box->short_turn++ % (2 * GS_MPI_COPIES)];
    GS_TRY(wait_for_copy(c, call, process, copy));
    if (!make_room(copy, bytes, (bytes + gs_mpi_most - 1) / gs_mpi_most))
        return gs_fail(GS_E_MEMORY, "no memory for a copy of a message of %zu bytes", bytes);
    memcpy(copy->data, data, bytes);
    for (size_t at = 0; at < bytes; at += gs_mpi_most) {
        GS_TRY(gs_mpi_check(c, call,
                            MPI_Isend(copy->data + at, (int)piece_of(bytes, at), MPI_BYTE, process, tag,
                                      s->comm[channel], &copy->pieces[copy->count])));
        copy->count++;
    }
    return GS_OK;
}

gs_status gs_mpi_recv(gs_comm *c, gs_mpi_channel channel, const gs_call *call, void *data, size_t bytes,
                      int process, int tag) {
    gs_mpi *s = c->state;
    for (size_t at = 0; at < bytes; at += gs_mpi_most) {
        MPI_Request request;
        MPI_Status status;
        int wanted = (int)piece_of(bytes, at), got;
        GS_TRY(gs_mpi_check(c, call,
                            MPI_Irecv((unsigned char *)data + at, wanted, MPI_BYTE, process, tag,
                                      s->comm[channel], &request)));
        GS_TRY(gs_mpi_wait(c, call, process, 1, &request, &status));
        GS_TRY(gs_mpi_check(c, call, MPI_Get_count(&status, MPI_BYTE, &got)));
        if (got != wanted) return gs_mpi_fail_call(c, call, "the message that came is shorter");
    }
    return GS_OK;
}

gs_status gs_mpi_flush(gs_comm *c) {
    gs_mpi *s = c->state;
    for (int r = 0; r < c->size; r++) {
        gs_call call = {GS_SEND, 0, GS_U8, 0, r};
        for (gs_mpi_outbox *box = s->outboxes[r]; box; box = box->next) {
            for (int i = 0; i < GS_MPI_COPIES; i++) GS_TRY(wait_for_copy(c, &call, r, &box->copies[i]));
            for (int i = 0; i < 2 * GS_MPI_COPIES; i++)
                GS_TRY(wait_for_copy(c, &call, r, &box->short_copies[i]));
        }
    }
    return GS_OK;
}

static void free_copies(gs_mpi_copy *copies, int count) {
    for (int i = 0; i < count; i++) {
        free(copies[i].data);
        free(copies[i].pieces);
    }
}

void gs_mpi_free_outboxes(gs_mpi *s, int size) {
    for (int r = 0; s->outboxes && r < size; r++) {
        while (s->outboxes[r]) {
            gs_mpi_outbox *box = s->outboxes[r];
            s->outboxes[r] = box->next;
            free_copies(box->copies, GS_MPI_COPIES);
            free_copies(box->short_copies, 2 * GS_MPI_COPIES);
            free(box);
        }
    }
    free(s->outboxes);
}
#endif
