/* The store of a run (store.h): a list of pairs in the memory of one process, the launcher of node rank 0, or rank 0
 * where something else has started the processes. A thread talks with all who call:
 *
 *     caller                                              store
 *     handshake of handshake.h            <->
 *     put "rank-1", its rank info          ->
 *                                         <-   done; or: it is there already
 *     news?                                ->
 *                                         <-   the pairs that it has not seen, as soon as there are any
 *     bye                                  ->
 *
 * Whoever connects is a stranger until it has proven that it knows the run's key. A stranger that has not done so in 2
 * s, or says anything else, is dropped and counted. Where there are 256 of them, the oldest is dropped. A member that
 * leaves without a word, as when it is killed, is told to the others: the store itself puts "gone-R" for the "rank-R"
 * that it had put.
 *
 * Only for src/comm/ and the launcher.
 */
#pragma once

#include "comm/rendezvous/store.h"

typedef struct gs_store_server gs_store_server;

/* Listen at the first free one of `ports` ports from place->port on (0: any free one). GS_E_USAGE: the host is not this
 * machine; or the ports are in use. */
gs_status gs_store_server_create(const gs_endpoint *, int ports, const unsigned char key[GS_SECRET],
                                 gs_store_server **out);

/* Until then callers wait. The thread is a part of its own because a launcher forks before. GS_E_MEMORY. */
gs_status gs_store_server_start(gs_store_server *);

int gs_store_server_port(const gs_store_server *);

/* Where it listens: "10.0.0.7 port 29400 (eth0)". */
const char *gs_store_server_where(const gs_store_server *);

/* How many connections were turned away. */
long gs_store_server_strangers(gs_store_server *);

/* Wait until `members` have connected and gone again, for `seconds` at most. */
void gs_store_server_linger(gs_store_server *, int members, double seconds);

void gs_store_server_free(gs_store_server *); /* NULL is allowed */
