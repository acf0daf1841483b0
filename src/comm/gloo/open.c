/* How processes are connected over Gloo: they meet (meet/meeting.h), connect each with each (mesh.h), and hand these
 * connections to Gloo. The direct connection beside Gloo's and the watch come last.
 */
#include "comm/descriptors.h"
#include "comm/gloo/state.h"
#include "comm/meet/meeting.h"
#include "comm/mesh.h"
#include "comm/process.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { GLOO, DIRECT /* what the lines between two ranks are for */ };

static int lines_of(const gs_rendezvous *r) {
    return r->size == 2 && !r->library ? 2 : 1;
}

/* A direct line is taken over. On failure *e holds what Gloo says. */
static gs_gloo_code use_connections(const gs_rendezvous *r, int *socket, gs_gloo_state *s, gs_gloo_error *e) {
    const int timeout = gs_gloo_milliseconds(r->timeout);
    gs_gloo_code code = gs_gloo_connect(r->rank, r->size, &socket[GLOO * r->size], timeout, &s->gloo, e);
    if (code == GS_GLOO_OK) code = gs_watch_create(s->gloo, r->rank, r->size, &s->watch, e);
    if (code == GS_GLOO_OK) code = gs_gloo_listen(s, r->rank, r->size, e);
    if (code == GS_GLOO_OK && lines_of(r) > 1) {
        int *direct = &socket[DIRECT * r->size + 1 - r->rank];
        code = gs_direct_create(s->gloo, *direct, r->rank, timeout, &s->direct, e);
        *direct = -1;
    }
    if (code == GS_GLOO_OK)
        code = gs_gloo_collective(s->gloo, &(gs_call){.operation = GS_BARRIER}, NULL, NULL, timeout, e);
    return code;
}

/* Gloo has failed with `e`, although all are connected. */
static gs_status explain(gs_comm *c, const gs_gloo_error *e) {
    if (e->code == GS_GLOO_MEMORY) return gs_fail(GS_E_MEMORY, "rank %d: no memory for Gloo", c->rank);
    if (strstr(e->text, strerror(EMFILE))) /* only Gloo's text tells this */
        return gs_fail_descriptor(EMFILE, "rank %d: all %d ranks are connected, but Gloo cannot start",
                                  c->rank, c->size);
    if (e->code == GS_GLOO_LOST || e->code == GS_GLOO_TIMEOUT)
        return gs_gloo_lost(c, e, -1, "the start of %d ranks", c->size);
    return gs_fail(GS_E_PEER, "rank %d: all %d ranks are connected, but Gloo cannot start: %s", c->rank,
                   c->size, e->text);
}

/* No connection ends, as the others see it, before this rank has told why it fails. */
static gs_status connect_all(const gs_rendezvous *r, const gs_meeting *m, const gs_passport *all,
                             int listener, gs_comm *c) {
    gs_gloo_state *s = c->state;
    gs_gloo_error e;
    int lines = lines_of(r), *socket = malloc((size_t)(lines * r->size) * sizeof *socket);
    if (!socket) return gs_fail(GS_E_MEMORY, "no memory to connect %d ranks", r->size);
    gs_status status = gs_mesh_connect(r, all, listener, s->process, lines, socket);
    if (status == GS_OK) {
        s->links = gs_links_create(lines, r->size, socket);
        if (use_connections(r, socket, s, &e) != GS_GLOO_OK) status = explain(c, &e);
    }
    status = gs_meeting_fail(m, status);
    gs_mesh_close(lines * r->size, socket);
    free(socket);
    return status;
}

/* Note what messages and the watch need from the passports. */
static gs_status note_passports(const gs_passport *all, int size, gs_gloo_state *s) {
    long *pid = calloc((size_t)size, sizeof *pid);
    s->address = calloc((size_t)size, sizeof *s->address);
    s->host = calloc((size_t)size, sizeof *s->host);
    s->heard = calloc((size_t)size, sizeof *s->heard);
    const bool room = pid && s->address && s->host && s->heard;
    for (int r = 0; room && r < size; r++) {
        pid[r] = all[r].pid;
        snprintf(s->host[r], GS_HOST, "%.*s", (int)strcspn(all[r].place, " "), all[r].place);
        snprintf(s->address[r], GS_ADDRESS, "%s", all[r].address);
    }
    s->process = room ? gs_processes_watch(size, pid) : NULL;
    free(pid);
    return s->process ? GS_OK : gs_fail(GS_E_MEMORY, "no memory to watch %d processes", size);
}

static gs_status meet_and_connect(const gs_rendezvous *r, gs_meeting *m, gs_passport *all, int listener,
                                  gs_comm *c) {
    GS_TRY(gs_meeting_meet(m, all));
    signal(SIGPIPE, SIG_IGN); /* writing to a peer that has gone fails, and does not end the process */
    gs_status status = note_passports(all, r->size, c->state);
    if (status == GS_OK && r->size > 1) status = connect_all(r, m, all, listener, c);
    return status;
}

static gs_status listen_and_meet(const gs_rendezvous *r, gs_meeting *m, gs_comm *c) {
    int listener = -1;
    gs_passport mine, *all;
    GS_TRY(gs_meeting_passport(m, &mine));
    GS_TRY(gs_mesh_listen(gs_meeting_address(m), &mine, &listener));
    gs_status status = gs_fail(GS_E_MEMORY, "no memory for what %d processes tell", r->size);
    if ((all = calloc((size_t)r->size, sizeof *all))) {
        all[r->rank] = mine;
        status = meet_and_connect(r, m, all, listener, c);
    }
    free(all);
    close(listener);
    return status;
}

gs_status gs_gloo_open(const gs_rendezvous *r, gs_comm *c) {
    gs_gloo_state *s = c->state;
    gs_meeting *m;
    GS_TRY(gs_meeting_open(r, &m));
    pthread_mutex_init(&s->list, NULL);
    gs_status status = listen_and_meet(r, m, c);
    gs_meeting_close(m);
    if (status != GS_OK) gs_gloo_disconnect(s, r->size);
    return status;
}

/* Whatever watches Gloo's connections must end before they do. */
void gs_gloo_disconnect(gs_gloo_state *s, int size) {
    gs_gloo_free_mailboxes(s);
    gs_gloo_free_ears(s, size);
    gs_direct_free(s->direct);
    gs_watch_free(s->watch);
    gs_gloo_free(s->gloo);
    gs_processes_unwatch(size, s->process);
    gs_links_free(s->links);
    free(s->address);
    free(s->host);
    free(s->heard);
    pthread_mutex_destroy(&s->list);
}
