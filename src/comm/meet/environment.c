/* Who this process is and how it meets the others, as `gradsum launch`, the user, or another program that starts
 * processes (engines.h) has put it into the environment. */
#include "comm/meet/engines.h"
#include "comm/meet/store.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static gs_status take_timeout(gs_rendezvous *r) {
    const char *timeout = getenv("GRADSUM_TIMEOUT");
    char *rest;
    if (!timeout) return GS_OK;
    r->timeout = strtod(timeout, &rest);
    if (rest == timeout || *rest != '\0' || !(r->timeout > 0) || !isfinite(r->timeout))
        return gs_fail(GS_E_USAGE, "GRADSUM_TIMEOUT is '%s'; it must be a number of seconds, more than 0",
                       timeout);
    return GS_OK;
}

/* GRADSUM_RENDEZVOUS: a folder, or a store. */
static gs_status take_place(gs_rendezvous *r, const char *text) {
    gs_meet_place place;
    if (*text == '\0')
        return gs_fail(GS_E_USAGE,
                       "GRADSUM_RENDEZVOUS is empty; it must name a folder or a store (tcp://HOST:PORT)");
    r->meet[0] = '\0';
    r->hosts = false;
    r->ports = 1;
    r->directory = strncmp(text, "file:", 5) == 0 ? text + 5 : text;
    if (gs_meet_is_folder(text)) return GS_OK;
    r->directory = NULL;
    GS_TRY(gs_context(gs_meet_place_read(text, &place), "GRADSUM_RENDEZVOUS"));
    if (place.port == 0 || strlen(text) >= sizeof r->meet)
        return gs_fail(GS_E_USAGE, "GRADSUM_RENDEZVOUS is '%.100s'; all processes must know the port", text);
    snprintf(r->meet, sizeof r->meet, "%s", text);
    r->hosts = r->rank == 0 && !getenv("GRADSUM_STORE"); /* else the launcher holds it */
    return GS_OK;
}

/* What holds for processes that gradsum itself knows how to call. */
static gs_status take_rest(gs_rendezvous *r) {
    const char *own = getenv("GRADSUM_OWN_CPUS"), *nodes = getenv("GRADSUM_NODES");
    const char *local = getenv("GRADSUM_LOCAL_RANK");
    r->address = getenv("GRADSUM_ADDRESS");
    r->interface = getenv("GRADSUM_INTERFACE");
    if (!r->transport) r->transport = getenv("GRADSUM_TRANSPORT");
    if (nodes) GS_TRY(gs_engine_number("GRADSUM_NODES", nodes, 1, GS_PROCESSES, &r->nodes));
    if (local) GS_TRY(gs_engine_number("GRADSUM_LOCAL_RANK", local, 0, GS_PROCESSES, &r->local));
    r->own_cpus = own && strcmp(own, "1") == 0;
    return GS_OK;
}

gs_status gs_rendezvous_from_environment(gs_rendezvous *r) {
    const char *rank = getenv("GRADSUM_RANK"), *size = getenv("GRADSUM_WORLD_SIZE");
    const char *place = getenv("GRADSUM_RENDEZVOUS");
    *r = (gs_rendezvous){.rank = 0, .size = 1, .timeout = GS_TIMEOUT, .local = -1};
    GS_TRY(take_timeout(r));
    if (!rank && !size) {
        GS_TRY(gs_engines_look(r));
        if (r->engine) {
            GS_TRY(take_rest(r));
            const bool by_mpi = r->transport && strcmp(r->transport, "mpi") == 0;
            return place && r->size > 1 && !by_mpi ? take_place(r, place) : GS_OK;
        }
        if (!place) return GS_OK;
    }
    if (!rank || !size || !place)
        return gs_fail(GS_E_USAGE,
                       "%s is not set, but %s is; set all of GRADSUM_RANK, GRADSUM_WORLD_SIZE and "
                       "GRADSUM_RENDEZVOUS, or none",
                       !rank   ? "GRADSUM_RANK"
                       : !size ? "GRADSUM_WORLD_SIZE"
                               : "GRADSUM_RENDEZVOUS",
                       rank   ? "GRADSUM_RANK"
                       : size ? "GRADSUM_WORLD_SIZE"
                              : "GRADSUM_RENDEZVOUS");
    GS_TRY(gs_engine_number("GRADSUM_WORLD_SIZE", size, 1, GS_PROCESSES, &r->size));
    GS_TRY(gs_engine_number("GRADSUM_RANK", rank, 0, r->size - 1, &r->rank));
    GS_TRY(take_rest(r));
    return take_place(r, place);
}
