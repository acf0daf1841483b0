#include "comm/rendezvous/store_server.h"
#include "comm/rendezvous/frames.h"
#include "comm/rendezvous/route.h"
#include "core/clock.h"
#include "core/thread.h"

#include <errno.h>
#include <math.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { STRANGERS = 256, TICK_MS = 100, WHERE = 160, WAIT_MS = 250 /* most that a request for news waits */ };
static const double patience = 2 /* s for a handshake */, ANSWER = 10 /* s for a member to read */;

/* Whoever is connected, with a thread of its own. */
typedef struct client {
    gs_store_server *server;
    pthread_t thread;
    gs_frames frames;         /* its socket is there from the start */
    bool greets, member, bye; /* it has said a hello of this version; has proven itself; is done */
    bool ended;               /* its thread has */
    char rank[GS_STORE_KEY];  /* "rank-1", which it has put; "" */
    struct client *next;
} client;

struct gs_store_server {
    int listener, port;
    unsigned char key[GS_SECRET];
    char where[WHERE];
    bool running;
    pthread_t thread;
    atomic_bool ends;
    pthread_mutex_t lock; /* of all below, and of the clients */
    pthread_cond_t news;
    client *clients; /* the latest first */
    char **pair;     /* [pairs] key, 0, value, 0: in the order in which they came */
    int pairs;
    long strangers, unknowing; /* turned away; and of these, those that greeted as gradsum does */
    int came, present;         /* members: so far, and now */
};

/* ---- what it holds, with the lock held ---- */

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

/* False: no memory. */
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
    pthread_cond_broadcast(&s->news);
    return true;
}

/* ---- one client ---- */

static bool answer(client *v, gs_frame_kind kind, const void *body, size_t bytes) {
    return gs_frame_send(&v->frames, kind, body, bytes, gs_awake_seconds() + ANSWER);
}

static bool put(client *v) {
    gs_store_server *s = v->server;
    const char *key, *value;
    char old[GS_STORE_VALUE];
    if (!gs_frame_pair(&v->frames, &key, &value)) return false;
    pthread_mutex_lock(&s->lock);
    const char *there = find_pair(s, key);
    if (there) snprintf(old, sizeof old, "%s", there);
    const bool stays = there || add_pair(s, key, value); /* no memory: it has to be told somehow */
    pthread_mutex_unlock(&s->lock);
    if (there) return answer(v, GS_FRAME_THERE, old, strlen(old) + 1);
    if (strncmp(key, "rank-", 5) == 0) snprintf(v->rank, sizeof v->rank, "%s", key);
    return stays && answer(v, GS_FRAME_DONE, NULL, 0);
}

/* As many pairs as fit. */
static bool tell_news(client *v) {
    gs_store_server *s = v->server;
    char body[GS_FRAME_BODY];
    size_t used = 0, more;
    int shown = 0, wait = 0;
    if (v->frames.bytes == 0 || sscanf(v->frames.body, "%d %d", &shown, &wait) != 2 || shown < 0)
        return false;
    const struct timespec end = gs_timespec(gs_seconds() + (wait < WAIT_MS ? wait : WAIT_MS) * 1e-3);
    pthread_mutex_lock(&s->lock);
    while (wait > 0 && shown >= s->pairs && !atomic_load(&s->ends) &&
           pthread_cond_clockwait(&s->news, &s->lock, CLOCK_MONOTONIC, &end) == 0)
        continue;
    for (; shown < s->pairs && used + (more = pair_bytes(s->pair[shown])) <= sizeof body; used += more)
        memcpy(body + used, s->pair[shown++], more);
    pthread_mutex_unlock(&s->lock);
    return answer(v, GS_FRAME_PAIRS, body, used);
}

static bool tell_strangers(client *v) {
    gs_store_server *s = v->server;
    char text[240] = "";
    pthread_mutex_lock(&s->lock);
    const long all = s->strangers, unknowing = s->unknowing;
    pthread_mutex_unlock(&s->lock);
    if (unknowing > 0)
        snprintf(text, sizeof text,
                 "; %ld call%s turned away there, of gradsum with another secret: it must be the same on all "
                 "machines",
                 unknowing, unknowing == 1 ? " was" : "s were");
    else if (all > 0)
        snprintf(text, sizeof text, "; %ld stranger%s turned away there", all, all == 1 ? " was" : "s were");
    return answer(v, GS_FRAME_NUMBER, text, strlen(text) + 1);
}

/* Its requests, until it leaves. */
static void serve_member(client *v) {
    bool stays = true;
    while (stays && !v->bye && gs_frame_receive(&v->frames, INFINITY)) {
        const gs_frame_kind kind = v->frames.kind;
        v->bye = kind == GS_FRAME_BYE;
        stays = kind == GS_FRAME_PUT    ? put(v)
                : kind == GS_FRAME_NEWS ? tell_news(v)
                                        : kind == GS_FRAME_COUNT && tell_strangers(v);
    }
}

/* The store's side of the handshake. */
static bool handshake(client *v) {
    static char ok = GS_HANDSHAKE_OK;
    gs_store_server *s = v->server;
    const double until = gs_awake_seconds() + patience;
    const int socket = v->frames.socket;
    gs_hello_answer mine;
    gs_hello theirs;
    unsigned char proof[GS_MAC], wanted[GS_MAC];
    if (!gs_socket_move(socket, false, &theirs, sizeof theirs, until) ||
        !gs_hello_fits(&theirs, GS_STORE_NUMBER) || theirs.line != GS_STORE_LINE ||
        gs_hello_make(GS_STORE_NUMBER, theirs.from, GS_STORE_LINE, &mine.hello) != GS_OK)
        return false;
    pthread_mutex_lock(&s->lock);
    v->greets = true;
    pthread_mutex_unlock(&s->lock);
    gs_handshake_proof(s->key, s->key, GS_STORE_NUMBER, &theirs, &mine.hello, mine.proof);
    gs_handshake_proof(s->key, s->key, theirs.from, &theirs, &mine.hello, wanted);
    gs_frames_begin(&v->frames, s->key, &theirs, &mine.hello, false);
    return gs_socket_move(socket, true, &mine, sizeof mine, until) &&
           gs_socket_move(socket, false, proof, sizeof proof, until) && gs_mac_equal(wanted, proof) &&
           gs_socket_move(socket, true, &ok, 1, until);
}

/* One that has gone without a word is told to the others. */
static void part(client *v) {
    gs_store_server *s = v->server;
    char key[GS_STORE_KEY + 8];
    if (v->rank[0] && !v->bye) {
        snprintf(key, sizeof key, "gone-%s", v->rank + 5);
        if (!find_pair(s, key)) add_pair(s, key, "");
    }
    s->present -= v->member;
    s->strangers += !v->member;
    s->unknowing += !v->member && v->greets;
    close(v->frames.socket);
    v->ended = true;
}

static void *serve_client(void *argument) {
    client *v = argument;
    gs_store_server *s = v->server;
    const bool proven = handshake(v);
    pthread_mutex_lock(&s->lock);
    v->member = proven;
    s->came += proven;
    s->present += proven;
    pthread_mutex_unlock(&s->lock);
    if (proven) serve_member(v);
    pthread_mutex_lock(&s->lock);
    part(v);
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

/* ---- all of them: only the server's thread changes the list ---- */

/* Free those whose threads have ended; all: end them first. */
static void free_ended_clients(gs_store_server *s, bool all) {
    for (client **at = &s->clients, *v; (v = *at);) {
        pthread_mutex_lock(&s->lock);
        if (all && !v->ended) shutdown(v->frames.socket, SHUT_RDWR);
        const bool ended = all || v->ended;
        pthread_mutex_unlock(&s->lock);
        if (ended) {
            pthread_join(v->thread, NULL);
            *at = v->next;
            free(v);
        } else {
            at = &v->next;
        }
    }
}

/* Is there room for one more stranger? If not, the one that came first leaves. */
static bool has_room(gs_store_server *s) {
    const client *first = NULL;
    int strangers = 0;
    pthread_mutex_lock(&s->lock);
    for (const client *v = s->clients; v; v = v->next) {
        if (v->member || v->ended) continue;
        strangers++;
        first = v;
    }
    if (strangers >= STRANGERS) shutdown(first->frames.socket, SHUT_RDWR);
    pthread_mutex_unlock(&s->lock);
    return strangers < STRANGERS;
}

static void welcome(gs_store_server *s, int socket) {
    int yes = 1;
    client *v = calloc(1, sizeof *v);
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    if (v) {
        v->server = s;
        v->frames.socket = socket;
    }
    if (v && gs_thread_start(&v->thread, serve_client, v) == 0) {
        v->next = s->clients;
        s->clients = v;
        return;
    }
    free(v); /* no memory: it may call again */
    close(socket);
}

static void *serve(void *argument) {
    gs_store_server *s = argument;
    while (!atomic_load(&s->ends)) {
        struct pollfd p = {s->listener, POLLIN, 0};
        const bool calls = poll(&p, 1, TICK_MS) > 0;
        free_ended_clients(s, false);
        const int socket =
            calls && has_room(s) ? accept4(s->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK) : -1;
        if (socket >= 0)
            welcome(s, socket);
        else if (calls)
            gs_sleep(1e-3); /* there is no room yet, or no descriptor is left: those who call stay there */
    }
    free_ended_clients(s, true);
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
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->news, NULL);
    memcpy(s->key, key, GS_SECRET);
    gs_status status = open_listener(p, ports > 0 ? ports : 1, &s->listener);
    if (status != GS_OK) {
        gs_store_server_free(s);
        return status;
    }
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
    pthread_mutex_lock(&s->lock);
    const long strangers = s->strangers;
    pthread_mutex_unlock(&s->lock);
    return strangers;
}

void gs_store_server_linger(gs_store_server *s, int members, double seconds) {
    const double end = gs_seconds() + seconds;
    for (bool all = false; !all && gs_seconds() < end;) {
        pthread_mutex_lock(&s->lock);
        all = s->came >= members && s->present == 0;
        pthread_mutex_unlock(&s->lock);
        if (!all) gs_sleep(0.01);
    }
}

void gs_store_server_free(gs_store_server *s) {
    if (!s) return;
    atomic_store(&s->ends, true);
    if (s->listener >= 0) shutdown(s->listener, SHUT_RDWR); /* wakes the thread */
    if (s->running) pthread_join(s->thread, NULL);
    if (s->listener >= 0) close(s->listener);
    for (int i = 0; i < s->pairs; i++) free(s->pair[i]);
    free(s->pair);
    pthread_cond_destroy(&s->news);
    pthread_mutex_destroy(&s->lock);
    free(s);
}
