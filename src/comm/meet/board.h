/* What ranks tell each other when their connections fail, at the store where they met: that of tcp://HOST:PORT stays as
 * long as the launcher of node rank 0. A rank connects again when it has something to tell. Only for src/comm/.
 */
#pragma once

#include "comm/comm.h"

typedef struct gs_board gs_board;

/* NULL: they did not meet at such a store, or there is no memory. */
gs_board *gs_board_create(const gs_rendezvous *);
void gs_board_free(gs_board *); /* NULL is allowed */

/* Replace what this rank has told. Where the store cannot be reached within a moment, nothing happens. */
void gs_board_put(gs_board *, const char *text);

/* Look for what others have told since. */
void gs_board_look(gs_board *);

/* What a rank has told; NULL: nothing. Valid until the next look. */
const char *gs_board_of(const gs_board *, int rank);

/* "10.0.0.7 port 29400" if it was tried, and could not be reached; else NULL. */
const char *gs_board_unreached(const gs_board *);
