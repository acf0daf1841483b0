/* If operators cannot work outside the device's memory (cl), --offload activations gives each offloaded y two lifetimes
 * at the same offset, as recompute.h does, and a copy elsewhere in between. Data move in units. A unit is a layer of
 * the outermost sequence that has something to offload (a y with --offload activations, weights with --offload
 * weights), together with the layers after it that have nothing to offload or work in place; or a unit is a segment.
 *
 *     forward     unit i | i + 1          | i + 2              | i + 3: its memory is free
 *     its y       made   | read, offload  | still being copied |
 *     backward                              unit i + 2         | i + 1  | i
 *     its y                                 fetched            | read   | read
 *
 * The y of three units are in memory at any time. Those of the last three units stay: backward needs them at once. */
#pragma once

#include "layer/memory/buffer_plan.h"

/* Give the root's children the numbers of their units (gs_layer_memory.unit). Returns how many units there are. */
int gs_offload_units(gs_layer *root);

/* In gs_layer_bind, once all y have lifetimes and gs_recompute_plan has chosen segments: end the first lifetime of each
 * y to be offloaded, and set its entry in arena->offloaded_floats (one zero for each y). */
void gs_offload_plan(gs_layer *root, gs_lifetimes *);

/* Call it when the plan of backward reaches child i of the root, to plan the return of the y that are fetched then. */
void gs_offload_plan_fetch(gs_buffer_plan *, gs_layer *root, int i);
