/* Where the store of a run listens, and why it cannot. */
#include "comm/meet/store_listen.h"
#include "comm/meet/route.h"
#include "core/clock.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BACKLOG = 1024 };

/* The socket; -1 with *error: an errno. */
static int listen_at(const struct addrinfo *found, int port, int *error) {
    int s = -1, yes = 1;
    for (const struct addrinfo *a = found; a && s < 0; a = a->ai_next) {
        struct sockaddr_storage at;
        memcpy(&at, a->ai_addr, a->ai_addrlen);
        if (a->ai_family == AF_INET6)
            ((struct sockaddr_in6 *)&at)->sin6_port = htons((uint16_t)port);
        else
            ((struct sockaddr_in *)&at)->sin_port = htons((uint16_t)port);
        s = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, a->ai_protocol);
        if (s >= 0)
            setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes); /* after a run that has just ended */
        if (s >= 0 && bind(s, (struct sockaddr *)&at, a->ai_addrlen) == 0 && listen(s, BACKLOG) == 0)
            return s;
        *error = errno;
        if (s >= 0) close(s);
        s = -1;
    }
    return -1;
}

/* Does a run with this key meet at the port that is in use? Then its processes are told, so that all of them fail with
 * the same sentence, as far as they have not met yet. */
static bool is_met(const gs_meet_place *place, const unsigned char key[GS_SECRET]) {
    gs_store *other;
    bool there;
    char fault[GS_STORE_VALUE];
    snprintf(fault, sizeof fault,
             "-1 %d two nodes were started with node rank 0, or two runs meet at %s port %d: give each node "
             "a rank, and "
             "each run a port, of its own",
             (int)GS_E_USAGE, place->host, place->port);
    if (gs_store_open_tcp(&(gs_rendezvous){.timeout = 1, .ports = 1}, place, key, gs_awake_seconds() + 0.5,
                          &other) != GS_OK)
        return false;
    other->ops->put(other, "fault", fault, &there);
    other->ops->leave(other, NULL);
    other->ops->free(other);
    return true;
}

static gs_status cannot_listen(const gs_meet_place *p, int ports, const unsigned char key[GS_SECRET],
                               int error) {
    char range[32], here[200];
    if (error == EADDRNOTAVAIL) {
        gs_route_list(here, sizeof here);
        return gs_fail(
            GS_E_USAGE,
            "this is node rank 0, but no address of this machine is %s, where the ranks are to meet; "
            "its addresses are: %s",
            p->host, here);
    }
    if (error != EADDRINUSE)
        return gs_fail(GS_E_USAGE, "cannot listen at %s port %d: %s", p->host, p->port, strerror(error));
    snprintf(range, sizeof range, ports > 1 ? "s %d to %d are" : " %d is", p->port, p->port + ports - 1);
    if (ports == 1 && is_met(p, key))
        return gs_fail(
            GS_E_USAGE,
            "port %d at %s is in use: a run of gradsum with the same secret meets there already; either "
            "two nodes were started with node rank 0, or the runs need different ports",
            p->port, p->host);
    return gs_fail(GS_E_USAGE, "port%s in use at %s; choose another port for all nodes", range, p->host);
}

static gs_status open_listener(const gs_meet_place *p, int ports, const unsigned char key[GS_SECRET],
                               int *listener) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *found;
    int error = getaddrinfo(p->host, "0", &hints, &found);
    if (error != 0)
        return gs_fail(GS_E_USAGE, "cannot resolve '%s', where the ranks are to meet: %s", p->host,
                       gai_strerror(error));
    error = EADDRINUSE;
    for (int i = 0; i < ports && *listener < 0 && error == EADDRINUSE && p->port + i < 65536; i++)
        *listener = listen_at(found, p->port + i, &error);
    freeaddrinfo(found);
    return *listener >= 0 ? GS_OK : cannot_listen(p, ports, key, error);
}

static void note_where(int listener, int *port_number, char where[GS_STORE_WHERE]) {
    struct sockaddr_storage a;
    socklen_t length = sizeof a;
    char address[64] = "", port[16] = "", interface[32];
    if (getsockname(listener, (struct sockaddr *)&a, &length) == 0)
        getnameinfo((struct sockaddr *)&a, length, address, sizeof address, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV);
    *port_number = atoi(port);
    snprintf(where, GS_STORE_WHERE, "%s port %s%s", address, port,
             gs_route_interface(address, interface, sizeof interface));
}

gs_status gs_store_listen(const gs_meet_place *p, int ports, const unsigned char key[GS_SECRET],
                          int *listener, int *port, char where[GS_STORE_WHERE]) {
    *listener = -1;
    GS_TRY(open_listener(p, ports, key, listener));
    note_where(*listener, port, where);
    return GS_OK;
}
