/* The addresses of this machine. Other machines reach it at the address of its route to them. Only for src/comm/ and
 * the launcher. */
#pragma once

#include <netdb.h>
#include "comm/comm.h"

/* The numeric address of the interface `what` ("eth0"; IPv4 preferred), or `what` itself if it is an address of this
 * machine. GS_E_USAGE: it is neither; the message lists the machine's addresses. */
gs_status gs_route_address(const char *what, char *address, size_t size);

/* The source address of this machine's default route, found without sending anything. False: there is no route. */
bool gs_route_default(char *address, size_t size);

/* The numeric address and port of this end of a socket; false, "" and 0 if they are unknown. */
bool gs_route_of(int socket, char *address, size_t size, int *port);

/* A socket that listens on the first usable one of these addresses, on `port` (0: any). -1: *error is an errno. */
int gs_route_listen(const struct addrinfo *found, int port, int *error);

/* The text " (eth0)" for an address of this machine, else "". Returns `text`. */
const char *gs_route_interface(const char *address, char *text, size_t size);

/* True for an address that means the local machine on every machine. */
bool gs_route_is_local(const char *address);

/* If other machines cannot reach `host`: "127.0.1.1 (anna), where the ranks meet, is only this machine: ..."; else "".
 * holds: the store is on this machine, and the text says at which address other machines reach it. Returns `text`. */
const char *gs_route_only_here(const char *host, int port, bool holds, char *text, size_t size);

/* Give this hint once, to `tell` (may be NULL), when ranks have waited for 1.5 s since `begin` (gs_awake_seconds). */
typedef struct gs_route_hint {
    void (*tell)(const char *sentence); /* NULL once the hint is given */
    double begin;
} gs_route_hint;
void gs_route_tell_only_here(gs_route_hint *, const char *host, int port, bool holds);

/* All addresses: "lo 127.0.0.1, eth0 10.0.0.7". */
void gs_route_list(char *text, size_t size);
