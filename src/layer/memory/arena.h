/* Buffers with different lifetimes in one block of memory: two buffers that are never needed at the same time may
 * overlap. All lifetimes are known before the first step (buffer_plan.h), so offsets are chosen once.
 *
 *     place  ^          y of layer 3, until its backward is done
 *            |  [ y3 ][ dx1  ]
 *            |  [ y2         ][ ... ]
 *            |  [ y1                       ]
 *            +-----------------------------> time: the steps of backward
 *
 * Source for the offsets: Pisarchyk, Lee, "Efficient memory management for deep neural net inference" (arXiv
 * 2001.03288, 2020): the largest buffer first, each at the lowest offset that is free for its whole lifetime. Here two
 * orders are tried, and the better result is kept. */
#pragma once

#include <stddef.h>
#include "core/error.h"

enum { GS_FOREVER = 1 << 30, GS_LINE_FLOATS = 16 /* in a cache line: offsets are multiples of it */ };

/* A buffer needed from step `born` to step `dies`, inclusive. If `resume` is later than `pause`, it is not needed in
 * the steps between them: its content is computed twice (recompute.h), or it is offloaded meanwhile (offload.h). */
typedef struct gs_lifetime {
    size_t floats;
    int born, pause, resume, dies;
    size_t at; /* its offset, in floats */
} gs_lifetime;

typedef struct gs_lifetimes {
    gs_lifetime *life; /* for each buffer */
    size_t count, room;
} gs_lifetimes;

static inline bool gs_lifetime_has_gap(const gs_lifetime *l) {
    return l->resume > l->pause;
}

/* Add a buffer of `numbers` elements, 16-bit if `half`, needed without a gap. Returns its index; below 0: no memory. */
int gs_lifetimes_add(gs_lifetimes *, size_t numbers, bool half, int born, int dies);
void gs_lifetimes_free(gs_lifetimes *);

/* Choose the offsets. No buffer crosses a multiple of `most` floats, so each part between two multiples can be a
 * separate allocation; a longer buffer begins at a multiple. *end: floats up to the end of the last buffer.
 * GS_E_MEMORY. */
gs_status gs_lifetimes_place(gs_lifetimes *, size_t most, size_t *end);

/* The maximum number of floats needed at the same time: no placement needs fewer. */
size_t gs_lifetimes_peak(const gs_lifetimes *);
