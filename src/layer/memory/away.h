/* Where operators cannot work outside of the device's memory (cl), --offload activations gives each y that is put away
 * two lives at the same place, as recompute.h does, and a copy elsewhere in between. They go by units: the layers of
 * the outermost sequence that have something to put away (a y with --offload activations, weights with --offload
 * weights), each with those after it that have nothing or work in place; or its segments.
 *
 *     forward     unit i | i + 1          | i + 2              | i + 3: others may lie there
 *     its y       made   | read, put away | still on its way   |
 *     backward                              unit i + 2         | i + 1  | i
 *     its y                                 brought            | read   | read
 *
 * So three units' y are there at any moment. Those of the last three stay: backward wants them at once.
 */
#pragma once

#include "layer/memory/dx_places.h"

/* Number the units of the root's children (gs_layer_memory.unit). Returns how many there are. */
int gs_away_units(gs_layer *root);

/* In gs_layer_bind, when all y have lives and gs_recompute_plan has chosen segments: let those y go that are to be put
 * away, and mark them in arena->away_floats (room for one each, zeros). */
void gs_away_plan(gs_layer *root, gs_lives *);

/* Backward comes to child i of the root: those that are brought from then on are there again. */
void gs_away_back(gs_dx_places *, gs_layer *root, int i);
