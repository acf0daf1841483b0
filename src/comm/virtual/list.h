/* What one rank does in a collective or a scheme, as a list: its messages, and its additions.
 *
 * The lists are not written by hand. A recorder is a gs_comm whose send and recv write down what they are
 * asked for, so a list is what the scheme's own code does on that rank. play.h executes the lists of all ranks in
 * virtual time.
 *
 * In a ring all ranks do the same, each with the ranks beside it and with parts of the array (core/shard.h) that lie as
 * far from its own. They share one list, in which ranks and parts are counted from the rank, modulo N:
 *
 *     ring of 3     send part 0 to 1, receive part -1 from -1, add it,     send part 1 to 1, receive part 0 from -1,
 *                   send part -1 to 1, receive part -2 from -1, add it,    send part 0 to 1, receive part -1 from -1
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "comm/comm.h"

typedef enum gs_virtual_action {
    GS_VIRTUAL_SEND,
    GS_VIRTUAL_RECV,
    GS_VIRTUAL_ADD, /* as many bytes to as many others */
} gs_virtual_action;

typedef struct gs_virtual_move {
    union {
        size_t bytes;
        size_t part; /* of a shared list */
    };
    int32_t peer; /* of SEND and RECV: the other rank */
    gs_virtual_action action;
} gs_virtual_move;

/* All zero but `ranks`: empty. */
typedef struct gs_virtual_list {
    int ranks; /* N */
    uint32_t moves, room;
    gs_virtual_move *move;
    /* [N], of a shared list: the bytes of a message with that part, and of its floats. NULL: of one rank */
    const size_t *message, *added;
} gs_virtual_list;

/* GS_E_MEMORY. */
gs_status gs_virtual_list_add(gs_virtual_list *, gs_virtual_move);
void gs_virtual_list_free(gs_virtual_list *);

/* ---- a recorder: a comm whose messages go nowhere, and are written down ----
 *
 * So the code of a scheme or of a collective runs as it is, one rank after the other, and what each would send and
 * receive is known.
 *
 * That works for code whose messages do not depend on what is in them: all of src/sync/ but `auto`, and all collectives
 * of collectives.c. There are no data: buffers may hold anything, and nothing is added to them (gs_transport.added).
 */

typedef struct gs_recorder {
    gs_comm comm; /* comm.rank may be set before each recording */
    gs_virtual_list *list;
    /* Of a shared list: the array, of so many things of so many bytes; the part that went out last, counted from the
     * rank, and the one that came in; and whether the rank did what such a list cannot say */
    const char *array;
    size_t count, width;
    int sent, came;
    bool differs;
} gs_recorder;

/* For `ranks` ranks; it needs not be freed. What is called next is written to recorder->list. */
void gs_recorder_begin(gs_recorder *, int ranks);
