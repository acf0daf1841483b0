/* The lists of all ranks of a group for one sum or collective, recorded when they are first wanted. */
#pragma once

#include "comm/virtual/list.h"
#include "comm/call.h"
#include "sync/sync.h"

typedef struct gs_message_lists_key {
    const gs_sync_scheme *scheme; /* NULL: the collective `call` */
    gs_sync_array array;          /* of the scheme */
    gs_call call;
    int ranks;
} gs_message_lists_key;

typedef struct gs_message_lists {
    struct gs_message_lists_entry *first;
} gs_message_lists;

/* (*out)[rank] of the group, or (*out)[0] that all share (list.h); they belong to `lists`. GS_E_MEMORY. */
gs_status gs_message_lists_of(gs_message_lists *lists, const gs_message_lists_key *,
                              const gs_virtual_list **out);
void gs_message_lists_free(gs_message_lists *);
