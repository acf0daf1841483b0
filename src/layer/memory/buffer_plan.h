/* Which buffers a model needs when. The offsets follow from these lifetimes (arena.h).
 *
 * When backward begins, the y of all layers exist. A layer's y is needed until the layers after it have computed their
 * dw, and by the layer itself if its own backward reads it. Gradients of activations are short-lived: a layer's dx is
 * the dy of the layer before it, and is free once that layer has computed its own dx. A dx can therefore reuse the
 * memory of the y of a later layer, whose backward is done.
 *
 * The plan walks through backward once, when a model is bound. A layer takes a buffer for its dx, and its container
 * releases the dy's buffer.
 *
 *     residual   computes the body's dx while keeping dy for the shortcut; its own dx overwrites the body's
 *
 * The layers in a container without `plan_backward` share no buffers. */
#pragma once

#include "layer/layer.h"
#include "layer/memory/arena.h"

/* Lifetimes of a model's y and dx. */
struct gs_buffer_plan {
    gs_lifetimes lifetimes;
    size_t max_batch;
    int now;   /* steps of backward done so far */
    int rerun; /* the last step that ran a forward again; 0: none */
};

/* The memory of these buffers: chunks of `most` floats each; the last chunk may be smaller. */
enum { GS_ARENA_CHUNKS = 64 };
enum { GS_WHOLE_X, GS_WHOLE_DY, GS_WHOLE_DX, GS_WHOLES };
struct gs_arena {
    size_t most;
    gs_mem chunk[GS_ARENA_CHUNKS];
    gs_lifetimes lifetimes; /* for all buffers, with their offsets */
    /* With GS_OFFLOAD_ACTIVATIONS the y are stored here consecutively (alloc_offloaded), except those that backward
     * computes again. If operators cannot work here, these are copies (offload.h). */
    float *offloaded;
    int offloaded_count;      /* buffers below this index are y; for these: */
    size_t *offloaded_floats; /* buffer i occupies this many floats there; 0: it is only in a chunk ... */
    size_t *offloaded_at;     /* ... and begins at this offset */
    bool copies;
    /* With divided sequences: room for all tokens of a layer's x, its dy and its dx (sequence.h). */
    gs_mem whole[GS_WHOLES];
    gs_mem sums; /* for a tensor group: room for f32 sums before they are rounded to 16 bits */
    /* For sums over leaves (leaves.h): `leaf_floats` floats for each level of the tree; `lent_floats` for all leaves
     * except the first of a table that two layers use. */
    gs_mem leaf_sums, lent_leaves;
    size_t leaf_floats, lent_floats;
};

static inline bool gs_arena_is_offloaded(const gs_arena *a, int buffer) {
    return buffer >= 0 && buffer < a->offloaded_count && a->offloaded_floats[buffer] > 0;
}

/* No shared buffer: the layer has its own buffer, or none. */
enum { GS_NO_BUFFER = -1 };

/* Assign l a buffer for y; below 0: no memory. Call it before planning backward. */
int gs_buffer_plan_y(gs_buffer_plan *, gs_layer *l);

/* Plan the backward of l. Returns the buffer of its dx. dy is in buffer `dy`, which is kept. */
int gs_buffer_plan_backward(gs_layer *l, gs_buffer_plan *, int dy);

/* True if the layer's own backward reads its y. */
bool gs_layer_reads_y(const gs_layer *l);

/* Plan that backward runs the forward of l again before its next step: the y that this computes exist from then on. */
void gs_buffer_plan_rerun(gs_buffer_plan *, gs_layer *l);

/* For containers: take a buffer for the container's own dx; release a buffer. */
int gs_buffer_plan_dx(gs_buffer_plan *, gs_layer *l);
void gs_buffer_plan_release(gs_buffer_plan *, int buffer);
