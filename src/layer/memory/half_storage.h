/* With 16 bits (device->precision), a backend that can (`narrow` in backend.h) stores the activations between layers,
 * and their gradients, in 16 bits: half the bytes. Each operator computes in f32 and rounds what it writes. Which
 * activations:
 *
 *     x in f32 -> conv -> batch_norm -> relu -> conv -> ... -> linear -> logits in f32
 *                   |________ 16 bits _______|   |__ 16 bits __|
 *
 * A layer that multiplies may take x of one kind and give y of the other; so may an embedding. In all other layers x,
 * y, dx and dy are alike (gs_layer_ops.storage): everything between two layers that multiply is in 16 bits, or nothing
 * is. A residual's branches end alike too, since they are added. These stay in f32:
 *
 *     the model's input and its outputs: token numbers must be exact, and a loss takes differences of logits
 *     x and y of layers whose sums have an order (tensor.h), and outside of pairs with divided sequences (sequence.h):
 *         what workers send each other there are sums and parts of them, in f32
 *     x and y of layers that are not the library's
 *
 * In a tensor group the ranks' contributions are added in f32, in memory that all layers share (gs_arena.sums), and
 * rounded once. Stages of a pipeline store the same as the whole model, wherever it is cut: activations between stages
 * are stored and travel in 16 bits if the layers on both sides store them so. If one of two devices cannot, they are
 * f32.
 *
 * Weights, their gradients, statistics and sums stay f32.
 *
 * tanh and sigmoid: backward reads the rounded y, so 1 - y^2 is off by 2^-8 at most in bf16, and by 2^-11 in f16: twice
 * as much as rounding dy to as many bits may change dx. Where y rounds to 1, the slope is 0: for tanh from |x| = 3.5 on
 * (f16: 4.5), for sigmoid from x = 6.2 on (8.3). */
#pragma once

#include "layer/layer.h"

/* In gs_layer_bind, after fusion: set gs_layer_memory.x_half and y_half. GS_E_MEMORY. */
gs_status gs_half_storage_plan(gs_layer *root);
