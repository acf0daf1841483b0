/* How processes come to be connected over Gloo: they meet in a folder, and once all are there Gloo connects each with
 * each. Then come the connections beside Gloo's, and the watch. */
#include "sync/gloo_state.h"
#include "sync/rendezvous.h"

#include <errno.h>
#include <netdb.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Can sockets of this machine have the address? Gloo does not look at what the lookup of a name returns,
 * and loses memory where none can. */
static gs_status check_address(const char *address) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found;
    int error = getaddrinfo(address, NULL, &hints, &found);
    if (error != 0)
        return gs_fail(GS_E_USAGE, "the address '%s' for the other processes is not known: %s", address,
                       gai_strerror(error));
    bool usable = false;
    for (const struct addrinfo *a = found; a && !usable; a = a->ai_next) {
        int s = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol);
        usable = s >= 0 && bind(s, a->ai_addr, a->ai_addrlen) == 0;
        if (!usable) error = errno;
        if (s >= 0) close(s);
    }
    freeaddrinfo(found);
    if (usable) return GS_OK;
    return gs_fail(GS_E_USAGE, "this machine cannot be reached at the address '%s': %s", address,
                   strerror(error));
}

/* All connections of this rank; what Gloo says where they cannot be made. */
static gs_gloo_code connect_all(const gs_rendezvous *r, const char *address, gs_gloo_state *s,
                                gs_gloo_error *e) {
    const int timeout = gs_gloo_milliseconds(r->timeout);
    gs_gloo_code code = gs_gloo_connect(r->directory, r->rank, r->size, address, timeout, &s->gloo, e);
    if (code == GS_GLOO_OK) code = gs_watch_create(s->gloo, r->rank, r->size, &s->watch, e);
    if (code == GS_GLOO_OK) code = gs_gloo_be_watched(s->gloo, s->watch, e);
    if (code == GS_GLOO_OK) code = gs_gloo_listen(s, r->rank, r->size, e);
    if (code == GS_GLOO_OK && r->size == 2 && !r->library)
        code = gs_direct_create(s->gloo, address, r->rank, timeout, &s->direct, e);
    if (code == GS_GLOO_OK) code = gs_gloo_barrier(s->gloo, timeout, e);
    if (code == GS_GLOO_OK) gs_gloo_remove_files(s->gloo);
    return code;
}

static gs_status try_to_connect(const gs_rendezvous *r, const char *address, gs_gloo_state *s) {
    gs_gloo_error e;
    gs_gloo_code code = connect_all(r, address, s, &e);
    if (code == GS_GLOO_OK) return GS_OK;
    if (code == GS_GLOO_MEMORY) return gs_fail(GS_E_MEMORY, "rank %d: no memory for Gloo", r->rank);
    if (code == GS_GLOO_ADDRESS)
        return gs_fail(GS_E_USAGE, "rank %d: this machine cannot be reached at the address '%s': %s", r->rank,
                       address, e.text);
    return gs_fail(GS_E_PEER, "rank %d: all %d ranks have come, but connecting them over %s failed: %s",
                   r->rank, r->size, address, e.text);
}

static gs_status meet_and_connect(const gs_rendezvous *r, const char *address, gs_gloo_state *s) {
    long *pid = calloc((size_t)(r->size > 0 ? r->size : 1), sizeof *pid);
    gs_status status =
        pid ? gs_rendezvous_meet(r, pid) : gs_fail(GS_E_MEMORY, "no memory for the numbers of processes");
    if (status == GS_OK) {
        signal(SIGPIPE, SIG_IGN); /* a peer that has gone is an error that write returns, not the end */
        s->process = gs_gloo_watch_processes(r->size, pid);
        if (!s->process) status = gs_fail(GS_E_MEMORY, "no memory to watch %d processes", r->size);
        if (status == GS_OK && r->size > 1) status = try_to_connect(r, address, s);
        gs_rendezvous_leave(r);
    }
    free(pid);
    return status;
}

gs_status gs_gloo_open(const gs_rendezvous *r, gs_gloo_state *s) {
    const char *address = r->address ? r->address : "127.0.0.1";
    GS_TRY(check_address(address));
    pthread_mutex_init(&s->post, NULL);
    gs_status status = meet_and_connect(r, address, s);
    if (status != GS_OK) gs_gloo_disconnect(s, r->size);
    return status;
}

/* What looks at Gloo's connections ends before they do. */
void gs_gloo_disconnect(gs_gloo_state *s, int size) {
    gs_gloo_free_letters(s);
    gs_gloo_free_ears(s, size);
    gs_direct_free(s->direct);
    gs_watch_free(s->watch);
    gs_gloo_free(s->gloo);
    gs_gloo_unwatch_processes(size, s->process);
    pthread_mutex_destroy(&s->post);
}
