/* Memory that several processes of one machine see. It has no name and no file: when the last of them ends, in
 * whatever way, it is gone. Only for src/sync/.
 */
#ifndef GS_SYNC_SEGMENT_H
#define GS_SYNC_SEGMENT_H

#include <stddef.h>
#include "core/error.h"

typedef struct gs_segment {
    unsigned char *base; /* at another address in each process: refer to a place by its distance from here */
    int file;
} gs_segment;

/* Addresses, not memory: pages come when they are reserved. */
#define GS_SEGMENT_BYTES ((size_t)1 << 36)

/* Make one, filled with zeros. */
gs_status gs_segment_create(gs_segment *);

/* See the one that process `pid` has open as `file`. GS_E_FILE: this process may not, or it is not there. */
gs_status gs_segment_open(gs_segment *, long pid, int file);

void gs_segment_close(gs_segment *);

/* Have memory for these bytes, now: without this a machine out of memory would end the process that touches
 * them. GS_E_MEMORY. Reserving twice is no mistake. */
gs_status gs_segment_reserve(const gs_segment *, size_t at, size_t bytes);

/* Give whole pages among these bytes back. */
void gs_segment_release(const gs_segment *, size_t at, size_t bytes);

#endif
