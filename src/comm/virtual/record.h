/* A recorder: a comm whose messages go nowhere, and are written down (list.h). So the code of a scheme or of a
 * collective runs as it is, one rank after the other, and what each would send and receive is known.
 *
 * That works for code whose messages do not depend on what is in them: all of src/sync/ but `auto`, and all collectives
 * of collectives.c. There are no data: buffers may hold anything, and nothing is added to them (gs_transport.added).
 */
#pragma once

#include "comm/comm.h"
#include "comm/virtual/list.h"

typedef struct gs_recorder {
    gs_comm comm; /* comm.rank may be set before each recording */
    gs_virtual_list *list;
} gs_recorder;

/* For `ranks` ranks; it needs not be freed. What is called next is written to recorder->list. */
void gs_recorder_begin(gs_recorder *, int ranks);
