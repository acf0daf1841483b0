#include "sync/gloo_direct.h"
#include "core/error.h"
#include "core/wait.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PIECE = 128 * 1024, BUFFER = 2 * PIECE, LINE = 64 /* bytes */ };

struct gs_direct {
    int rank, socket;
    bool crowded; /* there is no core for each rank, were they on one machine */
    size_t piece; /* bytes */
    char *room;   /* [piece] for the peer's */
};

/* ---- exchanging ---- */

/* A read or a write returned `moved` <= 0. */
static gs_gloo_code broken(ssize_t moved, gs_gloo_error *error) {
    if (moved == 0 || errno == EPIPE) return gs_gloo_explain(error, GS_GLOO_LOST, "connection closed");
    if (errno == ECONNRESET) return gs_gloo_explain(error, GS_GLOO_LOST, "connection reset");
    if (errno == EAGAIN || errno == EWOULDBLOCK)
        return gs_gloo_explain(error, GS_GLOO_TIMEOUT, "no answer in time");
    return gs_gloo_explain(error, GS_GLOO_LOST, strerror(errno));
}

static gs_gloo_code write_all(const gs_direct *d, const void *data, size_t bytes, int flags,
                              gs_gloo_error *error) {
    for (size_t done = 0; done < bytes;) {
        ssize_t moved = send(d->socket, (const char *)data + done, bytes - done, MSG_NOSIGNAL | flags);
        if (moved > 0)
            done += (size_t)moved;
        else if (moved == 0 || errno != EINTR)
            return broken(moved, error);
    }
    return GS_GLOO_OK;
}

/* As recv; the peer has mostly written already, or is about to. */
static ssize_t read_some(const gs_direct *d, void *data, size_t bytes) {
    gs_wait wait = gs_wait_begin(d->crowded);
    do {
        ssize_t moved = recv(d->socket, data, bytes, MSG_DONTWAIT);
        if (moved >= 0 || errno != EAGAIN) return moved;
    } while (gs_wait_a_moment(&wait));
    return recv(d->socket, data, bytes, 0);
}

static gs_gloo_code read_all(const gs_direct *d, void *data, size_t bytes, gs_gloo_error *error) {
    for (size_t done = 0; done < bytes;) {
        ssize_t moved = read_some(d, (char *)data + done, bytes - done);
        if (moved > 0)
            done += (size_t)moved;
        else if (moved == 0 || errno != EINTR)
            return broken(moved, error);
    }
    return GS_GLOO_OK;
}

gs_gloo_code gs_direct_all_reduce(gs_direct *d, void *data, size_t count, gs_gloo_reduction reduction,
                                  gs_gloo_error *error) {
    const size_t bytes = count * reduction.width;
    uint64_t mine = bytes, theirs = bytes;
    gs_gloo_code code = write_all(d, &mine, sizeof mine, MSG_MORE, error); /* in one packet with the piece */
    for (size_t at = 0, n; code == GS_GLOO_OK && at < bytes; at += n) {
        char *piece = (char *)data + at;
        n = bytes - at < d->piece ? bytes - at : d->piece;
        code = write_all(d, piece, n, 0, error);
        if (code == GS_GLOO_OK && at == 0) code = read_all(d, &theirs, sizeof theirs, error);
        if (code == GS_GLOO_OK && theirs != mine)
            gs_bug("all_reduce of %zu bytes on rank %d, of %zu on rank %d", bytes, d->rank, (size_t)theirs,
                   1 - d->rank);
        if (code == GS_GLOO_OK) code = read_all(d, d->room, n, error);
        if (code != GS_GLOO_OK) break;
        if (d->rank == 0)
            reduction.combine(piece, piece, d->room, n / reduction.width);
        else
            reduction.combine(piece, d->room, piece, n / reduction.width);
    }
    return code;
}

void gs_direct_shut(gs_direct *d) {
    shutdown(d->socket, SHUT_RDWR);
}

/* ---- connecting ---- */

typedef struct place {
    struct sockaddr_storage address;
    socklen_t length;
} place;

static gs_gloo_code failed(const char *what, gs_gloo_error *error) {
    char text[200];
    snprintf(text, sizeof text, "%s: %s", what, strerror(errno));
    return gs_gloo_explain(error, GS_GLOO_OTHER, text);
}

/* An address of this machine that a socket can have, with a port of its own. */
static int listen_at(const char *address, place *out) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found;
    if (getaddrinfo(address, NULL, &hints, &found) != 0) return -1;
    int s = -1;
    for (const struct addrinfo *a = found; a && s < 0; a = a->ai_next) {
        out->length = sizeof out->address;
        s = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol);
        if (s < 0 || (bind(s, a->ai_addr, a->ai_addrlen) == 0 && listen(s, 1) == 0 &&
                      getsockname(s, (struct sockaddr *)&out->address, &out->length) == 0))
            continue;
        close(s);
        s = -1;
    }
    freeaddrinfo(found);
    return s;
}

/* How long a piece can be: half of what the system lets the socket hold, because the other half is for its own notes of
 * what it holds. */
static uint64_t set_up(int socket, int timeout_ms) {
    const struct timeval most = {timeout_ms / 1000, timeout_ms % 1000 * 1000};
    int wanted = BUFFER, allowed = 0, yes = 1;
    socklen_t length = sizeof allowed;
    setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof most);
    setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &most, sizeof most); /* of connect too */
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &wanted, sizeof wanted);
    getsockopt(socket, SOL_SOCKET, SO_SNDBUF, &allowed, &length);
    return (uint64_t)(allowed / 2 < PIECE ? allowed / 2 : PIECE) / LINE * LINE;
}

/* Rank 0 listens and tells where, rank 1 connects, and with the sizes of their pieces they tell that this is done: so
 * rank 0 finds it waiting. Who fails closes Gloo's connections, and the other one's wait ends. */
static gs_gloo_code connect_both(gs_direct *d, gs_gloo *g, const char *address, int *listener, int timeout_ms,
                                 gs_gloo_error *error) {
    place there = {.length = 0};
    uint64_t piece[2] = {0};
    gs_gloo_code code;
    if (d->rank == 0 && (*listener = listen_at(address, &there)) < 0)
        return failed("no socket for the other rank to connect to", error);
    code = gs_gloo_broadcast(g, &there, sizeof there, 0, timeout_ms, error);
    if (code != GS_GLOO_OK) return code;
    if (d->rank == 1) {
        d->socket = socket(there.address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (d->socket < 0) return failed("no socket", error);
        piece[1] = set_up(d->socket, timeout_ms);
        if (connect(d->socket, (struct sockaddr *)&there.address, there.length) != 0)
            return failed("rank 0 cannot be reached", error);
    } else {
        piece[0] = set_up(*listener, timeout_ms); /* what is accepted takes after it */
    }
    code = gs_gloo_all_gather(g, &piece[d->rank], piece, sizeof *piece, timeout_ms, error);
    if (code != GS_GLOO_OK) return code;
    if (d->rank == 0) {
        d->socket = accept4(*listener, NULL, NULL, SOCK_CLOEXEC);
        if (d->socket < 0) return failed("the connection of rank 1 has not come", error);
        set_up(d->socket, timeout_ms);
    }
    d->piece = piece[0] < piece[1] ? piece[0] : piece[1];
    d->room = malloc(d->piece);
    return d->room ? GS_GLOO_OK : gs_gloo_explain(error, GS_GLOO_MEMORY, "out of memory");
}

gs_gloo_code gs_direct_create(gs_gloo *g, const char *address, int rank, int timeout_ms, gs_direct **out,
                              gs_gloo_error *error) {
    gs_direct *d = malloc(sizeof *d);
    if (!d) return gs_gloo_explain(error, GS_GLOO_MEMORY, "out of memory");
    *d = (gs_direct){.rank = rank, .socket = -1, .crowded = gs_wait_is_crowded(2)};
    int listener = -1;
    gs_gloo_code code = connect_both(d, g, address, &listener, timeout_ms, error);
    if (listener >= 0) close(listener);
    if (code == GS_GLOO_OK)
        *out = d;
    else
        gs_direct_free(d);
    return code;
}

void gs_direct_free(gs_direct *d) {
    if (!d) return;
    if (d->socket >= 0) close(d->socket);
    free(d->room);
    free(d);
}
