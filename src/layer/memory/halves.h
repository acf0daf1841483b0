/* In 16 bits (device->precision) a backend that can (`narrow` in backend.h) has the activations that go from layer to
 * layer, and their gradients, in 16 bits of memory, in half the bytes: each operator computes in f32, and rounds what
 * it writes. Which ones:
 *
 *     x in f32 -> conv -> batch_norm -> relu -> conv -> ... -> linear -> logits in f32
 *                   |________ 16 bits _______|   |__ 16 bits __|
 *
 * A layer that multiplies takes x of one kind and gives y of another; so does an embedding. Of all other layers x, y,
 * dx and dy are alike (gs_layer_ops.storage): what lies between two that multiply is all in 16 bits, or none of it. A
 * residual's branches end alike too, since they are added. In f32 are:
 *
 *     the model's input and its outputs; so are those of a stage of a pipeline, which are sent to another device
 *     x and y of tanh and sigmoid: of y near 1, 16 bits would leave nothing of 1 - y^2
 *     of layers that a tensor group divides: their sums go over workers
 *     of layers that are not the library's
 *
 * Weights, their gradients, statistics and sums stay f32. What lies in f32 may still be kept in 16 bits for backward:
 * kept.h.
 */
#pragma once

#include "layer/layer.h"

/* In gs_layer_bind, when it is known who does the work of whom: gs_layer.x_half and y_half. GS_E_MEMORY. */
gs_status gs_halves_plan(gs_layer *root);
