/* What the layers of a model take, measured: forward and backward of one micro-batch, slice by slice (parallel/cut.h).
 *
 * The whole model goes forward and backward again and again, on a device that is opened for this, with images drawn at
 * random (of a text: the first token again and again). The clock is read around each layer, once the device has
 * finished. After one turn that warms up, 5 to 50 more are measured, for about 10 ms a piece. Of each layer the median
 * turn counts: a step is made of such turns, and one that was disturbed has no effect. Meanwhile the device has the
 * weights and gradients of the whole model, and the activations of one micro-batch.
 *
 * Cores of one machine share its memory, and some of its caches: a busy core is slower while the others are busy too.
 * So several threads can measure the same layers at the same time (beside). All begin each forward and each backward
 * together. Each turn gives two times: the mean of all threads, and that of the slowest one.
 */
#pragma once

#include "parallel/cut.h"
#include "train/train.h"

typedef struct gs_layer_times {
    size_t samples;             /* in the micro-batch */
    int layers;                 /* children of the outermost sequence */
    double *forward, *backward; /* [layers]: seconds; 0 for a layer in the slice of another one */
    double *both;               /* their sums */
    /* As `both`, of the slowest thread: what a layer takes where threads wait for each other. Alone: as `both`. */
    double *slowest;
    /* A thread's time for all layers, by its median turns: the slowest thread's, divided by the mean. Alone: 1. */
    double uneven;
    double update; /* seconds, of all parameters; 0: not measured */
} gs_layer_times;

/* What is measured, and who else measures it. */
typedef struct gs_layer_bench {
    const gs_settings *settings; /* of the model */
    const gs_dataset *data;      /* gives the shape of a sample; the samples are not looked at */
    const char *device;
    int threads;
    size_t samples;
    const gs_tensor_group *group; /* measures this worker's part, without the group's sums; NULL: all */
    gs_comm *peers;               /* other threads that make the same call; NULL: none */
    bool updates;                 /* also an update, by the optimiser of the settings */
} gs_layer_bench;

/* *out is to be freed in any case. */
gs_status gs_layer_times_of(const gs_layer_bench *, gs_layer_times *out);

/* Times of 0. GS_E_MEMORY. */
gs_status gs_layer_times_create(int layers, gs_layer_times *out);
void gs_layer_times_free(gs_layer_times *);
