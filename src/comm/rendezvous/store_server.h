/* The store of a run (store.h) as a list of pairs in the memory of one process: the launcher of node rank 0, or rank 0
 * under another launcher. One thread serves all callers:
 *
 *     caller                                              store
 *     handshake of handshake.h            <->
 *     put "rank-1", its rank info          ->
 *                                         <-   done; or: it is there already
 *     news?                                ->
 *                                         <-   the pairs that the caller has not seen, once there are any
 *     bye                                  ->
 *
 * A caller is a stranger until it has proven that it knows the run's key. A stranger that has not done so within 2 s,
 * or sends anything else, is dropped and counted. If there are 256 strangers, the oldest is dropped. If a member leaves
 * without bye, for instance because it was killed, the store puts "gone-R" for the member's "rank-R".
 *
 * Only for src/comm/ and the launcher.
 */
#pragma once

#include "comm/rendezvous/store.h"

typedef struct gs_store_server gs_store_server;

/* Listen on the first free port among the `ports` ports starting at the endpoint's (port 0: any free port). GS_E_USAGE:
 * the host is not this machine, or the ports are in use. */
gs_status gs_store_server_create(const gs_endpoint *, int ports, const unsigned char key[GS_SECRET],
                                 gs_store_server **out);

/* Start the thread; until then callers wait. This is a separate call because a launcher forks first. GS_E_MEMORY. */
gs_status gs_store_server_start(gs_store_server *);

int gs_store_server_port(const gs_store_server *);

/* Where it listens: "10.0.0.7 port 29400 (eth0)". */
const char *gs_store_server_where(const gs_store_server *);

/* The number of connections turned away. */
long gs_store_server_strangers(gs_store_server *);

/* Wait until `members` members have connected and left again, for at most `seconds`. */
void gs_store_server_linger(gs_store_server *, int members, double seconds);

void gs_store_server_free(gs_store_server *); /* NULL is allowed */
