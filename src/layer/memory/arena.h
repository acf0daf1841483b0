/* Buffers of different lives in one piece of memory: two that are never needed at the same moment may lie at the same
 * place. Who lives when is known before the first step (dx_places.h), so places are chosen once.
 *
 *     place  ^          y of layer 3, until its backward is done
 *            |  [ y3 ][ dx1  ]
 *            |  [ y2         ][ ... ]
 *            |  [ y1                       ]
 *            +-----------------------------> time: the steps of backward
 *
 * Source of the placing: Pisarchyk, Lee, "Efficient memory management for deep neural net inference" (arXiv
 * 2001.03288, 2020): one after the other, the largest first, each at the lowest place that is free all its life. Here
 * two orders are tried, and the better one is kept.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include "core/error.h"

enum { GS_FOREVER = 1 << 30, GS_LIFE_LINE = 16 /* floats of a cache line: places are multiples of it */ };

/* A buffer, needed from step `born` to step `dies`, both included; where `back` is later than `away`, not in the steps
 * between these two. Then its content is made twice (recompute.h). */
typedef struct gs_life {
    size_t floats;
    int born, away, back, dies;
    size_t at; /* its place, in floats */
} gs_life;

typedef struct gs_lives {
    gs_life *life;
    size_t count, room;
} gs_lives;

static inline bool gs_life_has_gap(const gs_life *l) {
    return l->back > l->away;
}

/* So many numbers, in 16 bits with `half`. Returns the number of the new one, without a gap; below 0: no memory. */
int gs_lives_add(gs_lives *, size_t numbers, bool half, int born, int dies);
void gs_lives_free(gs_lives *);

/* Choose the places. No buffer lies across a multiple of `most` floats, so that each such part can be an allocation of
 * its own; a longer buffer begins at such a multiple. *end: floats up to the end of the last one. GS_E_MEMORY. */
gs_status gs_lives_place(gs_lives *, size_t most, size_t *end);

/* The most floats that live at the same moment: no placing needs less. */
size_t gs_lives_least(const gs_lives *);
