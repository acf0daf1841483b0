#include "comm/rendezvous/store_server.h"
#include "comm/rendezvous/frames.h"
#include "comm/rendezvous/route.h"
#include "core/clock.h"
#include "core/thread.h"

#include <errno.h>
#include <math.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    CLIENTS = 8192, /* maximum: twice that of processes in a run (environment.c) */
    STRANGERS = 256,
    TICK_MS = 100,
    WHERE = 160,
    WAIT_MS = 250 /* maximum wait of a request for news */
};
static const double patience = 2 /* s to wait for a handshake */, ANSWER = 10 /* s for a member to read */;

typedef enum stage { WANTS_HELLO, WANTS_PROOF, MEMBER } stage;

/* A caller. */
typedef struct client {
    stage stage;
    double since;                /* when it called */
    gs_frames frames;            /* the socket is valid from the start */
    unsigned char proof[GS_MAC]; /* the proof that it must send */
    bool bye;                    /* it has said that it is done */
    char rank[GS_STORE_KEY];     /* the key that it has put, such as "rank-1"; "": none yet */
    int shown;                   /* pairs that it has received */
    double until;                /* the end of its wait for new pairs; 0: it does not wait */
} client;

struct gs_store_server {
    int listener, port;
    unsigned char key[GS_SECRET];
    char where[WHERE];
    bool running;
    pthread_t thread;
    atomic_bool ends;
    atomic_long strangers;    /* callers turned away */
    atomic_int came, present; /* members so far, and now */
    /* Used only by the thread: */
    long unknowing; /* turned away after a valid hello: a gradsum with another secret */
    int clients, pairs;
    client *client[CLIENTS];
    struct pollfd poll[1 + CLIENTS]; /* the listener's entry, then the clients' */
    char **pair;                     /* [pairs] key, 0, value, 0: in order of arrival */
};

/* ---- pairs ---- */

/* The value of this key; NULL: there is none. */
static const char *find_pair(const gs_store_server *s, const char *key) {
    for (int i = 0; i < s->pairs; i++)
        if (strcmp(s->pair[i], key) == 0) return s->pair[i] + strlen(key) + 1;
    return NULL;
}

static size_t pair_bytes(const char *pair) {
    const size_t key = strlen(pair) + 1;
    return key + strlen(pair + key) + 1;
}

/* False: out of memory. */
static bool add_pair(gs_store_server *s, const char *key, const char *value) {
    const size_t k = strlen(key) + 1, v = strlen(value) + 1;
    char **more = realloc(s->pair, ((size_t)s->pairs + 1) * sizeof *more), *pair = malloc(k + v);
    if (more) s->pair = more;
    if (!more || !pair) {
        free(pair);
        return false;
    }
    memcpy(pair, key, k);
    memcpy(pair + k, value, v);
    s->pair[s->pairs++] = pair;
    return true;
}

/* ---- one client; each answer returns false if the client must leave ---- */

static bool answer(client *v, gs_frame_kind kind, const void *body, size_t bytes) {
    return gs_frame_send(&v->frames, kind, body, bytes, gs_awake_seconds() + ANSWER);
}

static bool put(gs_store_server *s, client *v) {
    const char *key, *value;
    if (!gs_frame_pair(&v->frames, &key, &value)) return false;
    const char *there = find_pair(s, key);
    if (there) return answer(v, GS_FRAME_THERE, there, strlen(there) + 1);
    if (!add_pair(s, key, value)) return false; /* out of memory */
    if (strncmp(key, "rank-", 5) == 0) snprintf(v->rank, sizeof v->rank, "%s", key);
    return answer(v, GS_FRAME_DONE, NULL, 0);
}

static bool ask_for_news(client *v) {
    int wait = 0;
    if (v->frames.bytes == 0 || sscanf(v->frames.body, "%d %d", &v->shown, &wait) != 2 || v->shown < 0)
        return false;
    v->until = gs_awake_seconds() + (wait < WAIT_MS ? wait : WAIT_MS) * 1e-3;
    return true;
}

/* Send as many new pairs as fit. */
static bool tell_news(const gs_store_server *s, client *v) {
    char body[GS_FRAME_BODY];
    size_t used = 0, more;
    for (; v->shown < s->pairs && used + (more = pair_bytes(s->pair[v->shown])) <= sizeof body; used += more)
        memcpy(body + used, s->pair[v->shown++], more);
    v->until = 0;
    return answer(v, GS_FRAME_PAIRS, body, used);
}

static bool tell_strangers(gs_store_server *s, client *v) {
    char text[240] = "";
    const long all = atomic_load(&s->strangers), unknowing = s->unknowing;
    if (unknowing > 0)
        snprintf(text, sizeof text,
                 "; %ld call%s turned away there, of gradsum with another secret: it must be the same on all "
                 "machines",
                 unknowing, unknowing == 1 ? " was" : "s were");
    else if (all > 0)
        snprintf(text, sizeof text, "; %ld stranger%s turned away there", all, all == 1 ? " was" : "s were");
    return answer(v, GS_FRAME_NUMBER, text, strlen(text) + 1);
}

/* The store's side of the handshake. */
static bool answer_hello(const gs_store_server *s, client *v) {
    gs_hello_answer mine;
    gs_hello theirs;
    if (!gs_socket_move(v->frames.socket, false, &theirs, sizeof theirs, 0) ||
        !gs_hello_fits(&theirs, GS_STORE_NUMBER) || theirs.line != GS_STORE_LINE ||
        !gs_handshake_answer(&theirs, s->key, s->key, &mine, v->proof))
        return false;
    v->stage = WANTS_PROOF;
    gs_frames_begin(&v->frames, s->key, &theirs, &mine.hello, false);
    return gs_socket_move(v->frames.socket, true, &mine, sizeof mine, 0);
}

static bool answer_proof(gs_store_server *s, client *v) {
    static char ok = GS_HANDSHAKE_OK;
    unsigned char proof[GS_MAC];
    if (!gs_socket_move(v->frames.socket, false, proof, sizeof proof, 0) || !gs_mac_equal(v->proof, proof))
        return false;
    v->stage = MEMBER;
    atomic_fetch_add(&s->present, 1);
    atomic_fetch_add(&s->came, 1);
    return gs_socket_move(v->frames.socket, true, &ok, 1, 0);
}

static bool go_on(gs_store_server *s, client *v) {
    if (v->stage == WANTS_HELLO) return answer_hello(s, v);
    if (v->stage == WANTS_PROOF) return answer_proof(s, v);
    if (!gs_frame_receive(&v->frames, 0)) return false;
    const gs_frame_kind kind = v->frames.kind;
    v->bye = kind == GS_FRAME_BYE;
    return kind == GS_FRAME_PUT    ? put(s, v)
           : kind == GS_FRAME_NEWS ? ask_for_news(v)
                                   : kind == GS_FRAME_COUNT && tell_strangers(s, v);
}

/* True once the client's next message has arrived in full. Until then poll does not return for it (SO_RCVLOWAT), so the
 * thread never blocks on it. */
static bool has_come(const client *v) {
    const int socket = v->frames.socket;
    uint32_t head[2];
    int there = 0, wanted = v->stage == WANTS_HELLO   ? (int)sizeof(gs_hello)
                            : v->stage == WANTS_PROOF ? GS_MAC
                                                      : GS_FRAME_LEAST;
    if (v->stage == MEMBER && recv(socket, head, sizeof head, MSG_PEEK | MSG_DONTWAIT) == sizeof head &&
        head[0] <= GS_FRAME_BODY)
        wanted += (int)head[0];
    setsockopt(socket, SOL_SOCKET, SO_RCVLOWAT, &wanted, sizeof wanted);
    return ioctl(socket, FIONREAD, &there) == 0 && there >= wanted;
}

/* False: the client has left, or must leave. */
static bool attend(gs_store_server *s, client *v, short happened) {
    const double now = gs_awake_seconds();
    while (happened && has_come(v))
        if (!go_on(s, v)) return false;
    if (happened & (POLLRDHUP | POLLHUP | POLLERR)) return false;
    if (v->stage != MEMBER) return now - v->since < patience;
    return v->until <= 0 || (v->shown >= s->pairs && now < v->until) || tell_news(s, v);
}

/* ---- all clients ---- */

/* Remove client i; tell the others if it left without bye. */
static void part(gs_store_server *s, int i) {
    client *v = s->client[i];
    char key[GS_STORE_KEY + 8];
    if (v->rank[0] && !v->bye) {
        snprintf(key, sizeof key, "gone-%s", v->rank + 5);
        if (!find_pair(s, key)) add_pair(s, key, "");
    }
    if (v->stage == MEMBER)
        atomic_fetch_sub(&s->present, 1);
    else
        atomic_fetch_add(&s->strangers, 1);
    s->unknowing += v->stage == WANTS_PROOF;
    close(v->frames.socket);
    free(v);
    s->client[i] = s->client[--s->clients];
    s->poll[1 + i] = s->poll[1 + s->clients];
}

/* Accept a caller. If there are too many strangers, the oldest one leaves. */
static void welcome(gs_store_server *s) {
    int yes = 1, strangers = 0, first = 0;
    for (int i = 0; i < s->clients; i++) {
        if (s->client[i]->stage == MEMBER) continue;
        if (strangers++ == 0 || s->client[i]->since < s->client[first]->since) first = i;
    }
    if (strangers >= STRANGERS) part(s, first);
    client *v = s->clients < CLIENTS ? calloc(1, sizeof *v) : NULL;
    const int socket = v ? accept4(s->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK) : -1;
    if (socket < 0) { /* no room or descriptor is left, so callers stay queued */
        free(v);
        gs_sleep(1e-3);
        return;
    }
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    v->since = gs_awake_seconds();
    v->frames.socket = socket;
    s->client[s->clients++] = v;
    s->poll[s->clients] = (struct pollfd){socket, POLLIN | POLLRDHUP, 0};
}

/* How long poll may wait before an answer to a request for news is due. */
static int wait_ms(const gs_store_server *s) {
    double left = TICK_MS * 1e-3;
    for (int i = 0; i < s->clients; i++) {
        const client *v = s->client[i];
        if (v->until > 0) left = v->shown < s->pairs ? 0 : fmin(left, v->until - gs_awake_seconds());
    }
    return left > 0 ? (int)(left * 1e3) + 1 : 0;
}

static void *serve(void *argument) {
    gs_store_server *s = argument;
    while (!atomic_load(&s->ends)) {
        const bool any = poll(s->poll, (nfds_t)s->clients + 1, wait_ms(s)) > 0;
        for (int i = s->clients - 1; i >= 0; i--)
            if (!attend(s, s->client[i], any ? s->poll[1 + i].revents : 0)) part(s, i);
        if (any && s->poll[0].revents) welcome(s);
    }
    while (s->clients > 0) part(s, s->clients - 1);
    return NULL;
}

/* ---- listening ---- */

static gs_status cannot_listen(const gs_endpoint *p, int ports, int error) {
    char range[32], here[200];
    if (error == EADDRNOTAVAIL) {
        gs_route_list(here, sizeof here);
        return gs_fail(
            GS_E_USAGE,
            "this is node rank 0, but no address of this machine is %s, where the ranks are to meet; "
            "its addresses are: %s",
            p->host, here);
    }
    if (error != EADDRINUSE)
        return gs_fail(GS_E_USAGE, "cannot listen at %s port %d: %s", p->host, p->port, strerror(error));
    snprintf(range, sizeof range, ports > 1 ? "s %d to %d are" : " %d is", p->port, p->port + ports - 1);
    return gs_fail(
        GS_E_USAGE,
        "port%s in use at %s: by another program, another run, or another node that was started as node "
        "rank 0; choose another port for all nodes",
        range, p->host);
}

static gs_status open_listener(const gs_endpoint *p, int ports, int *listener) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *found;
    int error = getaddrinfo(p->host, "0", &hints, &found);
    if (error != 0)
        return gs_fail(GS_E_USAGE, "cannot resolve '%s', where the ranks are to meet: %s", p->host,
                       gai_strerror(error));
    error = EADDRINUSE;
    for (int i = 0; i < ports && *listener < 0 && error == EADDRINUSE && p->port + i < 65536; i++)
        *listener = gs_route_listen(found, p->port + i, &error);
    freeaddrinfo(found);
    return *listener >= 0 ? GS_OK : cannot_listen(p, ports, error);
}

static void note_where(gs_store_server *s) {
    char address[64], interface[32];
    gs_route_of(s->listener, address, sizeof address, &s->port);
    snprintf(s->where, sizeof s->where, "%s port %d%s", address, s->port,
             gs_route_interface(address, interface, sizeof interface));
}

/* ---- making it ---- */

gs_status gs_store_server_create(const gs_endpoint *p, int ports, const unsigned char key[GS_SECRET],
                                 gs_store_server **out) {
    gs_store_server *s = calloc(1, sizeof *s);
    *out = NULL;
    if (!s) return gs_fail(GS_E_MEMORY, "no memory for the place where the ranks meet");
    s->listener = -1;
    memcpy(s->key, key, GS_SECRET);
    const gs_status status = open_listener(p, ports > 0 ? ports : 1, &s->listener);
    if (status != GS_OK) {
        gs_store_server_free(s);
        return status;
    }
    s->poll[0] = (struct pollfd){s->listener, POLLIN, 0};
    note_where(s);
    *out = s;
    return GS_OK;
}

gs_status gs_store_server_start(gs_store_server *s) {
    s->running = gs_thread_start(&s->thread, serve, s) == 0;
    return s->running ? GS_OK
                      : gs_fail(GS_E_MEMORY, "cannot start a thread for the place where the ranks meet");
}

int gs_store_server_port(const gs_store_server *s) {
    return s->port;
}

const char *gs_store_server_where(const gs_store_server *s) {
    return s->where;
}

long gs_store_server_strangers(gs_store_server *s) {
    return atomic_load(&s->strangers);
}

void gs_store_server_linger(gs_store_server *s, int members, double seconds) {
    const double end = gs_seconds() + seconds;
    while ((atomic_load(&s->came) < members || atomic_load(&s->present) > 0) && gs_seconds() < end)
        gs_sleep(0.01);
}

void gs_store_server_free(gs_store_server *s) {
    if (!s) return;
    atomic_store(&s->ends, true);
    if (s->listener >= 0) shutdown(s->listener, SHUT_RDWR); /* wakes the thread */
    if (s->running) pthread_join(s->thread, NULL);
    if (s->listener >= 0) close(s->listener);
    for (int i = 0; i < s->pairs; i++) free(s->pair[i]);
    free(s->pair);
    free(s);
}
