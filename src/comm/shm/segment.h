/* Memory that several processes of one machine share. It has no name and no file: when the last of them ends, in
 * whatever way, it is gone. Only for src/comm/.
 */
#pragma once

#include <stddef.h>
#include "core/error.h"

typedef struct gs_segment {
    unsigned char *base; /* at another address in each process: refer to a place by its distance from here */
    int file;
} gs_segment;

/* Address space, not memory: pages are allocated when they are reserved. */
#define GS_SEGMENT_BYTES ((size_t)1 << 36)

/* Whole pages for so many bytes. */
static inline size_t gs_segment_pages(size_t bytes) {
    return (bytes + 4095) / 4096 * 4096;
}

/* Make one, filled with zeros. */
gs_status gs_segment_create(gs_segment *);

/* Map the segment that process `pid` has open as `file`. GS_E_FILE: this process may not, or there is none. */
gs_status gs_segment_open(gs_segment *, long pid, int file);

void gs_segment_close(gs_segment *);

/* Allocate memory for these bytes now. Without this, a process that touches them on a machine out of memory would be
 * killed. GS_E_MEMORY. Reserving twice is no mistake. */
gs_status gs_segment_reserve(const gs_segment *, size_t at, size_t bytes);

/* Release the whole pages among these bytes. */
void gs_segment_release(const gs_segment *, size_t at, size_t bytes);
