/* The messages of each rank in one sum or collective, as lists that comm/virtual/play.h executes.
 *
 * No list is written by hand. The scheme's or collective's code runs once for each rank, on a comm whose send and recv
 * record their arguments. This works for code whose messages do not depend on their contents: all of src/sync/ except
 * `auto`, and all collectives of collectives.c. Buffers hold no data, and nothing is added (gs_transport.added).
 *
 * In a ring every rank does the same with its neighbours, on chunks (core/shard.h) equally far from its own. They share
 * one list, which counts ranks and chunks relative to the rank, modulo N:
 *
 *     ring of 3     send chunk 0 to 1, receive chunk -1 from -1, add it,   send chunk 1 to 1, receive chunk 0 from -1,
 *                   send chunk -1 to 1, receive chunk -2 from -1, add it,  send chunk 0 to 1, receive chunk -1 from -1
 */
#pragma once

#include "comm/virtual/play.h"
#include "sync/sync.h"

typedef struct gs_message_lists_key {
    const gs_sync_scheme *scheme; /* NULL: the collective `call` */
    gs_sync_array array;          /* with scheme */
    gs_call call;
    int ranks;
} gs_message_lists_key;

/* All members zero: no lists. */
typedef struct gs_message_lists {
    struct gs_message_lists_entry *first;
    bool apart; /* never share a list; for tests */
} gs_message_lists;

/* *out: a list per rank of the group, or one shared by all; owned by `lists`. Recorded on first use. GS_E_MEMORY. */
gs_status gs_message_lists_of(gs_message_lists *lists, const gs_message_lists_key *,
                              const gs_virtual_list **out);
void gs_message_lists_free(gs_message_lists *);
