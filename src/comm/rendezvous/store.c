#include "comm/rendezvous/store.h"
#include "comm/rendezvous/frames.h"
#include "comm/rendezvous/route.h"
#include "comm/rendezvous/secret.h"
#include "core/clock.h"

#include <errno.h>
#include <math.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- addresses ---- */

/* "HOST:PORT" or "[HOST]:PORT"; a "/" may follow. */
static bool read_host(const char *text, gs_endpoint *p) {
    char port[16];
    long number;
    int used = 0;
    if (*text == '[')
        sscanf(text, "[%255[^]]]:%15[0-9]%n", p->host, port, &used);
    else
        sscanf(text, "%255[^:]:%15[0-9]%n", p->host, port, &used);
    if (used == 0 || (number = strtol(port, NULL, 10)) > 65535) return false;
    p->port = (int)number;
    return text[used] == '\0' || strcmp(text + used, "/") == 0;
}

gs_status gs_endpoint_read(const char *text, gs_endpoint *p) {
    *p = (gs_endpoint){0};
    if (strcmp(text, "tcp") == 0) text = "tcp://127.0.0.1:0";
    if (strncmp(text, "file:", 5) == 0 && text[5]) {
        p->folder = text + 5;
        return GS_OK;
    }
    if (strncmp(text, "tcp://", 6) == 0 && read_host(text + 6, p)) return GS_OK;
    return gs_fail(
        GS_E_USAGE,
        "the place to meet is '%.200s'; it must be one of these two: tcp://HOST:PORT, with the address "
        "of node rank 0, or file:DIR, a folder that all machines see",
        text);
}

bool gs_endpoint_is_folder(const char *text) {
    return strncmp(text, "file:", 5) == 0 || !(strcmp(text, "tcp") == 0 || strstr(text, "://"));
}

/* ---- sockets ---- */

/* -1: *error is an errno. */
static int call_one(const struct addrinfo *a, double until, int *error) {
    const double left = fmax(until - gs_seconds(), 1e-3);
    const struct timeval most = {(time_t)left, (suseconds_t)((left - floor(left)) * 1e6)};
    const int s = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (s >= 0) setsockopt(s, SOL_SOCKET, SO_SNDTIMEO, &most, sizeof most); /* limits connect too */
    if (s >= 0 && connect(s, a->ai_addr, a->ai_addrlen) == 0) return s;
    *error = errno == EINPROGRESS || errno == EINTR ? ETIMEDOUT : errno;
    if (s >= 0) close(s);
    return -1;
}

static int call_host(const char *host, int port, double seconds, int *error, const char **why) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found;
    char number[16];
    int s = -1;
    snprintf(number, sizeof number, "%d", port);
    int code = getaddrinfo(host, number, &hints, &found);
    *why = code != 0 ? gai_strerror(code) : NULL;
    *error = -1;
    if (code != 0) return -1;
    const double until = gs_seconds() + seconds;
    for (const struct addrinfo *a = found; a && s < 0; a = a->ai_next) s = call_one(a, until, error);
    freeaddrinfo(found);
    return s;
}

/* ---- a member's side of the protocol: see store_server.h ---- */

static const double patience = 2 /* s for a handshake */, again = 0.1 /* s before a retry */, ANSWER = 5,
                    CALL = 1 /* s for a connection */, LOOK = 0.2 /* s between looks at the clock */;

struct gs_store {
    gs_folder_store *folder; /* NULL: a store at host and port, which uses all members below */
    gs_frames frames;
    double timeout;   /* s that the store may be silent, for instance while its process is stopped */
    char address[64]; /* of this end */
    char name[GS_STORE_HOST + 40];
    int shown; /* pairs passed to `seen` so far */
};

/* ---- moving bytes ---- */

static bool wait_for(int socket, short what, double until) {
    struct pollfd p = {.fd = socket, .events = what};
    for (;;) {
        const double left = until - gs_awake_seconds();
        const int ready = poll(&p, 1, left <= 0 ? 0 : (int)(1000 * fmin(left, LOOK)) + 1);
        if (ready > 0) return true;
        if (ready == 0 ? left <= LOOK : errno != EINTR) return false;
    }
}

bool gs_socket_move(int socket, bool out, void *data, size_t bytes, double until) {
    for (char *at = data; bytes > 0;) {
        const ssize_t n = out ? send(socket, at, bytes, MSG_NOSIGNAL | MSG_DONTWAIT)
                              : recv(socket, at, bytes, MSG_DONTWAIT);
        if (n > 0) {
            at += n;
            bytes -= (size_t)n;
        } else if (n == 0 || (errno != EAGAIN && errno != EINTR) ||
                   !wait_for(socket, out ? POLLOUT : POLLIN, until)) {
            return false;
        }
    }
    return true;
}

/* ---- the handshake ---- */

/* True if the other end is the store of this run, and has accepted this member. *silent: it has not answered, for
 * instance because its process is stopped. */
static bool handshake(gs_store *t, int socket, uint32_t rank, const unsigned char key[GS_SECRET],
                      bool *silent) {
    const double until = gs_awake_seconds() + patience;
    gs_hello_answer answer;
    gs_hello mine;
    unsigned char proof[GS_MAC];
    char ok = 0;
    if (gs_hello_make(rank, GS_STORE_NUMBER, GS_STORE_LINE, &mine) != GS_OK ||
        !gs_socket_move(socket, true, &mine, sizeof mine, until))
        return false;
    if (!gs_socket_move(socket, false, &answer, sizeof answer, until)) {
        *silent = gs_awake_seconds() >= until;
        return false;
    }
    if (!gs_handshake_prove(&mine, &answer, key, key, proof) ||
        !gs_socket_move(socket, true, proof, sizeof proof, until) ||
        !gs_socket_move(socket, false, &ok, 1, until) || ok != GS_HANDSHAKE_OK)
        return false;
    t->frames.socket = socket;
    gs_frames_begin(&t->frames, key, &mine, &answer.hello, true);
    return true;
}

/* ---- frames ---- */

/* The answer is in t->frames. */
static gs_status ask(gs_store *t, gs_frame_kind kind, const void *body, size_t bytes) {
    const double until = gs_awake_seconds() + (kind == GS_FRAME_NEWS ? fmax(ANSWER, t->timeout) : ANSWER);
    if (gs_frame_send(&t->frames, kind, body, bytes, until) && gs_frame_receive(&t->frames, until))
        return GS_OK;
    return gs_fail(
        GS_E_PEER,
        "the connection to %s, where the ranks meet, was lost: the process that holds it has ended or is "
        "stopped, or the network is cut",
        t->name);
}

/* ---- the store's functions ---- */

gs_status gs_store_put(gs_store *t, const char *key, char *value, bool *there) {
    char body[GS_STORE_KEY + GS_STORE_VALUE];
    const size_t k = strlen(key) + 1, v = strlen(value) + 1;
    if (t->folder) return gs_folder_store_put(t->folder, key, value, there);
    memcpy(body, key, k);
    memcpy(body + k, value, v);
    GS_TRY(ask(t, GS_FRAME_PUT, body, k + v));
    *there = t->frames.kind == GS_FRAME_THERE;
    if (*there) snprintf(value, GS_STORE_VALUE, "%s", t->frames.bytes > 0 ? t->frames.body : "");
    return GS_OK;
}

gs_status gs_store_poll(gs_store *t, double seconds, gs_store_seen *seen, void *context) {
    char body[40];
    size_t bytes = 1;
    if (t->folder) return gs_folder_store_poll(t->folder, seconds, seen, context);
    while (bytes > 0) { /* get all new pairs, so that a member that rarely looks does not fall behind */
        snprintf(body, sizeof body, "%d %d", t->shown, (int)(seconds * 1000));
        GS_TRY(ask(t, GS_FRAME_NEWS, body, strlen(body) + 1));
        bytes = t->frames.bytes;
        for (const char *key = t->frames.body, *end = key + bytes, *value; key < end;
             key = value + strlen(value) + 1) {
            value = key + strlen(key) + 1;
            if (value >= end) break;
            t->shown++;
            GS_TRY(seen(context, key, value));
        }
        seconds = 0;
    }
    return GS_OK;
}

void gs_store_strangers(gs_store *t, char *text, size_t size) {
    text[0] = '\0';
    if (!t->folder && ask(t, GS_FRAME_COUNT, NULL, 0) == GS_OK && t->frames.bytes > 0)
        snprintf(text, size, "%s", t->frames.body);
}

void gs_store_leave(gs_store *t, bool met) {
    if (t->folder)
        gs_folder_store_leave(t->folder, met);
    else
        gs_frame_send(&t->frames, GS_FRAME_BYE, NULL, 0, gs_awake_seconds() + ANSWER);
}

void gs_store_free(gs_store *t) {
    if (!t) return;
    free(t->folder);
    if (t->frames.socket >= 0) close(t->frames.socket);
    free(t);
}

const char *gs_store_address(const gs_store *t) {
    return t->address;
}

/* ---- connecting ---- */

typedef enum outcome { CONNECTED, NOBODY_THERE, NOT_OF_THIS_RUN, NO_SUCH_HOST } outcome;

/* Seconds that a call may take: at most the caller's remaining time, but CALL if none is left. */
static double call_time(double until) {
    const double left = until - gs_awake_seconds();
    return left <= 0 || left > CALL ? CALL : left < again ? again : left;
}

/* True if the socket is connected to itself: the kernel may give a calling socket the very port that it calls. */
static bool has_met_itself(int socket) {
    struct sockaddr_storage here = {0}, there = {0};
    socklen_t h = sizeof here, t = sizeof there;
    return getsockname(socket, (struct sockaddr *)&here, &h) == 0 &&
           getpeername(socket, (struct sockaddr *)&there, &t) == 0 && h == t && memcmp(&here, &there, h) == 0;
}

static outcome try_port(gs_store *t, const gs_endpoint *p, int port, const gs_rendezvous *r,
                        const unsigned char key[GS_SECRET], double until, int *error, const char **why) {
    int own_port;
    bool silent = false;
    const int socket = call_host(p->host, port, call_time(until), error, why);
    if (socket < 0) return *why ? NO_SUCH_HOST : NOBODY_THERE;
    gs_route_of(socket, t->address, sizeof t->address, &own_port);
    const bool met_itself = has_met_itself(socket);
    if (!met_itself && handshake(t, socket, (uint32_t)r->rank, key, &silent)) return CONNECTED;
    close(socket);
    if (!met_itself && !silent) return NOT_OF_THIS_RUN;
    *error = met_itself ? ECONNREFUSED : ETIMEDOUT;
    return NOBODY_THERE;
}

static gs_status cannot_connect(const gs_rendezvous *r, const gs_endpoint *p, int ports, outcome last,
                                int error, const char *why) {
    char place[GS_STORE_HOST + 60], source[300], here[GS_STORE_HOST + 100] = "", text[300];
    snprintf(place, sizeof place, ports > 1 ? "%s, ports %d to %d" : "%s port %d", p->host, p->port,
             p->port + ports - 1);
    if (last == NO_SUCH_HOST)
        return gs_fail(GS_E_PEER, "rank %d cannot resolve '%s', where the ranks meet: %s", r->rank, p->host,
                       why);
    if (last == NOT_OF_THIS_RUN)
        return gs_fail(
            GS_E_PEER,
            "rank %d: what answers at %s does not belong to this run: it is another program, or it has "
            "another secret (this one's is that of %s; it must be the same on all machines)",
            r->rank, place, gs_secret_source(source, sizeof source));
    if (r->nodes != 1 && *gs_route_only_here(p->host, p->port, false, text, sizeof text))
        snprintf(here, sizeof here, "; %s is this machine, so rank 0 must run here", p->host);
    else if (r->nodes != 1 && p->host[strspn(p->host, "0123456789.")])
        snprintf(here, sizeof here, ", and that %s does not resolve to 127.0.0.1 there", p->host);
    return gs_fail(
        GS_E_PEER,
        "rank %d: nobody could be reached at %s within %g s (%s), where the ranks meet: start %s, and see "
        "that no firewall closes the port%s",
        r->rank, place, r->timeout, strerror(error), r->engine ? "rank 0" : "the launch of node rank 0",
        here);
}

static gs_status connect_to(gs_store *t, const gs_rendezvous *r, const gs_endpoint *p,
                            const unsigned char key[GS_SECRET]) {
    const double until = gs_awake_seconds() + r->timeout;
    const int ports = r->ports > 0 ? r->ports : 1;
    int error = 0;
    const char *why = NULL;
    double wrong_since = 0;
    gs_route_hint hint = {r->local_rank > 0 || r->nodes == 1 ? NULL : r->tell, gs_awake_seconds()};
    outcome last = NOBODY_THERE;
    t->timeout = r->timeout;
    snprintf(t->name, sizeof t->name, "%s port %d", p->host, p->port);
    for (int i = 0;; i = (i + 1) % ports) {
        const outcome now = try_port(t, p, p->port + i, r, key, until, &error, &why);
        if (now != NOBODY_THERE || i == 0) last = now;
        if (now != NOT_OF_THIS_RUN) wrong_since = 0;
        if (now == NOT_OF_THIS_RUN && wrong_since <= 0) wrong_since = gs_awake_seconds();
        const bool given_up = ports == 1 && wrong_since > 0 && gs_awake_seconds() - wrong_since > patience;
        const bool stopped = r->stop && *r->stop;
        if (now == CONNECTED) return GS_OK;
        gs_route_tell_only_here(&hint, p->host, p->port, false);
        if (stopped)
            return gs_fail(GS_E_INTERRUPTED, "rank %d: stopped by a signal while it looked for the others",
                           r->rank);
        if (given_up || gs_awake_seconds() >= until) return cannot_connect(r, p, ports, last, error, why);
        if (i == ports - 1) gs_sleep(now == NOT_OF_THIS_RUN ? 5 * again : again);
    }
}

gs_status gs_store_open(const gs_rendezvous *r, const gs_endpoint *p, const unsigned char key[GS_SECRET],
                        gs_store **out) {
    gs_store *t = *out = calloc(1, sizeof *t);
    if (!t) return gs_fail(GS_E_MEMORY, "no memory to meet the other ranks");
    t->frames.socket = -1;
    const gs_status status = p ? connect_to(t, r, p, key) : gs_folder_store_open(r, &t->folder);
    if (status == GS_OK) return GS_OK;
    gs_store_free(t);
    *out = NULL;
    return status;
}
