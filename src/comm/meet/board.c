#include "comm/meet/board.h"
#include "comm/meet/secret.h"
#include "comm/meet/store.h"
#include "core/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double REACH = 0.5 /* s to reach the store */, LOOK = 0.02;

struct gs_board {
    gs_rendezvous r;
    gs_meet_place place;
    char name[GS_STORE_HOST + 16];
    gs_store *store; /* NULL: not connected */
    bool tried;
    int puts; /* an entry never changes: the next one has another key */
    char *told[];
};

gs_board *gs_board_create(const gs_rendezvous *r) {
    gs_meet_place place;
    const bool stays = r->meet[0] && r->size > 1 && !r->engine && !r->hosts;
    if (!stays || gs_meet_place_read(r->meet, &place) != GS_OK || place.kind != GS_MEET_TCP) return NULL;
    gs_board *b = calloc(1, sizeof *b + (size_t)r->size * sizeof *b->told);
    if (!b) return NULL;
    b->r = *r;
    b->r.timeout = REACH;
    b->place = place;
    snprintf(b->name, sizeof b->name, "%s port %d", place.host, place.port);
    return b;
}

void gs_board_free(gs_board *b) {
    if (!b) return;
    if (b->store) gs_store_leave(b->store);
    gs_store_free(b->store);
    for (int i = 0; i < b->r.size; i++) free(b->told[i]);
    free(b);
}

static void give_up(gs_board *b) {
    gs_store_free(b->store);
    b->store = NULL;
}

/* Once: a rank that is about to fail does not wait for long. */
static bool reach(gs_board *b) {
    unsigned char key[GS_SECRET];
    if (!b->tried && gs_run_key(b->r.run, key) == GS_OK)
        gs_store_open(&b->r, &b->place, key, gs_awake_seconds() + REACH, &b->store);
    b->tried = true;
    return b->store != NULL;
}

void gs_board_put(gs_board *b, const char *text) {
    char key[GS_STORE_KEY], value[GS_STORE_VALUE];
    bool there;
    if (!b || !reach(b)) return;
    snprintf(key, sizeof key, "waits-%d-%d", b->r.rank, b->puts++);
    snprintf(value, sizeof value, "%s", text);
    if (gs_store_put(b->store, key, value, &there) != GS_OK) give_up(b);
}

/* "waits-1-0": the first of rank 1. Later ones replace it. */
static gs_status see(void *context, const char *key, const char *value) {
    gs_board *b = context;
    int rank, nth;
    if (sscanf(key, "waits-%d-%d", &rank, &nth) != 2 || rank < 0 || rank >= b->r.size) return GS_OK;
    char *copy = strdup(value);
    if (!copy) return GS_OK;
    free(b->told[rank]);
    b->told[rank] = copy;
    return GS_OK;
}

void gs_board_look(gs_board *b) {
    if (b && b->store && gs_store_look(b->store, LOOK, see, b) != GS_OK) give_up(b);
}

const char *gs_board_of(const gs_board *b, int rank) {
    return b ? b->told[rank] : NULL;
}

const char *gs_board_unreached(const gs_board *b) {
    return b && b->tried && !b->store ? b->name : NULL;
}
