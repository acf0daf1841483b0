/* With a 16-bit precision (device->precision), a backend that supports it (`narrow` in backend.h) stores the
 * activations between layers, and their gradients, in 16 bits: half the bytes. Each operator computes in f32 and rounds
 * its results. These activations are stored in 16 bits:
 *
 *     x in f32 -> conv -> batch_norm -> relu -> conv -> ... -> linear -> logits in f32
 *                   |________ 16 bits _______|   |__ 16 bits __|
 *
 * A layer that multiplies may read x in one format and write y in the other; so may an embedding. In all other layers
 * x, y, dx and dy have the same format (gs_layer_ops.storage): between two layers that multiply, either everything is
 * in 16 bits or nothing is. A residual's branches, which are added, end in the same format too. These stay in f32:
 *
 *     the model's input and outputs: token numbers must be exact, and a loss subtracts logits from each other
 *     x and y of layers whose sums have a fixed order (tensor.h), and of layers outside pairs if sequences are divided
 *         (sequence.h): there workers send each other sums and parts of sums, in f32
 *     x and y of layers from outside the library
 *
 * In a tensor group the ranks' contributions are added in f32, in memory that all layers share (gs_arena.sums), and
 * rounded once. Pipeline stages store activations as the whole model does, wherever it is cut: between stages they are
 * stored and sent in 16 bits if the layers on both sides store them so. If one of the two devices cannot, they are f32.
 *
 * Weights, their gradients, statistics and sums stay f32.
 *
 * tanh and sigmoid: backward reads the rounded y, so 1 - y^2 is off by at most 2^-8 in bf16, and 2^-11 in f16: twice
 * the change in dx that rounding dy to as many bits can cause. Where y rounds to 1, the slope is 0: for tanh from |x| =
 * 3.5 on (f16: 4.5), for sigmoid from x = 6.2 on (f16: 8.3). */
#pragma once

#include "layer/layer.h"

/* In gs_layer_bind, after fusion: set gs_layer_memory.x_half and y_half. GS_E_MEMORY. */
gs_status gs_half_storage_plan(gs_layer *root);
