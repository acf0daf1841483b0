#include "comm/mesh.h"
#include "comm/rendezvous/route.h"
#include "core/clock.h"

#include <errno.h>
#include <math.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { GUESTS = 64 /* the maximum number of strangers at a time */, TICK_MS = 50 };
static const double patience = 2 /* s for a caller to go on */, pause_s = 0.05 /* s before calling again */;

gs_status gs_fail_descriptor(int error) {
    struct rlimit limit;
    if (error != EMFILE || getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return gs_fail(GS_E_FILE, "%s", strerror(error));
    return gs_fail(GS_E_FILE, "too many open files: RLIMIT_NOFILE is %llu (ulimit -n)",
                   (unsigned long long)limit.rlim_cur);
}

/* ---- a handshake ---- */

typedef enum stage {
    NOBODY,       /* no handshake */
    CALLS,        /* this rank's connect is in progress */
    WANTS_ANSWER, /* this rank has sent its hello */
    WANTS_OK,     /* ... and its proof */
    WANTS_HELLO,  /* another has called this rank */
    WANTS_PROOF,  /* ... and this rank has sent its hello and proof */
} stage;

enum { GONE = -1, WRONG = -2 };

typedef struct talk {
    stage stage;
    int socket, peer, line;
    double since;                /* when the talk began; if NOBODY: when to call again */
    int error;                   /* why the last call failed: an errno, GONE or WRONG; 0: it did not fail */
    gs_hello mine;               /* the hello that this rank sent, if it calls */
    unsigned char proof[GS_MAC]; /* the proof that the caller must send */
    size_t got;                  /* bytes of the next message that have arrived, in `in` */
    unsigned char in[sizeof(gs_hello_answer)];
} talk;

typedef struct mesh {
    const gs_rendezvous *r;
    const gs_rank_info *all;
    int lines, left; /* connections wanted, and still missing */
    int *socket;
    int callees, guests; /* talk[0 .. callees-1]: the ranks that this one calls; then its guests */
    talk *talk;
    int turned_away;          /* guests without a proof */
    const char *roll;         /* roll[rank] is '1' for each rank to connect with; NULL: all */
    char (*why)[GS_MESH_WHY]; /* [rank] why it has no connection; NULL: if one has none, all fail */
} mesh;

static void hang_up(mesh *m, talk *t, int error) {
    if (t->stage >= WANTS_HELLO) m->turned_away++;
    if (t->socket >= 0) close(t->socket);
    *t = (talk){.stage = NOBODY,
                .peer = t->peer,
                .line = t->line,
                .since = gs_awake_seconds() + pause_s,
                .error = error};
}

/* Have TCP probe an idle connection about once a second, so that a cut line is detected (gloo/failure.c) even while
 * this rank only waits. TCP itself gives the connection up only long after the timeout. */
static void probe(int socket, double timeout) {
    int yes = 1, idle = 1, count = 127 /* the maximum in Linux */;
    int interval = timeout < 100 ? 1 : timeout < 3e6 ? (int)(timeout / 100) : 30000; /* at most 32767 s */
    setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
    setsockopt(socket, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
    setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes);
}

/* Keep the connection of a peer that has proven itself. A peer that calls again has given up its earlier connection. */
static void keep(mesh *m, talk *t) {
    int *place = &m->socket[t->line * m->r->size + t->peer], yes = 1;
    if (*place >= 0)
        close(*place);
    else
        m->left--;
    *place = t->socket;
    setsockopt(t->socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    probe(t->socket, m->r->timeout);
    *t = (talk){.stage = NOBODY, .peer = t->peer, .line = t->line, .since = INFINITY};
}

/* Never blocks: the first messages on a connection fit into its buffer. */
static bool say(const talk *t, const void *words, size_t bytes) {
    return send(t->socket, words, bytes, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)bytes;
}

static size_t wanted_bytes(stage s) {
    return s == WANTS_ANSWER  ? sizeof(gs_hello_answer)
           : s == WANTS_HELLO ? sizeof(gs_hello)
           : s == WANTS_PROOF ? GS_MAC
                              : 1;
}

static bool is_wanted(const mesh *m, int rank) {
    return rank != m->r->rank && (!m->roll || m->roll[rank] == '1');
}

/* ---- answers to complete messages; false: the caller does not belong to this run ---- */

static bool answer_hello(mesh *m, talk *t) {
    gs_hello_answer answer;
    gs_hello h;
    const uint32_t me = (uint32_t)m->r->rank;
    memcpy(&h, t->in, sizeof h);
    if (!gs_hello_fits(&h, me) || h.from <= me || h.from >= (uint32_t)m->r->size ||
        h.line >= (uint32_t)m->lines || !is_wanted(m, (int)h.from))
        return false;
    t->peer = (int)h.from;
    t->line = (int)h.line;
    t->stage = WANTS_PROOF;
    return gs_handshake_answer(&h, m->all[me].secret, m->all[h.from].secret, &answer, t->proof) &&
           say(t, &answer, sizeof answer);
}

static bool answer_proof(mesh *m, talk *t) {
    static const char ok = GS_HANDSHAKE_OK;
    if (!gs_mac_equal(t->proof, t->in) || !say(t, &ok, 1)) return false;
    keep(m, t);
    return true;
}

static bool prove_too(const mesh *m, talk *t) {
    gs_hello_answer answer;
    unsigned char proof[GS_MAC];
    memcpy(&answer, t->in, sizeof answer);
    t->stage = WANTS_OK;
    return gs_handshake_prove(&t->mine, &answer, m->all[t->peer].secret, m->all[m->r->rank].secret, proof) &&
           say(t, proof, sizeof proof);
}

static bool go_on(mesh *m, talk *t) {
    t->got = 0;
    if (t->stage == WANTS_HELLO) return answer_hello(m, t);
    if (t->stage == WANTS_PROOF) return answer_proof(m, t);
    if (t->stage == WANTS_ANSWER) return prove_too(m, t);
    if (t->in[0] != GS_HANDSHAKE_OK) return false;
    keep(m, t);
    return true;
}

static void hear(mesh *m, talk *t) {
    while (t->stage != NOBODY) {
        size_t wanted = wanted_bytes(t->stage);
        ssize_t n = recv(t->socket, t->in + t->got, wanted - t->got, MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
        if (n > 0 && (t->got += (size_t)n) < wanted) continue;
        if (n > 0 && go_on(m, t)) continue;
        hang_up(m, t, n > 0 ? WRONG : n == 0 ? GONE : errno);
    }
}

/* ---- calling and being called ---- */

/* True if this machine or process has no room for a socket: waiting does not help, and the peer is not to blame. */
static bool is_own_want(int error) {
    return error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOBUFS;
}

static gs_status call(mesh *m, talk *t) {
    const gs_rank_info *p = &m->all[t->peer];
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV}, *a;
    char port[16];
    snprintf(port, sizeof port, "%d", p->port);
    t->socket = -1;
    if (getaddrinfo(p->address, port, &hints, &a) != 0) {
        hang_up(m, t, EADDRNOTAVAIL);
        return GS_OK;
    }
    t->stage = CALLS;
    t->since = gs_awake_seconds();
    t->socket = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int error = t->socket < 0 ? errno : 0;
    if (error == 0 && connect(t->socket, a->ai_addr, a->ai_addrlen) != 0 && errno != EINPROGRESS)
        error = errno;
    if (error != 0) hang_up(m, t, error);
    freeaddrinfo(a);
    if (is_own_want(error))
        return gs_context(gs_fail_descriptor(error), "rank %d cannot connect to rank %d", m->r->rank,
                          t->peer);
    return GS_OK;
}

/* Go on after connect has succeeded or failed. */
static void say_hello(mesh *m, talk *t) {
    int error = 0;
    socklen_t length = sizeof error;
    getsockopt(t->socket, SOL_SOCKET, SO_ERROR, &error, &length);
    t->stage = WANTS_ANSWER;
    if (error != 0)
        hang_up(m, t, error);
    else if (gs_hello_make((uint32_t)m->r->rank, (uint32_t)t->peer, (uint32_t)t->line, &t->mine) != GS_OK ||
             !say(t, &t->mine, sizeof t->mine))
        hang_up(m, t, EPIPE);
}

/* A free slot for a guest; if there is none, turn away the oldest guest and return its slot. */
static talk *place_for_guest(mesh *m) {
    talk *oldest = &m->talk[m->callees];
    for (talk *t = oldest; t < m->talk + m->callees + m->guests; t++) {
        if (t->stage == NOBODY) return t;
        if (t->since < oldest->since) oldest = t;
    }
    hang_up(m, oldest, 0);
    return oldest;
}

static gs_status receive_guests(mesh *m, int listener) {
    for (int i = 0; i < m->guests; i++) {
        int s = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (s < 0 && is_own_want(errno))
            return gs_context(gs_fail_descriptor(errno), "rank %d cannot accept connections", m->r->rank);
        if (s < 0) return GS_OK;
        talk *t = place_for_guest(m);
        *t = (talk){.stage = WANTS_HELLO, .socket = s, .since = gs_awake_seconds()};
        hear(m, t);
    }
    return GS_OK;
}

/* ---- the loop ---- */

/* Call the ranks that are due to be called again, and turn away guests that take too long. */
static gs_status look_at_clock(mesh *m) {
    double now = gs_awake_seconds();
    for (int i = 0; i < m->callees + m->guests; i++) {
        talk *t = &m->talk[i];
        if (i < m->callees && t->stage == NOBODY && now >= t->since) GS_TRY(call(m, t));
        if (t->stage >= WANTS_HELLO && now - t->since >= patience) hang_up(m, t, 0);
    }
    return GS_OK;
}

static gs_status look_for_ends(const mesh *m, const struct pollfd *process) {
    for (int rank = 0; rank < m->r->size; rank++)
        if (process[rank].revents)
            return gs_fail(GS_E_PEER,
                           "rank %d: rank %d (process %ld) has ended while the ranks were being connected",
                           m->r->rank, rank, m->all[rank].pid);
    return GS_OK;
}

static const char *trouble_of(const talk *t) {
    if (t->error == 0) return "no answer";
    if (t->error == GONE) return "the connection was closed";
    if (t->error == WRONG) return "what answers there does not belong to this run";
    return strerror(t->error);
}

/* Names the first rank that is not connected yet. */
static gs_status too_late(const mesh *m) {
    const gs_rendezvous *r = m->r;
    int place = 0;
    while (place % r->size == r->rank || m->socket[place] >= 0) place++;
    const int line = place / r->size, peer = place % r->size;
    const gs_rank_info *mine = &m->all[r->rank], *p = &m->all[peer];
    char strangers[64] = "";
    const char *hint =
        strcmp(p->network, mine->network) == 0
            ? ""
            : "; set GRADSUM_ADDRESS for each rank to an address at which the others can reach its machine";
    if (m->turned_away > 0)
        snprintf(strangers, sizeof strangers, "; %d other caller%s turned away", m->turned_away,
                 m->turned_away == 1 ? " was" : "s were");
    if (peer < r->rank)
        return gs_fail(GS_E_PEER,
                       "rank %d: all %d ranks have arrived, but rank %d could not be reached at %s port %d "
                       "within %g s (%s)%s",
                       r->rank, r->size, peer, p->address, p->port, r->timeout,
                       trouble_of(&m->talk[line * r->rank + peer]), hint);
    return gs_fail(
        GS_E_PEER,
        "rank %d: all %d ranks have arrived, but rank %d did not connect to %s port %d within %g s%s%s",
        r->rank, r->size, peer, mine->address, mine->port, r->timeout, strangers, hint);
}

/* Set why[] for each wanted rank that has no connection. */
static gs_status tell_why(const mesh *m) {
    for (int peer = 0; peer < m->r->size; peer++) {
        const gs_rank_info *p = &m->all[peer];
        m->why[peer][0] = '\0';
        if (!is_wanted(m, peer) || m->socket[peer] >= 0) continue;
        if (peer < m->r->rank)
            snprintf(m->why[peer], GS_MESH_WHY, "%s", trouble_of(&m->talk[peer]));
        else
            snprintf(m->why[peer], GS_MESH_WHY, "it did not call %s port %d", p->address, p->port);
    }
    return GS_OK;
}

/* List what to wait for: callers at the listener, the end of each process, and the next message of each handshake. An
 * unused talk has no entry, because poll refuses an array longer than the number of descriptors that the process may
 * have. */
static nfds_t list_waits(const mesh *m, int listener, const int *process, struct pollfd *p) {
    nfds_t n = 0;
    p[n++] = (struct pollfd){listener, POLLIN, 0};
    for (int rank = 0; rank < m->r->size; rank++)
        p[n++] = (struct pollfd){process ? process[rank] : -1, POLLIN, 0};
    for (const talk *t = m->talk; t < m->talk + m->callees + m->guests; t++)
        if (t->stage != NOBODY) p[n++] = (struct pollfd){t->socket, t->stage == CALLS ? POLLOUT : POLLIN, 0};
    return n;
}

/* p: the entries of the handshakes that are in progress, in the order of m->talk. */
static void go_on_with_talks(mesh *m, const struct pollfd *p) {
    for (talk *t = m->talk; t < m->talk + m->callees + m->guests; t++) {
        if (t->stage == NOBODY) continue;
        const short happened = (p++)->revents;
        if (happened && t->stage == CALLS)
            say_hello(m, t);
        else if (happened)
            hear(m, t);
    }
}

static gs_status connect_all(mesh *m, int listener, const int *process, struct pollfd *p) {
    const double end = gs_awake_seconds() + m->r->timeout;
    while (m->left > 0) {
        if (gs_awake_seconds() >= end) return m->why ? tell_why(m) : too_late(m);
        if (m->r->stop && *m->r->stop)
            return gs_fail(GS_E_INTERRUPTED,
                           "rank %d: stopped by a signal while the ranks were being connected", m->r->rank);
        GS_TRY(look_at_clock(m));
        const nfds_t waits = list_waits(m, listener, process, p);
        const int ready = poll(p, waits, TICK_MS);
        if (ready < 0 && errno != EINTR)
            return gs_context(gs_fail_descriptor(errno == EINVAL ? EMFILE : errno),
                              "rank %d cannot wait for the other ranks with %d descriptors", m->r->rank,
                              (int)waits);
        if (ready <= 0) continue;
        go_on_with_talks(m, p + 1 + m->r->size);
        if (p[0].revents) GS_TRY(receive_guests(m, listener));
        if (m->left > 0) GS_TRY(look_for_ends(m, p + 1));
    }
    return GS_OK;
}

/* m: complete except for the talks. */
static gs_status connect_mesh(mesh *m, int listener, const int *process) {
    const gs_rendezvous *r = m->r;
    const int lines = m->lines;
    m->callees = lines * r->rank;
    m->guests = GUESTS + lines * (r->size - 1 - r->rank);
    const size_t talks = (size_t)m->callees + (size_t)m->guests;
    struct pollfd *p = calloc(talks + (size_t)r->size + 1, sizeof *p);
    m->talk = calloc(talks, sizeof *m->talk);
    for (int i = 0; i < lines * r->size; i++) m->socket[i] = -1;
    for (int i = 0; i < r->size; i++) m->left += is_wanted(m, i) ? lines : 0;
    for (int i = 0; m->talk && i < m->callees; i++)
        m->talk[i] = (talk){
            .peer = i % r->rank, .line = i / r->rank, .since = is_wanted(m, i % r->rank) ? 0 : INFINITY};
    gs_status status = m->talk && p ? connect_all(m, listener, process, p)
                                    : gs_fail(GS_E_MEMORY, "no memory to connect %d ranks", r->size);
    for (size_t i = 0; m->talk && i < talks; i++)
        if (m->talk[i].stage != NOBODY) close(m->talk[i].socket);
    free(m->talk);
    free(p);
    return status;
}

/* ---- where this rank listens ---- */

gs_status gs_mesh_listen(const char *address, gs_rank_info *mine, int *listener) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found;
    int error = getaddrinfo(address, NULL, &hints, &found);
    if (error != 0)
        return gs_fail(GS_E_USAGE, "cannot resolve the address '%s' for the other processes: %s", address,
                       gai_strerror(error));
    const int s = gs_route_listen(found, 0, &error);
    freeaddrinfo(found);
    if (s < 0 && error == EMFILE)
        return gs_context(gs_fail_descriptor(error), "cannot open a socket for the other processes");
    if (s < 0)
        return gs_fail(GS_E_USAGE, "this machine cannot be reached at the address '%s': %s", address,
                       strerror(error));
    if (gs_route_of(s, mine->address, sizeof mine->address, &mine->port)) {
        *listener = s;
        return GS_OK;
    }
    close(s);
    return gs_fail(GS_E_FILE, "cannot tell the address of a listening socket");
}

/* ---- for the callers ---- */

void gs_mesh_close(int count, const int *socket) {
    for (int i = 0; i < count; i++)
        if (socket[i] >= 0) close(socket[i]);
}

gs_status gs_mesh_connect(const gs_rendezvous *r, const gs_rank_info *all, int listener, const int *process,
                          int lines, int *socket) {
    mesh m = {.r = r, .all = all, .lines = lines, .socket = socket};
    return connect_mesh(&m, listener, process);
}

gs_status gs_mesh_connect_some(const gs_rendezvous *r, const gs_rank_info *all, int listener,
                               const char *roll, int *socket, char (*why)[GS_MESH_WHY]) {
    mesh m = {.r = r, .all = all, .lines = 1, .socket = socket, .roll = roll, .why = why};
    for (int i = 0; i < r->size; i++) why[i][0] = '\0';
    gs_status status = connect_mesh(&m, listener, NULL);
    if (status != GS_OK) gs_mesh_close(r->size, socket);
    return status;
}
