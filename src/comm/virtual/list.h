/* What one rank does in a collective or a scheme, as a list: its messages, and its additions.
 *
 * The lists are not written by hand. A recorder is a gs_comm whose send and recv write down what they are
 * asked for, so a list is what the scheme's own code does on that rank. play.h executes the lists of all ranks in
 * virtual time.
 *
 * A ring of 4,096 ranks has 16,380 messages on each of them, which are the same two or three moves again and again. So
 * a list is kept as runs of moves that repeat. The other rank of a move may go on by the same step each time:
 *
 *     ring, rank 0 of 4        3 x (send 12 bytes to 1, receive 12 from 3, add 12),
 *                              3 x (send 12 to 1, receive 12 from 3)
 *     sharded_ps, rank 0       3 x (send 12 to 1, 2, 3), ...
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "comm/comm.h"

typedef enum gs_virtual_deed {
    GS_VIRTUAL_SEND,
    GS_VIRTUAL_RECV,
    GS_VIRTUAL_ADD, /* as many bytes to as many others */
} gs_virtual_deed;

typedef struct gs_virtual_move {
    uint64_t bytes;
    int32_t
        peer; /* of SEND and RECV: the other rank, the first time; each further time it is `step` more, modulo N */
    int32_t step; /* 0 .. N-1 */
    gs_virtual_deed deed;
} gs_virtual_move;

/* move[first .. first + period - 1], all of them, `times` times. */
typedef struct gs_virtual_run {
    uint32_t first, period;
    uint64_t times;
} gs_virtual_run;

/* All zero but `ranks`: empty. */
typedef struct gs_virtual_list {
    int ranks; /* N */
    gs_virtual_move *move;
    gs_virtual_run *run;
    uint32_t moves, runs, move_room, run_room;
    uint32_t
        partly; /* moves that the last run has begun to repeat once more; 0 once gs_virtual_list_end was called */
} gs_virtual_list;

/* GS_E_MEMORY. */
gs_status gs_virtual_list_add(gs_virtual_list *, gs_virtual_deed, int peer, size_t bytes);
/* After the last move. GS_E_MEMORY. */
gs_status gs_virtual_list_end(gs_virtual_list *);
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
} gs_recorder;

/* For `ranks` ranks; it needs not be freed. What is called next is written to recorder->list. */
void gs_recorder_begin(gs_recorder *, int ranks);
