#include "cli/launch/post.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/meet/store_server.h"
#include "core/clock.h"

static const double LINGER = 2 /* s for others to hear the last word */;

gs_status gs_launch_post_check(const gs_launch *l, const char *what, int most) {
    gs_meet_place place;
    if (!l->meet) return GS_OK; /* one node; or --hosts, which meet by tcp then */
    GS_TRY(gs_context(gs_meet_place_read(l->meet, &place), "--meet"));
    if (place.kind != GS_MEET_TCP)
        return gs_fail(GS_E_USAGE,
                       "%s: the launches of several nodes agree at a store that one of them holds; wanted "
                       "--meet tcp://HOST:PORT, with the address of node rank 0, not %s",
                       what, l->meet);
    if (l->nodes > most) return gs_fail(GS_E_USAGE, "%s: %d nodes; wanted %d at most", what, l->nodes, most);
    return GS_OK;
}

gs_status gs_launch_post_create(gs_launch *l, gs_launch_post *p) {
    gs_meet_place place;
    *p = (gs_launch_post){.r = {.rank = l->node,
                                .size = l->nodes,
                                .timeout = gs_launch_timeout(l),
                                .ports = 1,
                                .local = -1,
                                .attempt = GS_ATTEMPT_LAUNCHES}};
    snprintf(p->r.meet, sizeof p->r.meet, "%s", l->meet);
    GS_TRY(gs_meet_place_read(l->meet, &place));
    if (l->secret_file && setenv("GRADSUM_SECRET_FILE", l->secret_file, 1) != 0)
        return gs_fail(GS_E_MEMORY, "no memory for the environment");
    GS_TRY(gs_run_key("", p->key));
    if (l->node == 0) GS_TRY(gs_store_server_create(&place, 1, p->key, &p->server));
    if (p->server) gs_store_server_watch(p->server, p->r.timeout);
    l->store = p->server;
    return GS_OK;
}

static void hang_up(gs_launch_post *p, bool bye) {
    if (!p->store) return;
    if (bye) p->store->ops->leave(p->store, NULL);
    p->store->ops->free(p->store);
    p->store = NULL;
    p->lost = !bye;
}

void gs_launch_post_leave(gs_launch_post *p) {
    hang_up(p, true);
}

void gs_launch_post_free(gs_launch_post *p) {
    hang_up(p, !p->deserts);
    gs_launch_end_store(p->server, p->serves ? 1 : 0, LINGER);
}

bool gs_launch_post_reach(gs_launch_post *p, double within) {
    if (p->store || p->lost) return false;
    if (p->server && !p->serves && gs_store_server_start(p->server) != GS_OK) return false;
    p->serves = p->server != NULL;
    return gs_store_open(&p->r, p->key, gs_seconds() + within, &p->store) == GS_OK;
}

bool gs_launch_post_put(gs_launch_post *p, const char *key, const char *text, bool *there) {
    char value[GS_STORE_VALUE];
    bool ignored;
    snprintf(value, sizeof value, "%s", text);
    if (p->store && p->store->ops->put(p->store, key, value, there ? there : &ignored) != GS_OK)
        hang_up(p, false);
    return p->store != NULL;
}

void gs_launch_post_look(gs_launch_post *p, double seconds, gs_store_seen *see, void *context) {
    if (p->store && p->store->ops->look(p->store, seconds, see, context) != GS_OK) hang_up(p, false);
}

int gs_launch_post_number(const char *key, const char *what) {
    const size_t length = strlen(what);
    char *end;
    if (strncmp(key, what, length) != 0 || key[length] < '0' || key[length] > '9') return -1;
    const long number = strtol(key + length, &end, 10);
    return *end == '\0' && number < 1 << 20 ? (int)number : -1;
}
