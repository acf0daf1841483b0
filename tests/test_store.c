/* The store where ranks meet: what it holds, who is believed, and where its secret comes from. */
#include "tests/test.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "comm/meet/engines.h"
#include "comm/meet/frames.h"
#include "comm/meet/route.h"
#include "comm/meet/secret.h"
#include "comm/meet/store_server.h"
#include "core/clock.h"

/* ---- addresses ---- */

static void places_to_meet_are_read(void **state) {
    (void)state;
    static const struct {
        const char *text, *host, *name;
        gs_meet_kind kind;
        int port;
    } right[] = {
        {"tcp://node7:29400", "node7", "run", GS_MEET_TCP, 29400},
        {"tcp://[fd00::1]:1", "fd00::1", "run", GS_MEET_TCP, 1},
        {"tcp", "127.0.0.1", "run", GS_MEET_TCP, 0},
        {"redis://10.0.0.7:6379", "10.0.0.7", "run", GS_MEET_REDIS, 6379},
        {"redis://r:6379/ann-3", "r", "ann-3", GS_MEET_REDIS, 6379},
    };
    static const char *const wrong[] = {
        "tcp://",
        "tcp://node7",
        "tcp://:29400",
        "tcp://node7:",
        "tcp://node7:65536",
        "tcp://n:1x",
        "tcp://n:-1",
        "tcp://[::1",
        "tcp://[::1]",
        "redis://r:0",
        "http://node7:80",
        "/some/folder",
        "redis://r:1/a b",
        "tcp://n:1/abc",
        "file:",
        "tcp://node7:29400 ",
        "",
        "tcp:n:1",
    };
    gs_meet_place p;
    for (size_t i = 0; i < sizeof right / sizeof *right; i++) {
        assert_ok(gs_meet_place_read(right[i].text, &p));
        assert_int_equal(p.kind, right[i].kind);
        assert_string_equal(p.host, right[i].host);
        assert_string_equal(p.name, right[i].name);
        assert_int_equal(p.port, right[i].port);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_fails(GS_E_USAGE, "it must be tcp://HOST:PORT, redis://HOST:PORT/NAME or file:DIR",
                     gs_meet_place_read(wrong[i], &p));
    assert_ok(gs_meet_place_read("file:/a/b", &p));
    assert_string_equal(p.folder, "/a/b");
    assert_true(gs_meet_is_folder("/a/b") && gs_meet_is_folder("file:a") && !gs_meet_is_folder("tcp://a:1"));
}

static void interfaces_have_addresses(void **state) {
    (void)state;
    char address[64], text[40];
    assert_ok(gs_route_address("lo", address, sizeof address));
    assert_string_equal(address, "127.0.0.1");
    assert_ok(gs_route_address("127.0.0.1", address, sizeof address));
    assert_string_equal(gs_route_interface("127.0.0.1", text, sizeof text), " (lo)");
    assert_string_equal(gs_route_interface("192.0.2.77", text, sizeof text), "");
    assert_fails(GS_E_USAGE, "no network interface or address 'eth77' that is up; it has: lo 127.0.0.1",
                 gs_route_address("eth77", address, sizeof address));
}

/* ---- the secret ---- */

static void write_secret(const char *path, const char *text, mode_t mode) {
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
    assert_int_equal(chmod(path, mode), 0);
}

static void the_secret_is_private(void **state) {
    (void)state;
    unsigned char one[GS_SECRET], two[GS_SECRET];
    char path[500];
    snprintf(path, sizeof path, "%s/secret", gs_test_folder());
    setenv("GRADSUM_SECRET_FILE", path, 1);
    assert_fails(GS_E_FILE, "No such file", gs_run_key("", one));
    write_secret(path, "0123456789abcdef\n", 0644);
    assert_fails(GS_E_FILE, "is open to others (mode 644): chmod 600 it", gs_run_key("", one));
    chmod(path, 0600);
    assert_ok(gs_run_key("", one));
    setenv("GRADSUM_SECRET", "0123456789abcdef",
           1); /* a line's end does not count, and the variable comes first */
    unlink(path);
    assert_ok(gs_run_key("", two));
    assert_memory_equal(one, two, GS_SECRET);
    assert_ok(gs_run_key("job 7", two)); /* a run with a name has a key of its own */
    assert_memory_not_equal(one, two, GS_SECRET);
    setenv("GRADSUM_SECRET", "0123456789abcde", 1);
    assert_fails(GS_E_USAGE, "the run's secret (GRADSUM_SECRET) has 15 bytes; it must have 16 or more",
                 gs_run_key("", one));
    unsetenv("GRADSUM_SECRET");
    assert_int_equal(mkdir(path, 0700), 0);
    assert_fails(GS_E_FILE, "is not a regular file", gs_run_key("", one));
    rmdir(path);
    unsetenv("GRADSUM_SECRET_FILE");
}

/* Without any, it is made: once, and readable by nobody else. */
static void a_missing_secret_is_made(void **state) {
    (void)state;
    unsigned char one[GS_SECRET], two[GS_SECRET];
    char path[500];
    const char *before = getenv("XDG_CONFIG_HOME");
    struct stat s;
    setenv("XDG_CONFIG_HOME", gs_test_folder(), 1);
    assert_ok(gs_run_key("", one));
    assert_ok(gs_run_key("", two));
    snprintf(path, sizeof path, "%s/gradsum/secret", getenv("XDG_CONFIG_HOME"));
    assert_int_equal(stat(path, &s), 0);
    assert_int_equal(s.st_mode & 0777, 0600);
    assert_memory_equal(one, two, GS_SECRET);
    unlink(path);
    assert_ok(gs_run_key("", two));
    assert_memory_not_equal(one, two, GS_SECRET);
    if (before)
        setenv("XDG_CONFIG_HOME", before, 1);
    else
        unsetenv("XDG_CONFIG_HOME");
}

/* ---- frames ---- */

static void frames_that_are_changed_or_repeated_are_noticed(void **state) {
    (void)state;
    unsigned char key[GS_SECRET] = {7}, one[GS_FRAME_MOST], two[GS_FRAME_MOST];
    gs_hello caller, listener;
    gs_frames a, b, again;
    gs_frame_kind kind;
    const char *body, *name, *value;
    size_t bytes;
    assert_ok(gs_hello_make(1, GS_STORE_NUMBER, GS_STORE_LINE, &caller));
    assert_ok(gs_hello_make(GS_STORE_NUMBER, 1, GS_STORE_LINE, &listener));
    gs_frames_begin(&a, key, &caller, &listener, 1);
    gs_frames_begin(&b, key, &caller, &listener, 0);
    const size_t first = gs_frame_write(&a, GS_FRAME_PUT, "rank-1\0value", 13, one);
    const size_t second = gs_frame_write(&a, GS_FRAME_BYE, NULL, 0, two);
    again = b;
    for (size_t have = 0; have < first; have++) { /* cut anywhere: not yet complete */
        b = again;
        assert_int_equal(gs_frame_read(&b, one, have, &kind, &body, &bytes), 0);
    }
    b = again;
    assert_int_equal(gs_frame_read(&b, one, first, &kind, &body, &bytes), first);
    assert_int_equal(kind, GS_FRAME_PUT);
    assert_true(gs_frame_pair(body, bytes, &name, &value));
    assert_string_equal(name, "rank-1");
    assert_string_equal(value, "value");
    gs_frames after = b;
    assert_int_equal(gs_frame_read(&b, one, first, &kind, &body, &bytes), -1); /* repeated */
    b = again;
    assert_int_equal(gs_frame_read(&b, two, second, &kind, &body, &bytes),
                     -1); /* the one before is missing */
    assert_int_equal(gs_frame_read(&after, two, second, &kind, &body, &bytes), second);
    for (size_t i = 0; i < first; i++) { /* a bit of any byte */
        b = again;
        one[i] ^= 1;
        assert_true(gs_frame_read(&b, one, first, &kind, &body, &bytes) <= 0);
        one[i] ^= 1;
    }
    gs_frames_begin(&b, key, &listener, &caller, 0); /* of another connection */
    assert_int_equal(gs_frame_read(&b, one, first, &kind, &body, &bytes), -1);
    assert_false(gs_frame_pair("key", 4, &name, &value));
    assert_false(gs_frame_pair("\0value", 7, &name, &value));
    assert_false(gs_frame_pair("", 0, &name, &value));
}

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

/* What is heard until it holds `wanted`, for 10 s at most. */
static void assert_heard(gs_store *s, heard *h, const char *wanted) {
    for (double end = gs_seconds() + 10; !strstr(h->all, wanted) && gs_seconds() < end;)
        assert_ok(s->ops->look(s, 0.05, hear, h));
    if (!strstr(h->all, wanted)) fail_msg("wanted '%s' in: %s", wanted, h->all);
}

static gs_store_server *new_server(const unsigned char key[GS_SECRET]) {
    gs_meet_place p;
    gs_store_server *s;
    assert_ok(gs_meet_place_read("tcp", &p));
    assert_ok(gs_store_server_create(&p, 1, key, &s));
    assert_ok(gs_store_server_start(s));
    return s;
}

static gs_status join(const gs_store_server *server, int rank, const unsigned char key[GS_SECRET],
                      double seconds, gs_store **out) {
    gs_meet_place p;
    gs_rendezvous r = {.rank = rank, .size = 3, .timeout = seconds};
    assert_ok(gs_meet_place_read("tcp", &p));
    p.port = gs_store_server_port(server);
    return gs_store_open_tcp(&r, &p, key, gs_seconds() + seconds, out);
}

static void put(gs_store *s, const char *key, const char *text, const char *is_there) {
    char value[GS_STORE_VALUE];
    bool there;
    snprintf(value, sizeof value, "%s", text);
    assert_ok(s->ops->put(s, key, value, &there));
    assert_int_equal(there, is_there != NULL);
    if (is_there) assert_string_equal(value, is_there);
}

static void a_store_tells_all_what_each_has_put(void **state) {
    (void)state;
    const unsigned char key[GS_SECRET] = {1, 2, 3};
    gs_store_server *server = new_server(key);
    gs_store *s[3];
    heard h[3] = {{""}};
    for (int i = 0; i < 2; i++) assert_ok(join(server, i, key, 10, &s[i]));
    put(s[0], "rank-0", "zero", NULL);
    put(s[1], "rank-1", "one", NULL);
    put(s[1], "rank-0", "another", "zero"); /* what is there stays */
    assert_ok(join(server, 2, key, 10, &s[2]));
    for (int i = 0; i < 3; i++) assert_heard(s[i], &h[i], "rank-0=zero;rank-1=one;");
    assert_string_equal(s[2]->address, "127.0.0.1");
    s[0]->ops->leave(s[0], "rank-0"); /* it takes its leave, */
    s[0]->ops->free(s[0]);
    s[1]->ops->free(s[1]); /* and this one is gone without a word */
    assert_heard(s[2], &h[2], "gone-1=;");
    assert_null(strstr(h[2].all, "gone-0"));
    s[2]->ops->free(s[2]);
    assert_int_equal(gs_store_server_strangers(server), 0);
    gs_store_server_free(server);
}

/* ---- strangers ---- */

static int call(int port) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(s >= 0);
    const struct timeval patience = {.tv_sec =
                                         5}; /* a store that believes a stranger would keep it for ever */
    setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    assert_int_equal(connect(s, (const struct sockaddr *)&at, sizeof at), 0);
    return s;
}

/* Silent; hangs up; talks nonsense; says hello, and then a wrong proof; says half a hello. */
static int come_as_stranger(int port, int kind) {
    char nonsense[3000];
    gs_hello hello;
    int s = call(port);
    memset(nonsense, 0x5a, sizeof nonsense);
    assert_ok(gs_hello_make(1, GS_STORE_NUMBER, GS_STORE_LINE, &hello));
    if (kind == 1) shutdown(s, SHUT_RDWR);
    if (kind == 2) send(s, nonsense, sizeof nonsense, MSG_NOSIGNAL);
    if (kind >= 3) send(s, &hello, kind == 3 ? sizeof hello : sizeof hello / 2, MSG_NOSIGNAL);
    if (kind == 3) send(s, nonsense, GS_PROOF, MSG_NOSIGNAL);
    return s;
}

static void strangers_hold_up_nobody(void **state) {
    (void)state;
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
    for (int i = 0; i < 1000 && gs_store_server_strangers(server) <= MANY; i++) usleep(10000);
    assert_true(gs_store_server_strangers(server) > MANY);
    s->ops->strangers(s, text, sizeof text);
    if (!strstr(text, "turned away there, of gradsum with another secret")) fail_msg("%s", text);
    assert_ok(s->ops->look(s, 0.05, hear, &h));
    assert_string_equal(h.all, "rank-1=here;"); /* nothing of theirs was believed */
    s->ops->free(s);
    gs_store_server_free(server);
}

/* Carry bytes between a member and the store, and keep what the member says. */
static size_t overhear(int member, int store, unsigned char *said, size_t size) {
    size_t kept = 0;
    unsigned char one[4096];
    for (;;) {
        struct pollfd p[2] = {{member, POLLIN, 0}, {store, POLLIN, 0}};
        if (poll(p, 2, 10000) <= 0) fail_msg("nothing is said");
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

/* Somebody has overheard all that a member said, and says it again. */
static void what_was_overheard_is_useless(void **state) {
    (void)state;
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
    const pid_t child = fork(); /* the member, which reaches the store through the listener */
    if (child == 0) {
        gs_meet_place p;
        bool there;
        char value[GS_STORE_VALUE] = "overheard";
        gs_status status = gs_meet_place_read("tcp", &p);
        p.port = ntohs(at.sin_port);
        if (status == GS_OK)
            status =
                gs_store_open_tcp(&(gs_rendezvous){.rank = 1, .timeout = 10}, &p, key, gs_seconds() + 10, &s);
        if (status == GS_OK) status = s->ops->put(s, "rank-1", value, &there);
        if (status == GS_OK) s->ops->leave(s, "rank-1");
        _exit(status != GS_OK);
    }
    ends[0] = accept(one, NULL, NULL);
    ends[1] = call(gs_store_server_port(server));
    const size_t heard_bytes = overhear(ends[0], ends[1], said, sizeof said);
    assert_true(heard_bytes > sizeof(gs_hello) + GS_PROOF && heard_bytes <= sizeof said);
    const int again = call(gs_store_server_port(server));
    assert_int_equal(send(again, said, heard_bytes, MSG_NOSIGNAL), heard_bytes);
    size_t got = 0; /* a hello with another nonce and its proof; and then, for the old proof, no nod */
    for (ssize_t n; (n = recv(again, answer + got, sizeof answer - got, 0)) > 0;) got += (size_t)n;
    assert_true(got <= sizeof(gs_hello) + GS_PROOF);
    for (int i = 0; i < 1000 && gs_store_server_strangers(server) < 1; i++) usleep(10000);
    assert_int_equal(gs_store_server_strangers(server), 1);
    assert_ok(join(server, 2, key, 10, &s));
    put(s, "rank-2", "", NULL);
    assert_heard(s, &h, "rank-2=;");
    assert_string_equal(h.all, "rank-1=overheard;rank-2=;"); /* once */
    s->ops->free(s);
    close(again), close(one), close(ends[0]), close(ends[1]);
    gs_store_server_free(server);
}

/* A port that is in use: the message says by whom, and those who meet there are told. */
static void a_port_in_use_is_named(void **state) {
    (void)state;
    const unsigned char key[GS_SECRET] = {5}, other[GS_SECRET] = {6};
    gs_store_server *server = new_server(key), *second;
    gs_store *s;
    gs_meet_place p;
    heard h = {""};
    assert_ok(gs_meet_place_read("tcp", &p));
    p.port = gs_store_server_port(server);
    assert_ok(join(server, 1, key, 10, &s));
    assert_fails(GS_E_USAGE, "is in use at 127.0.0.1; choose another port",
                 gs_store_server_create(&p, 1, other, &second));
    assert_null(second);
    assert_fails(GS_E_USAGE, "a run of gradsum with the same secret meets there already",
                 gs_store_server_create(&p, 1, key, &second));
    assert_heard(s, &h, "fault=-1 1 two nodes were started with node rank 0");
    assert_ok(gs_store_server_create(&p, 16, key, &second)); /* of several ports it takes the next one */
    assert_true(gs_store_server_port(second) > p.port && gs_store_server_port(second) < p.port + 16);
    gs_store_server_free(second);
    snprintf(p.host, sizeof p.host, "192.0.2.77");
    assert_fails(GS_E_USAGE, "no address of this machine is 192.0.2.77",
                 gs_store_server_create(&p, 1, key, &second));
    s->ops->free(s);
    gs_store_server_free(server);
}

GS_TESTS(store, cmocka_unit_test(places_to_meet_are_read), cmocka_unit_test(interfaces_have_addresses),
         cmocka_unit_test(the_secret_is_private), cmocka_unit_test(a_missing_secret_is_made),
         cmocka_unit_test(frames_that_are_changed_or_repeated_are_noticed),
         cmocka_unit_test(a_store_tells_all_what_each_has_put), cmocka_unit_test(strangers_hold_up_nobody),
         cmocka_unit_test(what_was_overheard_is_useless), cmocka_unit_test(a_port_in_use_is_named))
