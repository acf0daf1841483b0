/* 20.1: a store, with each process of a run as a thread. When all that have not returned wait, no key will ever be set:
 * the store reports this at once. */
#include "check.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { NODES = 6, KEYS = 64 };

typedef struct run {
    int nodes, ranks_of[NODES], all;
} run;

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int keys, returned, all;
    const char *awaited[LAB_RANKS]; /* the keys that processes wait for; NULL: unused */
    bool stuck, set_fails, has_all; /* has_all: other processes have set every key */
    int gets, get_fails;            /* unless 0: call number get_fails fails, and no other call waits */
    char key[KEYS][LAB_ADDRESS], text[KEYS][LAB_ADDRESS];
} store = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static int find(const char *key) {
    for (int i = 0; i < store.keys; i++)
        if (strcmp(store.key[i], key) == 0) return i;
    return -1;
}

/* A process whose key was set meanwhile is about to wake up, and may set others. */
static void look_if_stuck(void) {
    int waiting = 0;
    for (int i = 0; i < LAB_RANKS; i++) waiting += store.awaited[i] && find(store.awaited[i]) < 0;
    if (waiting > 0 && waiting + store.returned >= store.all) store.stuck = true;
    pthread_cond_broadcast(&store.changed);
}

gs_status store_set(const char *key, const char *text) {
    if (strlen(key) >= LAB_ADDRESS || strlen(text) >= LAB_ADDRESS)
        return gs_fail(GS_E_USAGE, "store_set: a key or a text of more than %d bytes", LAB_ADDRESS - 1);
    if (store.set_fails) return gs_fail(GS_E_PEER, "store_set: the store cannot be reached");
    pthread_mutex_lock(&store.lock);
    const bool taken = find(key) >= 0, full = store.keys == KEYS;
    if (!taken && !full) {
        snprintf(store.key[store.keys], LAB_ADDRESS, "%s", key);
        snprintf(store.text[store.keys++], LAB_ADDRESS, "%s", text);
        pthread_cond_broadcast(&store.changed);
    }
    pthread_mutex_unlock(&store.lock);
    if (full) return gs_fail(GS_E_USAGE, "store_set: more than %d keys", KEYS);
    return taken ? gs_fail(GS_E_USAGE, "store_set: the key \"%s\" is there already", key) : GS_OK;
}

gs_status store_get(const char *key, char text[LAB_ADDRESS]) {
    if (store.get_fails > 0) {
        snprintf(text, LAB_ADDRESS, "10.0.0.2:2000");
        return ++store.gets == store.get_fails ? gs_fail(GS_E_PEER, "store_get: the store cannot be reached")
                                               : GS_OK;
    }
    pthread_mutex_lock(&store.lock);
    int at = find(key), place = 0;
    if (at < 0 && store.has_all && store.keys < KEYS) {
        at = store.keys++;
        snprintf(store.key[at], LAB_ADDRESS, "%s", key);
        snprintf(store.text[at], LAB_ADDRESS, "10.1.0.%d:2000", at);
    }
    while (store.awaited[place]) place++; /* each process has one */
    store.awaited[place] = key;
    while (at < 0 && !store.stuck) {
        look_if_stuck();
        if (!store.stuck) pthread_cond_wait(&store.changed, &store.lock);
        at = find(key);
    }
    store.awaited[place] = NULL;
    if (at >= 0) memcpy(text, store.text[at], LAB_ADDRESS);
    pthread_mutex_unlock(&store.lock);
    return at >= 0
               ? GS_OK
               : gs_fail(GS_E_PEER, "it waits for the key \"%s\", but all others wait or have returned", key);
}

/* ---- a run ---- */

static const char *text_of(const run *r) {
    static char text[80];
    *text = '\0';
    for (int n = 0; n < r->nodes; n++) lab_append(text, sizeof text, "%s%d", n ? ", " : "", r->ranks_of[n]);
    return text;
}

static void address_of(int rank, char *address) {
    snprintf(address, LAB_ADDRESS, "10.0.%zu.%d:%zu", lab_pick(VALUES_ROW, (size_t)rank, 250), rank,
             1024 + lab_pick(VALUES_ROW, 100 + (size_t)rank, 60000));
}

static gs_status check_peers(const run *r, int rank, int got, char (*peer)[LAB_ADDRESS]) {
    char wanted[LAB_ADDRESS];
    LAB_CHECK(got == rank, "processes on the machines: %s. Expected rank %d, got %d", text_of(r), rank, got);
    for (int p = 0; p < r->all; p++) {
        address_of(p, wanted);
        LAB_CHECK(memcmp(peer[p], wanted, strlen(wanted) + 1) == 0,
                  "processes on the machines: %s. peer[%d] of rank %d: expected %s, got %.63s", text_of(r), p,
                  rank, wanted, peer[p]);
    }
    return GS_OK;
}

static gs_status process(gs_comm *c, void *context) {
    const run *r = context;
    char address[LAB_ADDRESS], peer[LAB_RANKS][LAB_ADDRESS] = {{0}};
    int node = 0, local = c->rank, rank = -1;
    while (local >= r->ranks_of[node]) local -= r->ranks_of[node++];
    address_of(c->rank, address);
    gs_status status = lab_rendezvous(r->nodes, r->ranks_of, node, local, address, &rank, peer);
    if (status != GS_OK)
        status = gs_context(status, "processes on the machines: %s. Number %d of machine %d", text_of(r),
                            local, node);
    pthread_mutex_lock(&store.lock);
    store.returned++;
    look_if_stuck();
    pthread_mutex_unlock(&store.lock);
    return status == GS_OK ? check_peers(r, c->rank, rank, peer) : status;
}

static gs_status check_run(run *r) {
    r->all = 0;
    for (int n = 0; n < r->nodes; n++) r->all += r->ranks_of[n];
    store.keys = store.returned = 0;
    store.stuck = false;
    store.all = r->all;
    return lab_run_ranks(r->all, process, r);
}

/* The store fails for the first of two processes: in store_set, or in its n-th store_get. */
static gs_status check_failure(bool of_set, int get) {
    static const int two[] = {1, 1};
    char peer[2][LAB_ADDRESS] = {{0}};
    int rank = -1;
    store.keys = 0;
    store.set_fails = of_set;
    store.get_fails = get;
    store.gets = 0;
    const char *name = of_set ? "store_set" : "store_get";
    const gs_status status = lab_rendezvous(2, two, 0, 0, "10.0.0.1:2000", &rank, peer);
    const bool passed_on = status != GS_OK && strstr(gs_message(), "cannot be reached");
    store.set_fails = false;
    store.get_fails = 0;
    if (!of_set && store.gets < get) return GS_OK; /* it need not get its own address */
    LAB_CHECK_HINT(passed_on,
                   "look at what each call returns, and return it if it is no GS_OK (GS_TRY does).",
                   "processes on the machines: 1, 1. %s fails: expected its failure, got %s", name,
                   status == GS_OK ? "GS_OK" : "another one");
    return GS_OK;
}

/* One process of a large run; the others have set their addresses. */
static gs_status check_many(void) {
    enum { ALL = 40, NODE = 2, LOCAL = 12, RANK = 10 + 5 + LOCAL };
    static const int ranks_of[] = {10, 5, 20, 5};
    char peer[ALL][LAB_ADDRESS] = {{0}};
    int rank = -1;
    store.keys = store.returned = 0;
    store.stuck = false;
    store.all = 1;
    store.has_all = true;
    const gs_status status = lab_rendezvous(4, ranks_of, NODE, LOCAL, "10.0.0.1:2000", &rank, peer);
    store.has_all = false;
#define MACHINES "processes on the machines: 10, 5, 20, 5. "
    GS_TRY(gs_context(status, MACHINES "Number %d of machine %d", LOCAL, NODE));
    LAB_CHECK(rank == RANK, MACHINES "Expected rank %d, got %d", RANK, rank);
    LAB_CHECK(strncmp(peer[RANK], "10.0.0.1:2000", LAB_ADDRESS) == 0,
              MACHINES "peer[%d] of rank %d: expected 10.0.0.1:2000, got %.63s", RANK, RANK, peer[RANK]);
    for (int p = 0; p < ALL; p++)
        for (int q = 0; q < p; q++)
            LAB_CHECK_HINT(strncmp(peer[p], peer[q], LAB_ADDRESS) != 0, "does each rank have its own key?",
                           MACHINES "Ranks %d and %d have the same address, %.63s", q, p, peer[p]);
    return GS_OK;
}

gs_status check_rendezvous(void) {
    static const run few[] = {{1, {1}, 0}, {1, {2}, 0}, {2, {1, 1}, 0}, {2, {1, 2}, 0}, {3, {2, 4, 2}, 0}};
    for (size_t i = 0; i < sizeof few / sizeof *few; i++) {
        run r = few[i];
        GS_TRY(check_run(&r));
    }
    GS_TRY(check_failure(true, 0));
    for (int get = 1; get <= 2; get++) GS_TRY(check_failure(false, get));
    GS_TRY(check_many());
    for (size_t i = 0; i < 6; i++) {
        run r = {.nodes = 1 + (int)lab_pick(NODES_ROW, 10 * i, 4)};
        for (int n = 0; n < r.nodes; n++)
            r.ranks_of[n] = 1 + (int)lab_pick(NODES_ROW, 10 * i + 1 + (size_t)n, 4);
        GS_TRY(check_run(&r));
    }
    return GS_OK;
}
