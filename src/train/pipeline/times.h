/* What the layers of a model take, measured: forward and backward of one micro-batch, piece by piece (cut.h).
 *
 * Each piece is a stage of its own on a device that is opened for this, and takes the output of the piece before it, of
 * images drawn at random (of a text: of the first token again and again). After one turn that warms up it makes 3 to 50
 * more, for about 5 ms. Of these the fastest forward and the fastest backward count, so a turn that was disturbed has
 * no effect. Memory holds at any time the weights of the whole model, and the gradients and activations of one piece.
 *
 * Cores of one machine share its memory, and some of its caches: a busy core is slower while the others are busy too.
 * So several threads can measure the same pieces at the same time (beside). All begin each forward and each backward
 * together. Each turn gives two times: the mean of all threads, and that of the slowest one. Here the median turn
 * counts, not the fastest: a step is made of such turns, and with two busy cores the fastest one was 4 to 10 % faster.
 * Nor does a layer find its weights in its core's own caches here: in a step all other layers come in between.
 */
#pragma once

#include "train/pipeline/cut.h"
#include "train/train.h"

typedef struct gs_layer_times {
    size_t samples;             /* in the micro-batch */
    int layers;                 /* children of the outermost sequence */
    double *forward, *backward; /* [layers]: seconds; 0 for a layer in the piece of another one */
    double *both;               /* their sums */
    /* As `both`, of the slowest thread: what a layer takes where threads wait for each other. Alone: as `both`. */
    double *slowest;
    /* A thread's time for all layers, by its median turns: the slowest thread's, divided by the mean. Alone: 1. */
    double uneven;
} gs_layer_times;

/* What is measured, and who else measures it. */
typedef struct gs_layer_bench {
    const gs_settings *settings; /* of the model */
    const gs_dataset *data;      /* gives the shape of a sample; the samples are not looked at */
    const char *device;
    int threads;
    size_t samples;
    const gs_tensor_group *group; /* measures this worker's part, without the group's sums; NULL: all */
    gs_comm *beside;              /* other threads that make the same call; NULL: none */
} gs_layer_bench;

/* *out is to be freed in any case. */
gs_status gs_layer_times_of(const gs_layer_bench *, gs_layer_times *out);

void gs_layer_times_free(gs_layer_times *);
