#include "comm/meet/store_server.h"
#include "comm/meet/frames.h"
#include "comm/meet/route.h"
#include "core/clock.h"
#include "core/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { STRANGERS = 64, MEMBERS = 4096 + 64, TICK_MS = 100, WHERE = 160 };
static const double patience = 2; /* s with a stranger, and with a member that does not read */

typedef enum stage { NOBODY, HELLO, PROOF, MEMBER } stage;

typedef struct visitor {
    stage stage;
    int socket;
    int told;                /* all pairs before this number */
    double since;            /* its coming; of a member: since when it does not read */
    bool bye, greets;        /* greets: it has said a hello of this version */
    char rank[GS_STORE_KEY]; /* "rank-1", which it has put; "" */
    gs_hello mine, theirs;
    gs_frames frames;
    size_t in_bytes, out_bytes;
    unsigned char in[GS_FRAME_MOST], out[4 * GS_FRAME_MOST];
} visitor;

struct gs_store_server {
    int listener, wake[2], port;
    unsigned char key[GS_SECRET];
    char where[WHERE];
    bool running;
    pthread_t thread;
    visitor **visitor;   /* [visitors] */
    struct pollfd *poll; /* [places + 2] */
    int visitors, places;
    char **pair; /* [pairs] key, 0, value, 0: in the order in which they came */
    int pairs, pair_places;
    atomic_long strangers, unknowing; /* turned away; and of these, those that greeted as gradsum does */
    atomic_int came, present;         /* members: so far, and now */
};

/* ---- what it holds ---- */

/* The value of this key; NULL: there is none. */
static const char *find_pair(const gs_store_server *s, const char *key) {
    for (int i = 0; i < s->pairs; i++)
        if (strcmp(s->pair[i], key) == 0) return s->pair[i] + strlen(key) + 1;
    return NULL;
}

/* False: no memory. */
static bool add_pair(gs_store_server *s, const char *key, const char *value) {
    const size_t k = strlen(key) + 1, v = strlen(value) + 1;
    if (s->pairs == s->pair_places) {
        const int wanted = 2 * s->pair_places + 64;
        char **more = realloc(s->pair, (size_t)wanted * sizeof *more);
        if (!more) return false;
        s->pair = more;
        s->pair_places = wanted;
    }
    char *pair = malloc(k + v);
    if (!pair) return false;
    memcpy(pair, key, k);
    memcpy(pair + k, value, v);
    s->pair[s->pairs++] = pair;
    return true;
}

/* ---- one visitor ---- */

typedef enum verdict { STAYS, LEAVES, IS_WRONG } verdict;

static void drop(gs_store_server *s, visitor *v) {
    if (v->stage == HELLO || v->stage == PROOF) {
        atomic_fetch_add(&s->strangers, 1);
        if (v->greets) atomic_fetch_add(&s->unknowing, 1);
    }
    if (v->stage == MEMBER) {
        if (v->rank[0] && !v->bye) {
            char key[GS_STORE_KEY + 8];
            snprintf(key, sizeof key, "gone-%s", v->rank + 5);
            if (!find_pair(s, key)) add_pair(s, key, "");
        }
        atomic_fetch_sub(&s->present, 1);
    }
    close(v->socket);
    v->stage = NOBODY;
}

static bool has_room(const visitor *v) {
    return v->out_bytes + GS_FRAME_MOST <= sizeof v->out;
}

static void say(visitor *v, gs_frame_kind kind, const char *body, size_t bytes) {
    v->out_bytes += gs_frame_write(&v->frames, kind, body, bytes, v->out + v->out_bytes);
}

static verdict put(gs_store_server *s, visitor *v, const char *body, size_t bytes) {
    const char *key, *value;
    if (!gs_frame_pair(body, bytes, &key, &value)) return IS_WRONG;
    const char *old = find_pair(s, key);
    if (old) {
        say(v, GS_FRAME_THERE, old, strlen(old) + 1);
        return STAYS;
    }
    if (!add_pair(s, key, value)) return IS_WRONG; /* no memory: it has to be told somehow */
    if (strncmp(key, "rank-", 5) == 0) snprintf(v->rank, sizeof v->rank, "%s", key);
    say(v, GS_FRAME_DONE, NULL, 0);
    return STAYS;
}

static void strangers_text(const gs_store_server *s, char *text, size_t size) {
    const long all = atomic_load(&s->strangers), unknowing = atomic_load(&s->unknowing);
    text[0] = '\0';
    if (unknowing > 0)
        snprintf(text, size,
                 "; %ld call%s turned away there, of gradsum with another secret: it must be the same on all "
                 "machines",
                 unknowing, unknowing == 1 ? " was" : "s were");
    else if (all > 0)
        snprintf(text, size, "; %ld stranger%s turned away there", all, all == 1 ? " was" : "s were");
}

static verdict obey(gs_store_server *s, visitor *v, gs_frame_kind kind, const char *body, size_t bytes) {
    char text[240];
    switch (kind) {
    case GS_FRAME_PUT:
        return put(s, v, body, bytes);
    case GS_FRAME_COUNT:
        strangers_text(s, text, sizeof text);
        say(v, GS_FRAME_NUMBER, text, strlen(text) + 1);
        return STAYS;
    case GS_FRAME_BYE:
        v->bye = true;
        return LEAVES;
    default:
        return IS_WRONG;
    }
}

static bool send_now(const visitor *v, const void *words, size_t bytes) {
    return send(v->socket, words, bytes, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)bytes;
}

static verdict answer_hello(const gs_store_server *s, visitor *v) {
    struct {
        gs_hello hello;
        unsigned char proof[GS_PROOF];
    } answer;
    memcpy(&v->theirs, v->in, sizeof v->theirs);
    if (!gs_hello_fits(&v->theirs, GS_STORE_NUMBER) || v->theirs.line != GS_STORE_LINE ||
        gs_hello_make(GS_STORE_NUMBER, v->theirs.from, GS_STORE_LINE, &v->mine) != GS_OK)
        return IS_WRONG;
    v->greets = true;
    answer.hello = v->mine;
    gs_proof_make(s->key, s->key, GS_STORE_NUMBER, &v->theirs, &v->mine, answer.proof);
    v->stage = PROOF;
    return send_now(v, &answer, sizeof answer) ? STAYS : IS_WRONG;
}

static verdict answer_proof(gs_store_server *s, visitor *v) {
    static const char nod = GS_PROOF_NOD;
    unsigned char wanted[GS_PROOF];
    gs_proof_make(s->key, s->key, v->theirs.from, &v->theirs, &v->mine, wanted);
    if (!gs_proof_equal(wanted, v->in) || !send_now(v, &nod, 1)) return IS_WRONG;
    gs_frames_begin(&v->frames, s->key, &v->theirs, &v->mine, 0);
    v->stage = MEMBER;
    v->since = 0;
    atomic_fetch_add(&s->came, 1);
    atomic_fetch_add(&s->present, 1);
    return STAYS;
}

/* Use up the first message of what has come in; *used 0: it is not complete. */
static verdict take_one(gs_store_server *s, visitor *v, size_t *used) {
    gs_frame_kind kind;
    const char *body;
    size_t bytes;
    *used = 0;
    if (v->stage != MEMBER) {
        const size_t wanted = v->stage == HELLO ? sizeof(gs_hello) : GS_PROOF;
        if (v->in_bytes < wanted) return STAYS;
        *used = wanted;
        return v->stage == HELLO ? answer_hello(s, v) : answer_proof(s, v);
    }
    if (!has_room(v)) return STAYS; /* it must read first */
    const long length = gs_frame_read(&v->frames, v->in, v->in_bytes, &kind, &body, &bytes);
    if (length < 0) return IS_WRONG;
    *used = (size_t)length;
    return length == 0 ? STAYS : obey(s, v, kind, body, bytes);
}

static void take_all(gs_store_server *s, visitor *v) {
    for (size_t used = 1; used > 0;) {
        if (take_one(s, v, &used) != STAYS) {
            drop(s, v);
            return;
        }
        memmove(v->in, v->in + used, v->in_bytes - used);
        v->in_bytes -= used;
    }
}

/* As much as there is, but not forever: a flood from one must not keep the others from their turn. */
static void hear(gs_store_server *s, visitor *v) {
    for (int turn = 0; turn < 8 && v->stage != NOBODY && v->in_bytes < sizeof v->in; turn++) {
        const ssize_t n = recv(v->socket, v->in + v->in_bytes, sizeof v->in - v->in_bytes, MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
        if (n <= 0) {
            drop(s, v);
            return;
        }
        v->in_bytes += (size_t)n;
        take_all(s, v);
    }
}

/* Tell a member what is new, as far as it reads. */
static void tell(gs_store_server *s, visitor *v) {
    for (bool more = true; more && v->stage == MEMBER;) {
        while (has_room(v) && v->told < s->pairs) {
            const char *pair = s->pair[v->told++];
            const size_t key = strlen(pair) + 1;
            say(v, GS_FRAME_ENTRY, pair, key + strlen(pair + key) + 1);
        }
        if (v->out_bytes == 0) return;
        const ssize_t n = send(v->socket, v->out, v->out_bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
            if (v->since <= 0) v->since = gs_seconds();
            if (gs_seconds() - v->since > 5 * patience) drop(s, v);
            return;
        }
        if (n <= 0) {
            drop(s, v);
            return;
        }
        v->since = 0;
        memmove(v->out, v->out + n, v->out_bytes - (size_t)n);
        v->out_bytes -= (size_t)n;
        take_all(s, v); /* what had no room before */
        more = v->stage == MEMBER && (v->out_bytes > 0 || v->told < s->pairs);
    }
}

/* ---- all of them ---- */

static void forget_those_who_left(gs_store_server *s) {
    int kept = 0;
    for (int i = 0; i < s->visitors; i++) {
        if (s->visitor[i]->stage == NOBODY)
            free(s->visitor[i]);
        else
            s->visitor[kept++] = s->visitor[i];
    }
    s->visitors = kept;
}

static bool make_place(gs_store_server *s) {
    if (s->visitors < s->places) return true;
    const size_t wanted = (size_t)s->places * 2 + 16;
    visitor **v = realloc(s->visitor, wanted * sizeof(visitor *));
    if (v) s->visitor = v;
    struct pollfd *p = v ? realloc(s->poll, (wanted + 2) * sizeof *p) : NULL;
    if (p) s->poll = p;
    if (!p) return false;
    s->places = (int)wanted;
    return true;
}

/* Where there are too many, or no descriptor is left, the oldest silent stranger goes, so that a flood of these pushes
 * out no member that has greeted. False: some came after `now` and had no turn, and all others have greeted. */
static bool drop_oldest_stranger(gs_store_server *s, double now) {
    visitor *silent = NULL, *fresh = NULL, *greeted = NULL;
    for (int i = s->visitors - 1; i >= 0; i--) { /* they are in the order of their coming */
        visitor *v = s->visitor[i], **of = v->stage == PROOF ? &greeted : v->since < now ? &silent : &fresh;
        if (v->stage == HELLO || v->stage == PROOF) *of = v;
    }
    visitor *goes = silent || fresh ? silent : greeted;
    if (goes) drop(s, goes);
    forget_those_who_left(s);
    return goes != NULL;
}

static void welcome(gs_store_server *s) {
    const double now = gs_seconds();
    for (int turn = 0; turn < STRANGERS; turn++) {
        int yes = 1, strangers = 0;
        int socket = accept4(s->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (socket < 0 && (errno == EMFILE || errno == ENFILE) && drop_oldest_stranger(s, now)) continue;
        if (socket < 0) {
            if (errno == EMFILE || errno == ENFILE) gs_nap(0.05); /* those who call stay there */
            return;
        }
        for (int i = 0; i < s->visitors; i++) strangers += s->visitor[i]->stage != MEMBER;
        const bool more = strangers < STRANGERS || drop_oldest_stranger(s, now);
        visitor *v = s->visitors < MEMBERS && make_place(s) ? malloc(sizeof *v) : NULL;
        if (!v) {
            close(socket);
            atomic_fetch_add(&s->strangers, 1);
            return;
        }
        setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
        memset(v, 0, offsetof(visitor, in));
        v->stage = HELLO;
        v->socket = socket;
        v->since = gs_seconds();
        s->visitor[s->visitors++] = v;
        if (!more) return; /* they have their turn first */
    }
}

static void *serve(void *argument) {
    gs_store_server *s = argument;
    while (make_place(s)) {
        const int here = s->visitors;
        s->poll[0] = (struct pollfd){s->wake[0], POLLIN, 0};
        s->poll[1] = (struct pollfd){s->listener, POLLIN, 0};
        for (int i = 0; i < here; i++) {
            const visitor *v = s->visitor[i];
            s->poll[2 + i] =
                (struct pollfd){v->socket, (short)(POLLIN | (v->out_bytes > 0 ? POLLOUT : 0)), 0};
        }
        const int ready = poll(s->poll, (nfds_t)here + 2, TICK_MS);
        if (ready < 0 && errno != EINTR) gs_nap(0.05);
        if (s->poll[0].revents) break;
        const double now = gs_seconds();
        for (int i = 0; i < here; i++) {
            visitor *v = s->visitor[i];
            if (ready > 0 && s->poll[2 + i].revents & (POLLIN | POLLHUP | POLLERR)) hear(s, v);
            if (v->stage != MEMBER && v->stage != NOBODY && now - v->since > patience) drop(s, v);
        }
        if (ready > 0 && s->poll[1].revents) welcome(s);
        for (int i = 0; i < s->visitors; i++) tell(s, s->visitor[i]);
        forget_those_who_left(s);
    }
    return argument;
}

/* ---- listening ---- */

/* Does a run with this key meet at the port that is in use? Then its processes are told, so that all of them fail with
 * the same sentence, as far as they have not met yet. */
static bool is_met(const gs_meet_place *place, const unsigned char key[GS_SECRET]) {
    gs_store *other;
    bool there;
    char fault[GS_STORE_VALUE];
    snprintf(fault, sizeof fault,
             "-1 %d two nodes were started with node rank 0, or two runs meet at %s port %d: give each node "
             "a rank, and "
             "each run a port, of its own",
             (int)GS_E_USAGE, place->host, place->port);
    if (gs_store_open(&(gs_rendezvous){.timeout = 1, .ports = 1}, place, key, gs_awake_seconds() + 0.5,
                      &other) != GS_OK)
        return false;
    gs_store_put(other, "fault", fault, &there);
    gs_store_leave(other);
    gs_store_free(other);
    return true;
}

static gs_status cannot_listen(const gs_meet_place *p, int ports, const unsigned char key[GS_SECRET],
                               int error) {
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
    if (ports == 1 && is_met(p, key))
        return gs_fail(
            GS_E_USAGE,
            "port %d at %s is in use: a run of gradsum with the same secret meets there already; either "
            "two nodes were started with node rank 0, or the runs need different ports",
            p->port, p->host);
    return gs_fail(GS_E_USAGE, "port%s in use at %s; choose another port for all nodes", range, p->host);
}

static gs_status open_listener(const gs_meet_place *p, int ports, const unsigned char key[GS_SECRET],
                               int *listener) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *found;
    int error = getaddrinfo(p->host, "0", &hints, &found);
    if (error != 0)
        return gs_fail(GS_E_USAGE, "cannot resolve '%s', where the ranks are to meet: %s", p->host,
                       gai_strerror(error));
    error = EADDRINUSE;
    for (int i = 0; i < ports && *listener < 0 && error == EADDRINUSE && p->port + i < 65536; i++)
        *listener = gs_route_listen(found, p->port + i, &error);
    freeaddrinfo(found);
    return *listener >= 0 ? GS_OK : cannot_listen(p, ports, key, error);
}

static void note_where(int listener, int *port, char where[WHERE]) {
    char address[64], interface[32];
    gs_route_of(listener, address, sizeof address, port);
    snprintf(where, WHERE, "%s port %d%s", address, *port,
             gs_route_interface(address, interface, sizeof interface));
}

/* ---- making it ---- */

gs_status gs_store_server_create(const gs_meet_place *p, int ports, const unsigned char key[GS_SECRET],
                                 gs_store_server **out) {
    gs_store_server *s = calloc(1, sizeof *s);
    *out = NULL;
    if (!s) return gs_fail(GS_E_MEMORY, "no memory for the place where the ranks meet");
    s->listener = s->wake[0] = s->wake[1] = -1;
    memcpy(s->key, key, GS_SECRET);
    gs_status status = open_listener(p, ports > 0 ? ports : 1, key, &s->listener);
    if (status == GS_OK) note_where(s->listener, &s->port, s->where);
    if (status == GS_OK && pipe2(s->wake, O_CLOEXEC) != 0)
        status = gs_fail(GS_E_FILE, "cannot make a pipe: %s", strerror(errno));
    if (status != GS_OK) {
        gs_store_server_free(s);
        return status;
    }
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

void gs_store_server_where(const gs_store_server *s, char *text, size_t size) {
    snprintf(text, size, "%s", s->where);
}

long gs_store_server_strangers(const gs_store_server *s) {
    return atomic_load(&s->strangers);
}

void gs_store_server_linger(gs_store_server *s, int members, double seconds) {
    const double end = gs_seconds() + seconds;
    while (gs_seconds() < end && (atomic_load(&s->came) < members || atomic_load(&s->present) > 0))
        gs_nap(0.01);
}

void gs_store_server_free(gs_store_server *s) {
    if (!s) return;
    if (s->running && write(s->wake[1], "", 1) == 1) pthread_join(s->thread, NULL);
    for (int i = 0; i < s->visitors; i++) close(s->visitor[i]->socket), free(s->visitor[i]);
    for (int i = 0; i < s->pairs; i++) free(s->pair[i]);
    free(s->pair);
    if (s->listener >= 0) close(s->listener);
    for (int i = 0; i < 2; i++)
        if (s->wake[i] >= 0) close(s->wake[i]);
    free(s->visitor);
    free(s->poll);
    free(s);
}
