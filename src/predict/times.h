/* Measured times of a model's layers, the children of the outermost sequence: forward and backward of one micro-batch.
 *
 * The whole model runs forward and backward repeatedly, on a device opened for this, with random images (of a text:
 * with its first token only). The clock is read around each layer, after the device has finished. One turn warms up; 5
 * to 50 more are measured, about 5 ms per layer. The median turn of each layer counts, so that a few disturbed turns
 * have no effect. Meanwhile the device holds weights and gradients of the whole model, and the activations of one
 * micro-batch.
 *
 * Cores of one machine share its memory, and some of its caches: a core is slower while the others are busy too. So
 * several threads (peers) can measure the same layers at once. They begin each forward and each backward of a layer
 * together. Each turn gives two times: the mean of all threads, and the slowest thread's.
 */
#pragma once

#include "parallel/cut.h"
#include "train/train.h"

typedef struct gs_layer_times {
    size_t samples;             /* in the micro-batch */
    int layers;                 /* children of the outermost sequence */
    double *forward, *backward; /* [layers]: seconds; 0 for a layer that another one computes */
    double *both;               /* their sums */
    double *slowest; /* `both` of the slowest thread: a layer's time if threads wait for each other */
    double uneven;   /* median time of all layers: the slowest thread's, divided by the mean; one thread: 1 */
    double update;   /* seconds, of all parameters; 0: not measured */
} gs_layer_times;

typedef struct gs_layer_bench {
    const gs_settings *settings; /* of the model */
    const gs_dataset *data;      /* for the shape of a sample; its samples are not read */
    const char *device;
    int threads;
    size_t samples;
    const gs_tensor_group *group; /* measure this worker's part, without the group's sums; NULL: all */
    gs_comm *peers;               /* other threads that make the same call; NULL: none */
    bool updates;                 /* also measure an update by the settings' optimiser */
} gs_layer_bench;

/* *out must be freed even after an error. */
gs_status gs_layer_times_of(const gs_layer_bench *, gs_layer_times *out);

/* Times of 0. GS_E_MEMORY. */
gs_status gs_layer_times_create(int layers, gs_layer_times *out);
void gs_layer_times_free(gs_layer_times *);
