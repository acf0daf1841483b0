#include "cli/launch/post.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/meet/store_server.h"
#include "core/clock.h"

static const double LINGER = 2 /* s for others to hear the last word */, LOOK = 0.05, BEAT = 0.5 /* s */;

/* ---- making it ---- */

gs_status gs_launch_post_check(const gs_launch *l, const char *what, int most, bool tcp) {
    gs_meet_place place;
    if (!l->meet) return GS_OK; /* one node; or --hosts, which meet by tcp then */
    GS_TRY(gs_context(gs_meet_place_read(l->meet, &place), "--meet"));
    if (tcp && place.kind != GS_MEET_TCP)
        return gs_fail(
            GS_E_USAGE,
            "%s: the launches of several nodes agree at a store that tells at once which of them has "
            "gone without a word, as only that of node rank 0 does; wanted --meet tcp://HOST:PORT, "
            "with the address of node rank 0, not %s",
            what, l->meet);
    if (l->nodes > most) return gs_fail(GS_E_USAGE, "%s: %d nodes; wanted %d at most", what, l->nodes, most);
    return GS_OK;
}

gs_status gs_launch_post_create(gs_launch *l, gs_launch_post *p) {
    *p = (gs_launch_post){.r = {.rank = l->node,
                                .size = l->nodes,
                                .timeout = gs_launch_timeout(l),
                                .ports = 1,
                                .local = -1,
                                .attempt = GS_ATTEMPT_LAUNCHES}};
    snprintf(p->r.meet, sizeof p->r.meet, "%s", l->meet);
    GS_TRY(gs_meet_place_read(l->meet, &p->place));
    if (p->place.kind != GS_MEET_TCP && !(p->pulse = calloc((size_t)l->nodes, sizeof *p->pulse)))
        return gs_fail(GS_E_MEMORY, "no memory for %d nodes", l->nodes);
    if (p->place.kind == GS_MEET_FILE) return GS_OK; /* no other user sees into it */
    if (l->secret_file && setenv("GRADSUM_SECRET_FILE", l->secret_file, 1) != 0)
        return gs_fail(GS_E_MEMORY, "no memory for the environment");
    GS_TRY(gs_run_key("", p->key));
    if (p->place.kind != GS_MEET_TCP) return GS_OK;
    if (l->node == 0) GS_TRY(gs_store_server_create(&p->place, 1, p->key, &p->server));
    if (p->server) gs_store_server_watch(p->server, p->r.timeout);
    l->store = p->server;
    return GS_OK;
}

bool gs_launch_post_reach(gs_launch_post *p, double within) {
    if (p->store || p->lost) return false;
    if (p->server && !p->serves && gs_store_server_start(p->server) != GS_OK) return false;
    p->serves = p->server != NULL;
    if (p->place.kind == GS_MEET_FILE)
        return gs_store_open_folder(&p->r, &p->place, p->key, &p->store) == GS_OK;
    return gs_store_open(&p->r, p->key, gs_awake_seconds() + within, &p->store) == GS_OK;
}

/* ---- who lives ---- */

typedef struct listener {
    gs_launch_post *post;
    gs_store_seen *see; /* NULL: beats alone are of interest */
    void *context;
} listener;

/* This launch may have been the one that found the store full: then it knows. */
static gs_status hear_fault(gs_launch_post *p, const char *value) {
    if (*p->refused) return GS_OK;
    snprintf(p->refused, sizeof p->refused, "%s", gs_store_fault_why(value));
    return gs_fail(GS_E_MEMORY, "%s", p->refused);
}

static gs_status hear(void *context, const char *key, const char *value) {
    const listener *l = context;
    if (gs_store_is_fault(key)) return hear_fault(l->post, value);
    const int rank = l->post->pulse ? gs_launch_post_number(key, "beat-") : -1;
    if (rank < 0) return l->see ? l->see(l->context, key, value) : GS_OK;
    if (rank >= l->post->r.size) return GS_OK;
    gs_launch_pulse *pulse = &l->post->pulse[rank];
    pulse->missed = 0;
    if (pulse->since > 0 && strcmp(pulse->beat, value) == 0) return GS_OK;
    snprintf(pulse->beat, sizeof pulse->beat, "%s", value);
    pulse->since = gs_seconds();
    return GS_OK;
}

/* began: when this launch turned to the store, and not when the store has answered. It may be stopped meanwhile. */
static gs_status look(gs_launch_post *p, double began, double seconds, gs_store_seen *see, void *context) {
    listener l = {p, see, context};
    for (int i = 0; p->pulse && i < p->r.size; i++) p->pulse[i].missed++;
    GS_TRY(p->store->ops->look(p->store, seconds, hear, &l));
    p->looked = began;
    return GS_OK;
}

/* What is told before a beat vanishes may be missing from the look that misses the beat, but not from the next one.
 * Time in which this launch itself did not look, because it was stopped, is not the other's silence. */
bool gs_launch_post_is_silent(const gs_launch_post *p, int rank) {
    const double most = p->r.timeout > 2.5 ? p->r.timeout - 1 : 1.5;
    const gs_launch_pulse *pulse = p->pulse && rank != p->r.rank ? &p->pulse[rank] : NULL;
    if (!pulse || pulse->since <= 0) return false;
    return pulse->missed > 1 || p->looked - pulse->since > most;
}

static bool others_live(const gs_launch_post *p) {
    for (int i = 0; i < p->r.size; i++)
        if (i != p->r.rank && p->pulse[i].since > 0 && p->pulse[i].missed == 0 &&
            !gs_launch_post_is_silent(p, i))
            return true;
    return false;
}

static char *beat_of(const gs_launch_post *p, char key[GS_STORE_KEY]) {
    snprintf(key, GS_STORE_KEY, "beat-%d", p->r.rank);
    return key;
}

/* ---- leaving ---- */

/* One that was killed a moment ago may seem to live; but it does not beat any more. */
static bool others_beat(gs_launch_post *p) {
    const double now = gs_seconds();
    while (gs_seconds() < now + LINGER && others_live(p)) {
        if (look(p, gs_seconds(), LOOK, NULL, NULL) != GS_OK) return true;
        for (int i = 0; i < p->r.size; i++)
            if (i != p->r.rank && p->pulse[i].missed == 0 && p->pulse[i].since > now) return true;
    }
    return false;
}

/* A store that stays. The last one removes all; to most launches node rank 0 has just said what follows, so that they
 * need not wait for a sign of life. */
static void depart(gs_launch_post *p) {
    char key[GS_STORE_KEY];
    if (!p->joined) return;
    p->joined = false;
    p->store->ops->leave(p->store, beat_of(p, key));
    if (look(p, gs_seconds(), 0, NULL, NULL) != GS_OK) return;
    if (p->deserts || p->r.rank == 0 ? others_beat(p) : others_live(p)) return;
    p->store->ops->clear(p->store, p->attempt);
    p->store->ops->clear(p->store, GS_ATTEMPT_LAUNCHES);
}

static void hang_up(gs_launch_post *p, bool bye) {
    if (!p->store) return;
    if (p->pulse)
        depart(p);
    else if (bye)
        p->store->ops->leave(p->store, NULL);
    p->store->ops->free(p->store);
    p->store = NULL;
    p->lost = !bye;
}

void gs_launch_post_leave(gs_launch_post *p) {
    hang_up(p, true);
}

void gs_launch_post_free(gs_launch_post *p) {
    const double until = gs_seconds() + LINGER;
    const bool lingers = p->pulse && p->r.rank == 0 && !p->deserts;
    while (lingers && p->store && others_live(p) && gs_seconds() < until)
        gs_launch_post_look(p, LOOK, NULL, NULL);
    hang_up(p, !p->deserts);
    gs_launch_end_store(p->server, p->serves ? 1 : 0, LINGER);
    free(p->pulse);
    p->pulse = NULL;
}

void gs_launch_post_clear(gs_launch_post *p, int attempt) {
    if (p->pulse && p->store) p->store->ops->clear(p->store, attempt);
}

/* ---- talking ---- */

bool gs_launch_post_put(gs_launch_post *p, const char *key, const char *text, bool *there) {
    char value[GS_STORE_VALUE];
    bool ignored;
    if (!p->store) return false;
    snprintf(value, sizeof value, "%s", text);
    const gs_status status = p->store->ops->put(p->store, key, value, there ? there : &ignored);
    if (status == GS_E_MEMORY) snprintf(p->refused, sizeof p->refused, "%s", gs_message());
    if (status != GS_OK) hang_up(p, false);
    return status == GS_OK;
}

void gs_launch_post_join(gs_launch_post *p, const char *value, bool *there) {
    char key[GS_STORE_KEY];
    *there = false;
    if (p->pulse && gs_launch_post_put(p, beat_of(p, key), "0000000000", there) && !*there) p->joined = true;
    if (*there || !p->store) return;
    snprintf(key, sizeof key, "rank-%d", p->r.rank);
    gs_launch_post_put(p, key, value, there);
    if (*there && p->joined) p->store->ops->leave(p->store, beat_of(p, key));
    if (*there) p->joined = false;
}

/* All beats have one length: a store may write them in their place. */
static void beat(gs_launch_post *p) {
    char key[GS_STORE_KEY], value[24];
    if (!p->joined || gs_seconds() < p->next_beat) return;
    p->next_beat = gs_seconds() + BEAT;
    snprintf(value, sizeof value, "%010d", ++p->beats);
    if (p->store->ops->beat(p->store, beat_of(p, key), value) != GS_OK) hang_up(p, false);
}

void gs_launch_post_look(gs_launch_post *p, double seconds, gs_store_seen *see, void *context) {
    const double began = gs_seconds();
    if (p->store) beat(p);
    if (p->store && look(p, began, seconds, see, context) != GS_OK) hang_up(p, false);
}

int gs_launch_post_number(const char *key, const char *what) {
    const size_t length = strlen(what);
    char *end;
    if (strncmp(key, what, length) != 0 || key[length] < '0' || key[length] > '9') return -1;
    const long number = strtol(key + length, &end, 10);
    return *end == '\0' && number < 1 << 20 ? (int)number : -1;
}
