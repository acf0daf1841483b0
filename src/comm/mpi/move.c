/* Collectives over MPI that move elements without changing them: MPI's own. MPI counts with int, so longer parts go in
 * blocks: the same block of every rank's part at once, as one element of a type whose extent is the whole part. */
#ifdef GRADSUM_MPI
#include "comm/mpi/state.h"

size_t gs_mpi_most = (size_t)1 << 30;

MPI_Datatype gs_mpi_unit(gs_type type) {
    size_t width = gs_type_size(type);
    return width == 1 ? MPI_UINT8_T : width == 4 ? MPI_UINT32_T : MPI_UINT64_T;
}

/* A block of each part, as MPI is told. */
typedef struct block {
    size_t bytes; /* where it begins in a part */
    int count;
    MPI_Datatype type;
    bool made;
} block;

/* Elements at .. of parts of call->count elements. */
static gs_status open_block(gs_comm *c, const gs_call *call, size_t at, block *b) {
    size_t width = gs_type_size(call->type), count = call->count - at;
    MPI_Datatype unit = gs_mpi_unit(call->type), row;
    if (count > gs_mpi_most) count = gs_mpi_most;
    *b = (block){at * width, (int)count, unit, false};
    if (count == call->count) return GS_OK;
    GS_TRY(gs_mpi_check(c, call, MPI_Type_contiguous((int)count, unit, &row)));
    int error = MPI_Type_create_resized(row, 0, (MPI_Aint)(call->count * width), &b->type);
    MPI_Type_free(&row);
    GS_TRY(gs_mpi_check(c, call, error));
    b->count = 1;
    b->made = true;
    return gs_mpi_check(c, call, MPI_Type_commit(&b->type));
}

static const unsigned char *from(const void *data, const block *b) {
    return data ? (const unsigned char *)data + b->bytes : NULL;
}

static unsigned char *to(void *data, const block *b) {
    return data ? (unsigned char *)data + b->bytes : NULL;
}

/* One block of a collective: the call of MPI that begins it. */
static int begin(gs_comm *c, const gs_call *call, const block *b, const void *in, void *out,
                 MPI_Request *request) {
    const gs_mpi *s = c->state;
    MPI_Comm comm = s->channel[GS_MPI_COLLECTIVES];
    size_t bytes = call->count * gs_type_size(call->type);
    const unsigned char *mine_in = in ? (const unsigned char *)in + (size_t)c->rank * bytes : NULL;
    const unsigned char *mine_out = out ? (const unsigned char *)out + (size_t)c->rank * bytes : NULL;
    bool root = c->rank == call->root;
    switch (call->operation) {
    case GS_BROADCAST:
        return MPI_Ibcast(to(out, b), b->count, b->type, call->root, comm, request);
    case GS_ALL_GATHER:
        return MPI_Iallgather(in == mine_out ? MPI_IN_PLACE : from(in, b), b->count, b->type, to(out, b),
                              b->count, b->type, comm, request);
    case GS_GATHER:
        return MPI_Igather(root && in == mine_out ? MPI_IN_PLACE : from(in, b), b->count, b->type, to(out, b),
                           b->count, b->type, call->root, comm, request);
    case GS_SCATTER:
        return MPI_Iscatter(from(in, b), b->count, b->type,
                            root && out == mine_in ? MPI_IN_PLACE : to(out, b), b->count, b->type, call->root,
                            comm, request);
    default:
        return MPI_Ialltoall(from(in, b), b->count, b->type, to(out, b), b->count, b->type, comm, request);
    }
}

gs_status gs_mpi_move(gs_comm *c, const gs_call *call, const void *in, void *out) {
    for (size_t at = 0; at < call->count; at += gs_mpi_most) {
        block b;
        MPI_Request request;
        GS_TRY(open_block(c, call, at, &b));
        GS_TRY(gs_mpi_check(c, call, begin(c, call, &b, in, out, &request)));
        GS_TRY(gs_mpi_wait(c, call, -1, 1, &request, MPI_STATUS_IGNORE));
        if (b.made) GS_TRY(gs_mpi_check(c, call, MPI_Type_free(&b.type)));
    }
    return GS_OK;
}
#endif
