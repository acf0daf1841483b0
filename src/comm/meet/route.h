/* Which of this machine's addresses the others are to use: that of the route to them. Only for src/comm/ and the
 * launcher. */
#pragma once

#include <stdbool.h>
#include "comm/comm.h"

/* The address, in numbers, of an interface ("eth0"; IPv4 first) or the address itself. GS_E_USAGE: this machine has
 * neither; the message lists what it has. */
gs_status gs_route_address(const char *interface, char *address, size_t size);

/* The address from which this machine sends to other machines, by its default route. False: there is none. Nothing is
 * sent. */
bool gs_route_default(char *address, size_t size);

/* " (eth0)" for an address of this machine, else "". Returns `text`. */
const char *gs_route_interface(const char *address, char *text, size_t size);

/* Does the address mean the local machine, on whatever machine it is used? */
bool gs_route_is_local(const char *address);

/* "lo 127.0.0.1, eth0 10.0.0.7" */
void gs_route_list(char *text, size_t size);
