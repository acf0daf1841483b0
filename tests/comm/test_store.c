/* The rendezvous store: what it holds, and whose messages it accepts. */
#include "tests/support/test.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "comm/rendezvous/frames.h"
#include "comm/rendezvous/store_server.h"
#include "core/clock.h"

/* ---- members ---- */

typedef struct heard {
    char all[4000];
} heard;

static gs_status hear(void *context, const char *key, const char *value) {
    heard *h = context;
    const size_t used = strlen(h->all);
    snprintf(h->all + used, sizeof h->all - used, "%s=%s;", key, value);
    return GS_OK;
}

/* Polls the store until it holds `wanted`, for at most 300 s. */
static void assert_heard(gs_store *s, heard *h, const char *wanted) {
    for (double end = gs_seconds() + 300; !strstr(h->all, wanted) && gs_seconds() < end;)
        assert_ok(gs_store_poll(s, 0.05, hear, h));
    if (!strstr(h->all, wanted)) fail_msg("wanted '%s' in: %s", wanted, h->all);
}

static gs_store_server *new_server(const unsigned char key[GS_SECRET]) {
    gs_endpoint p;
    gs_store_server *s;
    assert_ok(gs_endpoint_read("tcp", &p));
    assert_ok(gs_store_server_create(&p, 1, key, &s));
    assert_ok(gs_store_server_start(s));
    return s;
}

static gs_status join(const gs_store_server *server, int rank, const unsigned char key[GS_SECRET],
                      double seconds, gs_store **out) {
    gs_endpoint p;
    gs_rendezvous r = {.rank = rank, .size = 3, .timeout = seconds};
    assert_ok(gs_endpoint_read("tcp", &p));
    p.port = gs_store_server_port(server);
    return gs_store_open(&r, &p, key, out);
}

static void put(gs_store *s, const char *key, const char *text, const char *is_there) {
    char value[GS_STORE_VALUE];
    bool there;
    snprintf(value, sizeof value, "%s", text);
    assert_ok(gs_store_put(s, key, value, &there));
    assert_int_equal(there, is_there != NULL);
    if (is_there) assert_string_equal(value, is_there);
}

TEST(a_store_tells_all_what_each_has_put) {
    const unsigned char key[GS_SECRET] = {1, 2, 3};
    gs_store_server *server = new_server(key);
    gs_store *s[3];
    heard h[3] = {{""}};
    for (int i = 0; i < 2; i++) assert_ok(join(server, i, key, 10, &s[i]));
    put(s[0], "rank-0", "zero", NULL);
    put(s[1], "rank-1", "one", NULL);
    put(s[1], "rank-0", "another", "zero"); /* an existing entry is not replaced */
    assert_ok(join(server, 2, key, 10, &s[2]));
    for (int i = 0; i < 3; i++) assert_heard(s[i], &h[i], "rank-0=zero;rank-1=one;");
    assert_string_equal(gs_store_address(s[2]), "127.0.0.1");
    gs_store_leave(s[0], true); /* this one says that it leaves */
    gs_store_free(s[0]);
    gs_store_free(s[1]); /* this one disappears without a message */
    assert_heard(s[2], &h[2], "gone-1=;");
    assert_null(strstr(h[2].all, "gone-0"));
    gs_store_free(s[2]);
    assert_int_equal(gs_store_server_strangers(server), 0);
    gs_store_server_free(server);
}

static gs_status count(void *context, const char *key, const char *value) {
    (void)key, (void)value;
    (*(int *)context)++;
    return GS_OK;
}

/* A member that seldom polls must not fall behind those that add entries. */
TEST(a_look_hears_all_that_has_come) {
    enum { MANY = 200 };
    const unsigned char key[GS_SECRET] = {3};
    gs_store_server *server = new_server(key);
    gs_store *s[2];
    int heard_of = 0, looks = 0;
    for (int i = 0; i < 2; i++) assert_ok(join(server, i, key, 10, &s[i]));
    for (int i = 0; i < MANY; i++) {
        const char *name = gs_test_format("entry-%d", i);
        put(s[0], name, "", NULL);
    }
    for (; heard_of < MANY && looks < 2 * MANY; looks++) assert_ok(gs_store_poll(s[1], 1, count, &heard_of));
    assert_int_equal(heard_of, MANY);
    if (looks > MANY / 2) fail_msg("%d looks for %d existing entries", looks, MANY);
    for (int i = 0; i < 2; i++) gs_store_free(s[i]);
    gs_store_server_free(server);
}

/* ---- strangers ---- */

static int call(int port) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(s >= 0);
    const struct timeval patience = {.tv_sec = 5}; /* a store that accepted a stranger would never hang up */
    setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    assert_int_equal(connect(s, (const struct sockaddr *)&at, sizeof at), 0);
    return s;
}

/* Calls the store and, by kind: stays silent; hangs up; sends nonsense, hello with a wrong proof, or half a hello. */
static int come_as_stranger(int port, int kind) {
    char nonsense[3000];
    gs_hello hello;
    int s = call(port);
    memset(nonsense, 0x5a, sizeof nonsense);
    assert_ok(gs_hello_make(1, GS_STORE_NUMBER, GS_STORE_LINE, &hello));
    if (kind == 1) shutdown(s, SHUT_RDWR);
    if (kind == 2) send(s, nonsense, sizeof nonsense, MSG_NOSIGNAL);
    if (kind >= 3) send(s, &hello, kind == 3 ? sizeof hello : sizeof hello / 2, MSG_NOSIGNAL);
    if (kind == 3) send(s, nonsense, GS_MAC, MSG_NOSIGNAL);
    return s;
}

TEST(strangers_hold_up_nobody) {
    enum { MANY = 200 };
    const unsigned char key[GS_SECRET] = {9}, wrong[GS_SECRET] = {8};
    gs_store_server *server = new_server(key);
    gs_store *s, *never;
    heard h = {""};
    char text[300];
    int stranger[MANY];
    for (int i = 0; i < MANY; i++) stranger[i] = come_as_stranger(gs_store_server_port(server), i % 5);
    assert_ok(join(server, 1, key, 20, &s));
    put(s, "rank-1", "here", NULL);
    assert_heard(s, &h, "rank-1=here;");
    assert_fails(GS_E_PEER, "does not belong to this run", join(server, 2, wrong, 0.01, &never));
    for (int i = 0; i < MANY; i++) close(stranger[i]);
    for (int i = 0; i < 30000 && gs_store_server_strangers(server) <= MANY; i++) usleep(10000);
    assert_true(gs_store_server_strangers(server) > MANY);
    gs_store_strangers(s, text, sizeof text);
    assert_has(text, "turned away there, of gradsum with another secret");
    assert_ok(gs_store_poll(s, 0.05, hear, &h));
    assert_string_equal(h.all, "rank-1=here;"); /* nothing from strangers was accepted */
    gs_store_free(s);
    gs_store_server_free(server);
}

static void take(int socket, void *to, size_t bytes) {
    for (size_t got = 0; got < bytes;) {
        const ssize_t n = recv(socket, (char *)to + got, bytes - got, 0);
        if (n <= 0) fail_msg("the store hung up after %zu of %zu bytes", got, bytes);
        got += (size_t)n;
    }
}

/* A crowd of silent callers does not push out a member that has sent its hello. */
TEST(a_crowd_pushes_out_no_member) {
    enum { MANY = 300 };
    const unsigned char key[GS_SECRET] = {3};
    gs_store_server *server = new_server(key);
    gs_hello_answer answer;
    gs_hello mine;
    unsigned char proof[GS_MAC];
    char ok;
    int crowd[MANY], member = call(gs_store_server_port(server));
    assert_ok(gs_hello_make(1, GS_STORE_NUMBER, GS_STORE_LINE, &mine));
    assert_int_equal(send(member, &mine, sizeof mine, MSG_NOSIGNAL), sizeof mine);
    take(member, &answer, sizeof answer);
    for (int i = 0; i < MANY; i++) crowd[i] = call(gs_store_server_port(server));
    assert_true(gs_handshake_prove(&mine, &answer, key, key, proof));
    assert_int_equal(send(member, proof, sizeof proof, MSG_NOSIGNAL), sizeof proof);
    take(member, &ok, 1);
    assert_int_equal(ok, GS_HANDSHAKE_OK);
    for (int i = 0; i < MANY; i++) close(crowd[i]);
    close(member);
    gs_store_server_free(server);
}

/* How often threads of this process went to sleep. The calling thread only yields. */
static long sleeps(void) {
    struct rusage u;
    sched_yield();
    getrusage(RUSAGE_SELF, &u);
    return u.ru_nvcsw;
}

/* If no descriptor is left for a caller, the caller waits, and the store does not retry constantly. */
TEST(without_descriptors_the_store_rests) {
    const unsigned char key[GS_SECRET] = {7};
    gs_store_server *server = new_server(key);
    gs_store *s;
    struct rlimit before, few;
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)gs_store_server_port(server))};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int caller = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    few = before;
    few.rlim_cur = (rlim_t)caller + 1; /* all lower descriptors are in use */
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    const int wrong = connect(caller, (const struct sockaddr *)&at, sizeof at);
    const double end = gs_seconds() + 100;
    const long begin = sleeps();
    while (sleeps() < begin + 5 && gs_seconds() < end) continue;
    const bool rests = sleeps() >= begin + 5;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(wrong, 0);
    assert_true(rests);
    assert_ok(join(server, 1, key, 10, &s));
    gs_store_free(s);
    close(caller);
    gs_store_server_free(server);
}

/* Forwards bytes between a member and the store, and records what the member sends. */
static size_t overhear(int member, int store, unsigned char *said, size_t size) {
    size_t kept = 0;
    unsigned char one[4096];
    for (;;) {
        struct pollfd p[2] = {{member, POLLIN, 0}, {store, POLLIN, 0}};
        if (poll(p, 2, 10000) <= 0) fail_msg("nothing was sent");
        for (int i = 0; i < 2; i++) {
            ssize_t n = p[i].revents ? recv(p[i].fd, one, sizeof one, 0) : -1;
            if (n == 0) return kept;
            if (n < 0) continue;
            if (i == 0 && kept + (size_t)n <= size) memcpy(said + kept, one, (size_t)n);
            if (i == 0) kept += (size_t)n;
            send(i == 0 ? store : member, one, (size_t)n, MSG_NOSIGNAL);
        }
    }
}

/* An eavesdropper records everything that a member sends, and replays it. */
TEST(what_was_overheard_is_useless) {
    const unsigned char key[GS_SECRET] = {4};
    unsigned char said[20000], answer[200];
    gs_store_server *server = new_server(key);
    gs_store *s;
    heard h = {""};
    int ends[2], one = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t length = sizeof at;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(bind(one, (const struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(one, 1), 0);
    assert_int_equal(getsockname(one, (struct sockaddr *)&at, &length), 0);
    const pid_t child = fork(); /* the member, which reaches the store through the eavesdropper */
    if (child == 0) {
        gs_endpoint p;
        bool there;
        char value[GS_STORE_VALUE] = "overheard";
        gs_status status = gs_endpoint_read("tcp", &p);
        p.port = ntohs(at.sin_port);
        if (status == GS_OK) status = gs_store_open(&(gs_rendezvous){.rank = 1, .timeout = 10}, &p, key, &s);
        if (status == GS_OK) status = gs_store_put(s, "rank-1", value, &there);
        if (status == GS_OK) gs_store_leave(s, true);
        _exit(status != GS_OK);
    }
    ends[0] = accept(one, NULL, NULL);
    ends[1] = call(gs_store_server_port(server));
    const size_t heard_bytes = overhear(ends[0], ends[1], said, sizeof said);
    assert_true(heard_bytes > sizeof(gs_hello) + GS_MAC && heard_bytes <= sizeof said);
    const int again = call(gs_store_server_port(server));
    assert_int_equal(send(again, said, heard_bytes, MSG_NOSIGNAL), heard_bytes);
    size_t got = 0; /* the answer: a hello with a new nonce, and a proof, but never an ok for the old proof */
    for (ssize_t n; (n = recv(again, answer + got, sizeof answer - got, 0)) > 0;) got += (size_t)n;
    assert_true(got <= sizeof(gs_hello) + GS_MAC);
    for (int i = 0; i < 30000 && gs_store_server_strangers(server) < 1; i++) usleep(10000);
    assert_int_equal(gs_store_server_strangers(server), 1);
    assert_ok(join(server, 2, key, 10, &s));
    put(s, "rank-2", "", NULL);
    assert_heard(s, &h, "rank-2=;");
    assert_string_equal(h.all, "rank-1=overheard;rank-2=;"); /* rank-1 only once */
    gs_store_free(s);
    close(again), close(one), close(ends[0]), close(ends[1]);
    gs_store_server_free(server);
}

TEST(a_port_in_use_is_named) {
    const unsigned char key[GS_SECRET] = {5};
    gs_store_server *server = new_server(key), *second;
    gs_endpoint p;
    assert_ok(gs_endpoint_read("tcp", &p));
    p.port = gs_store_server_port(server);
    assert_fails(GS_E_USAGE, "is in use at 127.0.0.1: by another program, another run, or another node",
                 gs_store_server_create(&p, 1, key, &second));
    assert_null(second);
    assert_ok(gs_store_server_create(&p, 16, key, &second)); /* may use 16 ports: takes the next free one */
    assert_true(gs_store_server_port(second) > p.port && gs_store_server_port(second) < p.port + 16);
    gs_store_server_free(second);
    snprintf(p.host, sizeof p.host, "192.0.2.77");
    assert_fails(GS_E_USAGE, "no address of this machine is 192.0.2.77",
                 gs_store_server_create(&p, 1, key, &second));
    gs_store_server_free(server);
}

/* ---- frames ---- */

/* The bytes of the next frame. */
static size_t frame_of(gs_frames *f, gs_frame_kind kind, const void *body, size_t bytes, unsigned char *out) {
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    f->socket = ends[0];
    assert_true(gs_frame_send(f, kind, body, bytes, gs_awake_seconds()));
    const ssize_t n = recv(ends[1], out, GS_FRAME_MOST, 0);
    close(ends[0]), close(ends[1]);
    return (size_t)n;
}

/* Whether this end accepts the frame. */
static bool takes(gs_frames *f, const unsigned char *frame, size_t bytes) {
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    assert_int_equal(send(ends[1], frame, bytes, 0), bytes);
    shutdown(ends[1], SHUT_WR);
    f->socket = ends[0];
    const bool taken = gs_frame_receive(f, gs_awake_seconds() + 100);
    close(ends[0]), close(ends[1]);
    return taken;
}

TEST(frames_that_are_changed_or_repeated_are_noticed) {
    unsigned char key[GS_SECRET] = {7}, one[GS_FRAME_MOST], two[GS_FRAME_MOST];
    gs_hello caller, listener;
    static gs_frames a, b, again, after;
    const char *name, *value;
    assert_ok(gs_hello_make(1, GS_STORE_NUMBER, GS_STORE_LINE, &caller));
    assert_ok(gs_hello_make(GS_STORE_NUMBER, 1, GS_STORE_LINE, &listener));
    gs_frames_begin(&a, key, &caller, &listener, true);
    gs_frames_begin(&b, key, &caller, &listener, false);
    const size_t first = frame_of(&a, GS_FRAME_PUT, "rank-1\0value", 13, one);
    const size_t second = frame_of(&a, GS_FRAME_BYE, NULL, 0, two);
    again = b;
    for (size_t have = 0; have < first; have++) { /* truncated at any byte */
        b = again;
        assert_false(takes(&b, one, have));
    }
    b = again;
    assert_true(takes(&b, one, first));
    assert_int_equal(b.kind, GS_FRAME_PUT);
    assert_true(gs_frame_pair(&b, &name, &value));
    assert_string_equal(name, "rank-1");
    assert_string_equal(value, "value");
    after = b;
    assert_false(takes(&b, one, first)); /* replayed */
    b = again;
    assert_false(takes(&b, two, second)); /* the previous frame is missing */
    assert_true(takes(&after, two, second));
    for (size_t i = 0; i < first; i++) { /* one wrong bit in any byte */
        b = again;
        one[i] ^= 1;
        assert_false(takes(&b, one, first));
        one[i] ^= 1;
    }
    gs_frames_begin(&b, key, &listener, &caller, false); /* another connection */
    assert_false(takes(&b, one, first));
    assert_false(gs_frame_pair(&(gs_frames){.body = "key", .bytes = 4}, &name, &value));
    assert_false(gs_frame_pair(&(gs_frames){.body = "\0value", .bytes = 7}, &name, &value));
    assert_false(gs_frame_pair(&(gs_frames){.body = "", .bytes = 0}, &name, &value));
}
