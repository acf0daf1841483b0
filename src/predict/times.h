/* Measures the times of a model's layers (children of the outermost sequence): forward and backward of one micro-batch.
 *
 * The whole model runs forward and backward repeatedly, on a device opened for this purpose, with random images (or,
 * for text, only the vocabulary's first token). The clock is read around each layer, after the device has finished.
 * After one warm-up turn, 5 to 50 turns are measured, about 5 ms per layer. Each layer's median counts, so that a few
 * disturbed turns have no effect. Meanwhile the device holds weights and gradients of the whole model, and the
 * activations of one micro-batch.
 *
 * The cores of a machine share its memory and some of its caches: a core is slower while others are busy. Several
 * threads (peers) can therefore measure the same layers at the same time. They begin each layer's forward and backward
 * together. Each turn gives two times per layer: the mean over all threads, and that of the slowest thread.
 */
#pragma once

#include "parallel/cut.h"
#include "train/train.h"

typedef struct gs_layer_times {
    size_t samples;             /* in the micro-batch */
    int layers;                 /* children of the outermost sequence */
    double *forward, *backward; /* [layers]: seconds; 0 for a layer that an earlier one computes */
    double *both;               /* forward + backward */
    double *slowest; /* `both` on the slowest thread: a layer's time if threads wait for each other */
    double uneven;   /* median time of all layers on the slowest thread, divided by the mean; one thread: 1 */
    double update;   /* seconds, for all parameters; 0: not measured */
} gs_layer_times;

typedef struct gs_layer_bench {
    const gs_settings *settings; /* with the model */
    const gs_dataset *data;      /* for the shape of a sample; its samples are not read */
    const char *device;
    int threads;
    size_t samples;
    const gs_tensor_group *group; /* measure this worker's shard, without the group's sums; NULL: all */
    gs_comm *peers;               /* other threads that make the same call; NULL: none */
    bool updates;                 /* also measure an update with the settings' optimiser */
} gs_layer_bench;

/* *out must be freed even after an error. */
gs_status gs_layer_times_of(const gs_layer_bench *, gs_layer_times *out);

/* Allocates times, all 0. GS_E_MEMORY. */
gs_status gs_layer_times_create(int layers, gs_layer_times *out);
void gs_layer_times_free(gs_layer_times *);
