/* Which of this machine's addresses the others are to use: that of the route to them. Only for src/comm/ and the
 * launcher. */
#pragma once

#include <netdb.h>
#include <stdbool.h>
#include "comm/comm.h"

/* The address, in numbers, of an interface ("eth0"; IPv4 first) or the address itself. GS_E_USAGE: this machine has
 * neither; the message lists what it has. */
gs_status gs_route_address(const char *interface, char *address, size_t size);

/* The address from which this machine sends to other machines, by its default route. False: there is none. Nothing is
 * sent. */
bool gs_route_default(char *address, size_t size);

/* The address, in numbers, and the port of this end of a socket. False: not known; they are "" and 0 then. */
bool gs_route_of(int socket, char *address, size_t size, int *port);

/* A socket that listens at the first of these addresses where it can, at `port` (0: any). -1: *error is an errno. */
int gs_route_listen(const struct addrinfo *found, int port, int *error);

/* " (eth0)" for an address of this machine, else "". Returns `text`. */
const char *gs_route_interface(const char *address, char *text, size_t size);

/* Does the address mean the local machine, on whatever machine it is used? */
bool gs_route_is_local(const char *address);

/* How long ranks wait for others before they say that the place may be only this machine. */
#define GS_ROUTE_HINT 1.5 /* s */

/* "127.0.1.1 (anna), where the ranks meet, is only this machine: ...", if `host` is that here; else "". holds: the
 * ranks meet on this machine, and the text says at which address others find it. Returns `text`. */
const char *gs_route_only_here(const char *host, int port, bool holds, char *text, size_t size);

/* "lo 127.0.0.1, eth0 10.0.0.7" */
void gs_route_list(char *text, size_t size);
