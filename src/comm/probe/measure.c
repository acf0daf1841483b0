/* Round trip, bandwidth and clocks of a connection. The caller says what is to be done, and the other end does it. A
 * request has 16 bytes, a kind and a number:
 *
 *     'p'       answer with the time of your clock
 *     's' N     take N bytes, then answer
 *     'g' N     give me N bytes
 *     'q'       that was all
 *
 * Round trip: the median of some answers. Clock: the answer with the shortest round trip was on its way for half of it,
 * so the other clock showed its time in the middle (as in NTP, RFC 5905). Bandwidth: N doubles until it takes long
 * enough; the round trip is not a part of it.
 */
#include "comm/probe/probe.h"
#include "core/clock.h"
#include "core/median.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { PINGS = 40, LEAST_PINGS = 5, REQUEST = 16, PIECE = 64 * 1024, MOST = 64 << 20 };
static const double WAIT = 10 /* s for anything */, PING_TIME = 0.2, ENOUGH = 0.02;

static gs_status broken(bool late) {
    return gs_fail(GS_E_PEER, "%s",
                   late ? "nothing came through for 10 s" : "the connection broke while it was measured");
}

/* Move all bytes; out: to the other end. */
static gs_status move(int socket, bool out, void *data, size_t bytes) {
    const double until = gs_seconds() + WAIT;
    for (char *at = data; bytes > 0;) {
        const ssize_t n = out ? send(socket, at, bytes, MSG_NOSIGNAL | MSG_DONTWAIT)
                              : recv(socket, at, bytes, MSG_DONTWAIT);
        if (n > 0) {
            at += n;
            bytes -= (size_t)n;
            continue;
        }
        if (n == 0 || (errno != EAGAIN && errno != EINTR)) return broken(false);
        struct pollfd p = {.fd = socket, .events = out ? POLLOUT : POLLIN};
        const double left = until - gs_seconds();
        if (left <= 0) return broken(true);
        poll(&p, 1, (int)(left * 1000) + 1);
    }
    return GS_OK;
}

static gs_status move_many(int socket, bool out, unsigned char *piece, uint64_t bytes) {
    while (bytes > 0) {
        const size_t n = bytes < PIECE ? (size_t)bytes : PIECE;
        GS_TRY(move(socket, out, piece, n));
        bytes -= n;
    }
    return GS_OK;
}

static void write_request(unsigned char to[REQUEST], char kind, uint64_t number) {
    memset(to, 0, REQUEST);
    to[0] = (unsigned char)kind;
    for (int i = 0; i < 8; i++) to[8 + i] = (unsigned char)(number >> 8 * i);
}

static uint64_t number_in(const unsigned char from[REQUEST]) {
    uint64_t number = 0;
    for (int i = 0; i < 8; i++) number |= (uint64_t)from[8 + i] << 8 * i;
    return number;
}

static uint64_t clock_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- the other end ---- */

static gs_status serve(int socket, unsigned char *piece) {
    unsigned char r[REQUEST];
    for (;;) {
        GS_TRY(move(socket, false, r, REQUEST));
        const uint64_t number = number_in(r);
        if (r[0] == 'q') return GS_OK;
        if (number > MOST) return broken(false);
        if (r[0] == 's') GS_TRY(move_many(socket, false, piece, number));
        if (r[0] == 'g')
            GS_TRY(move_many(socket, true, piece, number));
        else
            write_request(r, 'a', clock_now());
        if (r[0] == 'a') GS_TRY(move(socket, true, r, REQUEST));
    }
}

/* ---- the caller ---- */

static gs_status ping(int socket, gs_probe_link *out, double *shortest) {
    double took[PINGS];
    unsigned char r[REQUEST];
    int n = 0;
    *shortest = INFINITY;
    for (const double begin = gs_seconds(); n < PINGS; n++) {
        if (n >= LEAST_PINGS && gs_seconds() - begin > PING_TIME) break;
        const uint64_t clock = clock_now();
        const double start = gs_seconds();
        write_request(r, 'p', 0);
        GS_TRY(move(socket, true, r, REQUEST));
        GS_TRY(move(socket, false, r, REQUEST));
        took[n] = gs_seconds() - start;
        if (took[n] >= *shortest) continue;
        *shortest = took[n];
        out->ahead = ((double)(int64_t)(number_in(r) - clock)) * 1e-9 - took[n] / 2;
    }
    out->round_trip = gs_median(took, n);
    return GS_OK;
}

/* kind: 's' or 'g'. */
static gs_status stream(int socket, char kind, unsigned char *piece, double round_trip, double *rate) {
    unsigned char r[REQUEST];
    for (uint64_t bytes = PIECE;; bytes *= 2) {
        const double start = gs_seconds();
        write_request(r, kind, bytes);
        GS_TRY(move(socket, true, r, REQUEST));
        GS_TRY(move_many(socket, kind == 's', piece, bytes));
        if (kind == 's') GS_TRY(move(socket, false, r, REQUEST));
        const double took = gs_seconds() - start, moved = took - round_trip;
        *rate = (double)bytes / (moved > took / 10 ? moved : took / 10);
        if (moved > ENOUGH || took > 4 * ENOUGH || bytes >= MOST) return GS_OK;
    }
}

static gs_status ask(int socket, unsigned char *piece, gs_probe_link *out) {
    unsigned char r[REQUEST];
    double shortest;
    GS_TRY(ping(socket, out, &shortest));
    GS_TRY(stream(socket, 's', piece, shortest, &out->down));
    GS_TRY(stream(socket, 'g', piece, shortest, &out->up));
    write_request(r, 'q', 0);
    return move(socket, true, r, REQUEST);
}

gs_status gs_probe_measure(int socket, bool is_caller, gs_probe_link *out) {
    unsigned char *piece = calloc(1, PIECE);
    if (!piece) return gs_fail(GS_E_MEMORY, "no memory to measure a connection");
    const gs_status status = is_caller ? ask(socket, piece, out) : serve(socket, piece);
    free(piece);
    return status;
}
