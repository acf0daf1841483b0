/* Does anything get through to a rank? TCP retransmits what is not acknowledged, and counts how often. The kernel
 * acknowledges even for a process that hangs or is stopped. So if TCP has retransmitted several times, and has heard
 * nothing since, the network is cut or the other machine is down.
 *
 * Gloo owns its connections; they are identified here by the addresses of their two ends. Only for src/comm/.
 */
#pragma once

#include <stdbool.h>

typedef struct gs_links gs_links;

/* For the sockets of gs_mesh_connect, which need not stay open. NULL: out of memory. */
gs_links *gs_links_create(int lines, int size, const int *socket);
void gs_links_free(gs_links *); /* NULL is allowed */

/* True if nothing gets through to `rank` on one of the lines: neither what is sent to it, nor TCP's own probes. */
bool gs_links_is_silent(const gs_links *, int rank);

/* Is a line to `rank` closed, at either end? */
bool gs_links_has_ended(const gs_links *, int rank);

/* Have TCP ask about once a second whether the other end of an idle connection is still there: so that one is found
 * silent whose rank only waits, and sends nothing. It gives the connection up only long after `timeout`. */
void gs_links_probe(int socket, double timeout);
