/* How ZeRO cuts a model (zero.h): into units, and each unit into one part for each worker.
 *
 *     parameters    |  layer 0   | layer 1 |       layer 2        | 3 |
 *     units         |        unit 0        |        unit 1        | 2 |
 *     of 2 workers  |    0    |     1    |r|     0    |     1     |0|1|     r: a rest, which both hold
 *
 * A unit is a run of whole layers of the model's outermost sequence. Small layers are joined, but no unit is larger
 * than the largest layer: that one must be whole in memory at some moment anyway, and fewer units need fewer messages.
 * With --recompute the layers of a segment are in one unit, however large. A layer that lends its tensor to another one
 * (gs_layer.lent) is a unit of its own, because it is needed for longer.
 *
 * All parts of a unit have one size, so that a collective can move them; what is left over, fewer numbers than there
 * are workers, is summed, held and updated by all of them.
 */
#pragma once

#include "model/model.h"

typedef struct gs_unit {
    size_t first, count; /* its parameters, in the model's flat arrays */
    size_t own, rest;    /* count / N, of each worker; count % N, of all */
    size_t own_at;       /* where a worker's own part lies among those of all units, */
    size_t rest_at;      /* and the rest among all rests */
    int begin, end;      /* the layers begin .. end - 1 of the outermost sequence */
    bool stays;          /* from its first use to its last one; another window holds it (zero.h) */
} gs_unit;

typedef struct gs_units {
    int count;
    gs_unit *unit;    /* in the order of their parameters */
    size_t own, rest; /* of all units together */
} gs_units;

/* whole: one unit, of all layers. GS_E_MEMORY. */
gs_status gs_units_cut(const gs_model *, int workers, bool whole, gs_units *);
void gs_units_free(gs_units *);
