/* A store that is full: it refuses with the same sentence wherever it is, and all who meet there fail with it. */
#include "tests/redis.h"
#include "tests/test.h"

#include <pthread.h>

#include "comm/meet/meeting.h"
#include "comm/meet/secret.h"
#include "comm/meet/seen.h"
#include "comm/meet/store_server.h"
#include "core/clock.h"

typedef struct place {
    char text[600];
    gs_meet_place at;
    unsigned char key[GS_SECRET];
    gs_store_server *server; /* of tcp */
} place;

static void open_place(const char *text, place *p) {
    *p = (place){.server = NULL};
    snprintf(p->text, sizeof p->text, "%s", text);
    assert_ok(gs_meet_place_read(p->text, &p->at));
    setenv("GRADSUM_SECRET", "0123456789abcdef0123", 1);
    assert_ok(gs_run_key("", p->key));
    if (p->at.kind != GS_MEET_TCP) return;
    assert_ok(gs_store_server_create(&p->at, 1, p->key, &p->server));
    assert_ok(gs_store_server_start(p->server));
    p->at.port = gs_store_server_port(p->server);
    snprintf(p->text, sizeof p->text, "tcp://127.0.0.1:%d", p->at.port);
}

static void close_place(place *p) {
    gs_store_server_free(p->server);
    unsetenv("GRADSUM_SECRET");
    gs_store_limit(0);
}

static gs_store *join(place *p, int rank) {
    gs_rendezvous r = {.rank = rank, .size = 2, .timeout = 10};
    gs_store *s;
    snprintf(r.meet, sizeof r.meet, "%.*s", (int)sizeof r.meet - 1, p->text);
    if (p->at.kind == GS_MEET_FILE)
        assert_ok(gs_store_open_folder(&r, &p->at, p->key, &s));
    else
        assert_ok(gs_store_open(&r, p->key, gs_awake_seconds() + r.timeout, &s));
    return s;
}

static gs_status put(gs_store *s, const char *key, char value[GS_STORE_VALUE], bool *there) {
    snprintf(value, GS_STORE_VALUE, "of %s", key);
    return s->ops->put(s, key, value, there);
}

static gs_status find_fault(void *context, const char *key, const char *value) {
    if (strcmp(key, "fault") == 0) snprintf(context, GS_STORE_VALUE, "%s", value);
    return GS_OK;
}

static void assert_refuses(const char *text, const char *where) {
    char why[600], wanted[700], value[GS_STORE_VALUE], fault[GS_STORE_VALUE] = "";
    bool there;
    place p;
    gs_store *s[2];
    gs_store_limit(3);
    open_place(text, &p);
    for (int i = 0; i < 2; i++) s[i] = join(&p, i);
    for (int i = 0; i < 3; i++) assert_ok(put(s[0], (const char *[]){"a", "b", "c"}[i], value, &there));
    assert_fails(GS_E_MEMORY, ", where the ranks meet, is full: it holds 3 of at most 3 entries",
                 put(s[1], "d", value, &there));
    snprintf(why, sizeof why, "%s", gs_message());
    assert_true(strncmp(why, where, strlen(where)) == 0);
    assert_fails(GS_E_MEMORY, why, put(s[0], "e", value, &there));
    assert_ok(put(s[1], "b", value, &there)); /* what is there is still found */
    assert_true(there);
    assert_string_equal(value, "of b");
    for (int i = 0; i < 100 && !*fault; i++) assert_ok(s[0]->ops->look(s[0], 0.05, find_fault, fault));
    snprintf(wanted, sizeof wanted, "-1 %d %s", (int)GS_E_MEMORY, why);
    assert_string_equal(fault, wanted);
    for (int i = 0; i < 2; i++) s[i]->ops->free(s[i]);
    close_place(&p);
}

/* ---- the ranks of a run ---- */

typedef struct rank {
    gs_rendezvous r;
    gs_status status;
    char message[600];
} rank;

static void *come(void *argument) {
    rank *k = argument;
    gs_passport all[2] = {{.rank = 0}, {.rank = 1}};
    gs_meeting *m = NULL;
    k->status = gs_meeting_open(&k->r, &m);
    if (k->status == GS_OK) k->status = gs_meeting_passport(m, &all[k->r.rank]);
    if (k->status == GS_OK) k->status = gs_meeting_meet(m, all);
    snprintf(k->message, sizeof k->message, "%s", gs_message());
    gs_meeting_close(m);
    return NULL;
}

/* The one that comes too late, and the one that waits for it. */
static void assert_all_say_so(const char *text) {
    pthread_t thread[2];
    rank k[2];
    place p;
    gs_store_limit(1);
    open_place(text, &p);
    for (int i = 0; i < 2; i++) {
        k[i] = (rank){.r = {.rank = i, .size = 2, .timeout = 20, .nodes = 1, .local = -1, .ports = 1}};
        snprintf(k[i].r.meet, sizeof k[i].r.meet, "%.*s", (int)sizeof k[i].r.meet - 1, p.text);
        assert_int_equal(pthread_create(&thread[i], NULL, come, &k[i]), 0);
    }
    for (int i = 0; i < 2; i++) pthread_join(thread[i], NULL);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(k[i].status, GS_E_MEMORY);
        if (!strstr(k[i].message, "is full: it holds 1 of at most 1 entries")) fail_msg("%s", k[i].message);
    }
    assert_string_equal(k[0].message, k[1].message);
    close_place(&p);
}

/* ---- the places ---- */

static void at_tcp(void **state) {
    (void)state;
    assert_refuses("tcp", "127.0.0.1 port ");
    assert_all_say_so("tcp");
}

static void in_a_folder(void **state) {
    (void)state;
    char text[600], where[700];
    snprintf(text, sizeof text, "file:%.500s/full", gs_test_folder());
    snprintf(where, sizeof where, "the folder %s, where", text + 5);
    assert_refuses(text, where);
}

/* Connected at the last moment, when there was no time left to wait for an answer. It waits for the next ones. */
static void assert_latecomer_is_patient(const char *text) {
    const gs_rendezvous r = {.rank = 0, .size = 2, .timeout = 10};
    char value[GS_STORE_VALUE];
    bool there;
    place p;
    gs_store *s;
    gs_status status = GS_E_PEER;
    open_place(text, &p);
    for (int i = 0; i < 100 && status != GS_OK; i++) status = gs_store_open_redis(&r, &p.at, p.key, 0, &s);
    assert_ok(status);
    gs_test_redis_pause(0.3);
    assert_ok(put(s, "a", value, &there));
    s->ops->free(s);
    close_place(&p);
}

static void at_redis(void **state) {
    (void)state;
    char text[80];
    const int port = gs_test_redis_start();
    if (port == 0) skip_because("Redis is not installed (Debian: redis-server)");
    snprintf(text, sizeof text, "redis://127.0.0.1:%d/full", port);
    assert_refuses(text, "Redis at 127.0.0.1 port ");
    snprintf(text, sizeof text, "redis://127.0.0.1:%d/ranks", port);
    assert_all_say_so(text);
    snprintf(text, sizeof text, "redis://127.0.0.1:%d/late", port);
    assert_latecomer_is_patient(text);
    gs_test_redis_end();
}

/* ---- what a look has shown ---- */

static void many_keys_are_each_new_once(void **state) {
    (void)state;
    enum { MANY = 30000 };
    gs_seen s = {0};
    char key[GS_STORE_KEY];
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < MANY; i++) {
            snprintf(key, sizeof key, "end-%d-%d", i / 100, i % 100);
            if (gs_seen_has(&s, key) != (round == 1)) fail_msg("round %d: %s", round, key);
            if (round == 0) assert_true(gs_seen_add(&s, key));
        }
    assert_int_equal(s.count, MANY);
    gs_seen_free(&s);
    assert_false(gs_seen_has(&s, "end-0-0"));
}

GS_TESTS(store_full, cmocka_unit_test(at_tcp), cmocka_unit_test(in_a_folder), cmocka_unit_test(at_redis),
         cmocka_unit_test(many_keys_are_each_new_once))
