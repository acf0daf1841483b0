/* If operators cannot work outside of the device's memory (cl), --offload activations gives each offloaded y two
 * lifetimes at the same offset, as recompute.h does, and a copy elsewhere in between. They move by units: the layers of
 * the outermost sequence that have something to offload (a y with --offload activations, weights with --offload
 * weights), each with those after it that have nothing or work in place; or its segments.
 *
 *     forward     unit i | i + 1          | i + 2              | i + 3: others may lie there
 *     its y       made   | read, offload  | still on its way   |
 *     backward                              unit i + 2         | i + 1  | i
 *     its y                                 fetched            | read   | read
 *
 * Three units' y are in memory at any time. Those of the last three stay: backward needs them at once. */
#pragma once

#include "layer/memory/buffer_plan.h"

/* Number the units of the root's children (gs_layer_memory.unit). Returns how many there are. */
int gs_offload_units(gs_layer *root);

/* In gs_layer_bind, when all y have lifetimes and gs_recompute_plan has chosen segments: end the first lifetime of each
 * y to be offloaded, and mark it in arena->offloaded_floats (room for one each, zeros). */
void gs_offload_plan(gs_layer *root, gs_lifetimes *);

/* Backward reaches child i of the root: the y that are fetched from then on return. */
void gs_offload_plan_fetch(gs_buffer_plan *, gs_layer *root, int i);
