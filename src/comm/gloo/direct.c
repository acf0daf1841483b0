#include "comm/gloo/gloo_c.h"
#include "core/wait.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { PIECE = 128 * 1024, BUFFER = 2 * PIECE, LINE = 64 /* bytes */ };

struct gs_direct {
    int rank, socket;
    int timeout_ms; /* of a read or a write, as set on the socket */
    bool crowded;   /* this machine has fewer cores than ranks */
    size_t piece;   /* bytes */
    char *room;     /* [piece] holds a piece of the peer's array */
};

/* ---- exchanging ---- */

/* The error for a read or a write that returned `moved` <= 0. */
static gs_gloo_code broken(ssize_t moved) {
    if (moved == 0 || errno == EPIPE) return gs_gloo_explain(GS_GLOO_LOST, "connection closed");
    if (errno == ECONNRESET) return gs_gloo_explain(GS_GLOO_LOST, "connection reset");
    if (errno == EAGAIN || errno == EWOULDBLOCK) return gs_gloo_explain(GS_GLOO_TIMEOUT, "no answer in time");
    return gs_gloo_explain(GS_GLOO_LOST, strerror(errno));
}

/* Like recv, but spin first, because usually the peer has written or is about to. */
static ssize_t read_some(const gs_direct *d, void *data, size_t bytes) {
    gs_wait wait = gs_wait_begin(d->crowded);
    do {
        ssize_t moved = recv(d->socket, data, bytes, MSG_DONTWAIT);
        if (moved >= 0 || errno != EAGAIN) return moved;
    } while (gs_wait_a_moment(&wait));
    return recv(d->socket, data, bytes, 0);
}

/* Move all bytes: to the peer if `out`, else from it. */
static gs_gloo_code move(const gs_direct *d, bool out, void *data, size_t bytes, int flags) {
    for (size_t done = 0; done < bytes;) {
        char *at = (char *)data + done;
        ssize_t moved =
            out ? send(d->socket, at, bytes - done, MSG_NOSIGNAL | flags) : read_some(d, at, bytes - done);
        if (moved > 0)
            done += (size_t)moved;
        else if (moved == 0 || errno != EINTR)
            return broken(moved);
    }
    return GS_GLOO_OK;
}

static gs_gloo_code has_other_length(size_t bytes, uint64_t theirs) {
    char text[200];
    snprintf(text, sizeof text, "%zu bytes here, but %zu there; wanted the same call", bytes, (size_t)theirs);
    return gs_gloo_explain(GS_GLOO_OTHER, text);
}

static void set_timeout(gs_direct *d, int timeout_ms) {
    const struct timeval most = {timeout_ms / 1000, timeout_ms % 1000 * 1000};
    if (timeout_ms == d->timeout_ms) return;
    setsockopt(d->socket, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof most);
    setsockopt(d->socket, SOL_SOCKET, SO_SNDTIMEO, &most, sizeof most);
    d->timeout_ms = timeout_ms;
}

gs_gloo_code gs_direct_all_reduce(gs_direct *d, const gs_call *call, void *data, int timeout_ms) {
    const size_t width = gs_type_size(call->type), bytes = call->count * width;
    const gs_combine combine = gs_combine_of(call->type, call->reduction);
    uint64_t mine = bytes, theirs = bytes;
    set_timeout(d, timeout_ms);
    gs_gloo_code code = move(d, true, &mine, sizeof mine, MSG_MORE); /* in one packet with the first piece */
    for (size_t at = 0, n; code == GS_GLOO_OK && at < bytes; at += n) {
        char *piece = (char *)data + at;
        n = bytes - at < d->piece ? bytes - at : d->piece;
        code = move(d, true, piece, n, 0);
        if (code == GS_GLOO_OK && at == 0) code = move(d, false, &theirs, sizeof theirs, 0);
        if (code == GS_GLOO_OK && theirs != mine) code = has_other_length(bytes, theirs);
        if (code == GS_GLOO_OK) code = move(d, false, d->room, n, 0);
        if (code != GS_GLOO_OK) break;
        if (d->rank == 0)
            combine(piece, piece, d->room, n / width);
        else
            combine(piece, d->room, piece, n / width);
    }
    return code;
}

/* ---- making and freeing ---- */

/* Set up the socket. Returns the length of a piece: half the send buffer; the kernel reserves the other half. */
static uint64_t set_up(int socket) {
    int wanted = BUFFER, allowed = 0, yes = 1;
    socklen_t length = sizeof allowed;
    fcntl(socket, F_SETFL, fcntl(socket, F_GETFL) & ~O_NONBLOCK);
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &wanted, sizeof wanted);
    getsockopt(socket, SOL_SOCKET, SO_SNDBUF, &allowed, &length);
    return (uint64_t)(allowed / 2 < PIECE ? allowed / 2 : PIECE) / LINE * LINE;
}

static gs_gloo_code agree_on_piece(gs_direct *d, gs_gloo *g, int timeout_ms) {
    uint64_t piece[2];
    piece[d->rank] = set_up(d->socket);
    const gs_call call = {GS_ALL_GATHER, 1, GS_I64, GS_SUM, 0};
    gs_gloo_code code = gs_gloo_collective(g, &call, &piece[d->rank], piece, timeout_ms);
    if (code != GS_GLOO_OK) return code;
    d->piece = piece[0] < piece[1] ? piece[0] : piece[1];
    d->room = malloc(d->piece);
    return d->room ? GS_GLOO_OK : gs_gloo_explain(GS_GLOO_MEMORY, "out of memory");
}

gs_gloo_code gs_direct_create(gs_gloo *g, int socket, int rank, int timeout_ms, gs_direct **out) {
    gs_direct *d = malloc(sizeof *d);
    if (!d) return gs_gloo_explain(GS_GLOO_MEMORY, "out of memory");
    *d = (gs_direct){.rank = rank, .socket = socket, .crowded = gs_wait_is_crowded(2)};
    gs_gloo_code code = agree_on_piece(d, g, timeout_ms);
    if (code == GS_GLOO_OK)
        *out = d;
    else
        gs_direct_free(d);
    return code;
}

void gs_direct_free(gs_direct *d) {
    if (!d) return;
    free(d->room);
    free(d);
}
