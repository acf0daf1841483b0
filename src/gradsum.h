/* gradsum: learn data-parallel training by running it. The library in one header, to be read from top to bottom:
 *
 *     errors       gs_status, gs_message, GS_TRY
 *     devices      gs_device_list, gs_device_open
 *     data         gs_dataset_load, gs_dataset_from_labels, gs_dataset_from_targets
 *     models       texts such as "linear 64, relu, linear 10", or layers
 *     trainers     gs_trainer_create, _step, _evaluate, _predict, _save, _load, _free
 *
 * A whole program, without the checks of errors; cc program.c $(pkg-config --cflags --libs gradsum):
 *
 *     gs_dataset *train, *test;
 *     gs_trainer *trainer;
 *     gs_metrics m;
 *     gs_dataset_load("fashion-mnist-small", GS_TRAIN, &train);
 *     gs_dataset_load("fashion-mnist-small", GS_TEST, &test);
 *     gs_trainer_create(&(gs_trainer_options){.model = "lenet", .data = train, .devices = "cpu,cpu"}, &trainer);
 *     for (int i = 0; i < 100; i++) gs_trainer_step(trainer, &m);
 *     gs_trainer_evaluate(trainer, test, &m);
 *     printf("accuracy %.3f\n", m.accuracy);
 *     gs_trainer_save(trainer, "lenet.safetensors");
 *     gs_trainer_free(trainer);
 *
 * Beside it there are headers for those who look into a step, or write a part of it:
 *
 *     layer/make.h                          the layers that there are, and how to write one
 *     model/model.h, optim/optimizer.h      forward, loss, backward and update, called one by one
 *     sync/scheme.h                         the sum of gradients: the schemes, and what they are made of
 *     comm/create.h, comm/comm.h            messages and collectives between threads or processes; transports
 *     backend.h                             the operators of a device, and its memory
 *     data/order.h, core/philox.h           who sees which sample, when; random numbers
 *
 * Threads: one of them at a time may use a device, a trainer or a comm. Different ones may be used at the same time. A
 * data set is read only: any number of threads and trainers may share it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "core/api.h"
#include "core/shape.h"
#include "core/version.h"

/* ---- errors ----
 *
 * A function that can fail returns a gs_status. GS_OK is 0. On failure gs_message() is one sentence that names the
 * thing, the value found and the value wanted; it belongs to the calling thread. What a function makes (its `out`) is
 * NULL after a failure. GS_TRY(call) returns from the caller if the call fails, and passes the status on. */

#include "core/error.h"

/* ---- devices ---- */

/* An open device: a CPU, or one that speaks OpenCL. A trainer opens its own, by their names. */
typedef struct gs_device gs_device;

/* What `gradsum devices` shows of one. */
typedef struct gs_device_info {
    char name[48];         /* as gs_device_open takes it */
    char description[160]; /* the device's own name */
    char kind[16];         /* "cpu", "gpu", "accelerator" */
    int units;             /* cores or compute units */
    size_t memory;         /* bytes */
    int sub_devices;       /* into how many equal parts it can be split; 0: not at all */
    char note[200];        /* OpenBLAS's kernels, or the OpenCL platform and driver */
} gs_device_info;

/* All devices of this machine, cpu first. *out is to be freed with free(). A broken OpenCL platform is no
 * failure: it is left out, and *problem (if not NULL; static or "" ) says so. */
GS_API gs_status gs_device_list(gs_device_info **out, int *count, const char **problem);

/* Open the device called `name`: "cpu", "cl" (the first OpenCL device), "cl:P.D" (device D of platform P,
 * both from 0), or "cl:P.D/KofN" (part K, from 0, of N equal parts). `threads` are the CPU threads to use on
 * cpu (0: all cores; cl ignores it). GS_E_USAGE: not such a name. GS_E_DEVICE: there is no such device;
 * the message lists those that exist. */
GS_API gs_status gs_device_open(const char *name, int threads, gs_device **out);

/* Close a device; NULL is allowed. */
GS_API void gs_device_close(gs_device *);

/* Some OpenBLAS versions do not know the newest CPUs and take an AVX-512 machine for an AVX2 one: half the
 * speed, or worse. The choice is made when the library loads, so the only way to correct it is to set OPENBLAS_CORETYPE
 * and start again: call this first in main(), with main's argv; it returns if there is nothing to correct or
 * the variable is set. `gradsum` does so: without it, products may be slower, and have other bits than there. */
GS_API void gs_cpu_choose_kernels(char **argv);

/* ---- data ---- */

/* Samples, all of one shape, and what is to be learned of each: a label (a class, from 0), a label for each of its
 * tokens, or numbers. Kept are bytes of images, which a model sees as (byte / 255 - mean) / std; numbers, which it sees
 * as they are; or a text, of which samples are windows. */
typedef struct gs_dataset gs_dataset;

typedef enum gs_split { GS_TRAIN, GS_TEST } gs_split;

/* Load one split. `where`: "fashion-mnist" (the full set from Debian's dataset-fashion-mnist; GS_E_FILE names the
 * package if it is not installed), "fashion-mnist-small" (the subset that comes with gradsum: 6,000 + 1,000),
 * "colour-fashion" or "colour-fashion-small" (grey images, made colourful), "jargon" or "text:" and a file (a text),
 * a FILE.csv, or a folder: with MNIST's files, CIFAR's, NumPy's (.npy), or pictures (train/CLASS/NAME.jpg,
 * val/CLASS/NAME.jpg).
 * GS_E_FILE: cannot be read. GS_E_FORMAT: the message names the file, what was found and what was wanted (truncated,
 * empty, wrong magic, counts that differ, sizes of 0 or absurd, a damaged gzip stream, trailing bytes). */
GS_API gs_status gs_dataset_load(const char *where, gs_split split, gs_dataset **out);

/* A set of `count` samples from memory: `shape` floats and a label each. Everything is copied: inputs (count, shape),
 * labels (count), which become bytes. `name` is for messages. GS_E_USAGE: no samples, or a shape without elements.
 * GS_E_FORMAT: the message names the first label outside 0 to 255. */
GS_API gs_status gs_dataset_from_labels(const char *name, size_t count, gs_shape shape, const float *inputs,
                                        const int32_t *labels, gs_dataset **out);

/* The same with `each` labels for every sample, one for each token: labels (count, each). */
GS_API gs_status gs_dataset_from_token_labels(const char *name, size_t count, gs_shape shape,
                                              const float *inputs, int each, const int32_t *labels,
                                              gs_dataset **out);

/* The same where the target of a sample is not a class but `outputs` floats: for GS_REGRESSION. */
GS_API gs_status gs_dataset_from_targets(const char *name, size_t count, gs_shape shape, const float *inputs,
                                         int outputs, const float *targets, gs_dataset **out);

/* How many samples there are, and the shape of each. */
GS_API size_t gs_dataset_count(const gs_dataset *);
GS_API gs_shape gs_dataset_shape(const gs_dataset *);

/* Copy samples order[0..n-1] (order NULL: samples first..first+n-1) into `inputs`, bytes or floats as they are kept,
 * and their labels as int32, or their targets, into `targets` (either may be NULL). Bytes become numbers later, on the
 * device. A text's windows are those of testing, or of training with a shift of 0. What is in memory never fails;
 * pictures in files may, with GS_E_FILE, GS_E_FORMAT or GS_E_MEMORY. */
GS_API gs_status gs_dataset_gather(const gs_dataset *, const uint32_t *order, size_t first, size_t n,
                                   void *inputs, void *targets);

/* NULL is allowed. */
GS_API void gs_dataset_free(gs_dataset *);

/* ---- models ---- */

/* Layers: made by constructors (layer/make.h), which nest, and given to a trainer or a model:
 *
 *     gs_layer *net = gs_sequential(3, (gs_layer *[]){gs_linear(16, true), gs_tanh(), gs_linear(1, true)}); */
typedef struct gs_layer gs_layer;

/* Or written as a text: "linear 16, tanh, linear 1", "conv 32 3x3 pad 1, relu, max_pool 2, flatten, linear 10",
 * "2 x (conv 32 3x3 pad 1, relu), residual (linear 8, relu, linear 8)"; `gradsum model --help` has the grammar. Or as a
 * name that stands for one: "mlp", "lenet", "resnet20", "gpt". Shapes follow from that of a sample.
 *
 * A layer of your own gets a word there: from now on `make` makes it, where the text has this word. So it can be
 * trained by several workers, saved and loaded. Call it before other threads use models. GS_E_USAGE: the word is taken,
 * or it is none. */
GS_API gs_status gs_model_add_layer(const char *word, gs_layer *(*make)(void));

/* The loss of a sample, and what its targets are: labels (one int32 for each sample, or for each of its tokens) or
 * values (floats, as many for each sample as the model has outputs). y: the model's outputs for it, k of them. */
typedef enum gs_loss {
    GS_SOFTMAX_CROSS_ENTROPY, /* labels:  -log softmax(y)[label]; in training perhaps with label_smoothing */
    GS_MEAN_SQUARED_ERROR,    /* labels:  (1/k) sum_j (y[j] - (j == label))^2 */
    GS_REGRESSION,            /* values:  (1/k) sum_j (y[j] - value[j])^2 */
} gs_loss;

/* ---- trainers ---- */

/* A model, its optimiser, and one or more workers that train it together: in a step each computes the gradient of its
 * part of the batch, the gradients are summed, and all make the same update. A worker is a thread with a device of its
 * own, which lives as long as the trainer.
 *
 * All that it does is what `gradsum train` does: with the same settings the weights are the same bits after as many
 * steps. If a worker fails in a call (a lost device, a picture that cannot be decoded, GS_E_DIVERGED: the loss is not
 * finite), all later calls fail with the same message, until gs_trainer_load or gs_trainer_free. After any other
 * failure the trainer is as it was. */
typedef struct gs_trainer gs_trainer;

/* What is left out, or 0, has the default of `gradsum train`. Data and strings must live as long as the trainer. */
typedef struct gs_trainer_options {
    const char *model;      /* its text or its name; NULL: "mlp" */
    gs_layer *layers;       /* or layers, which are the trainer's from here on, also if it cannot be made */
    const gs_dataset *data; /* to train on: always needed */
    const char *devices;    /* one worker on each: "cpu,cpu", "cl:0.0/0of2,cl:0.0/1of2"; NULL: "cpu" */
    int threads;            /* CPU threads of each cpu worker; 0: the cores divided among the workers */
    size_t batch;          /* samples of a step, of all workers together; 0: 128, or all if there are fewer */
    gs_loss loss;          /* 0: GS_SOFTMAX_CROSS_ENTROPY */
    const char *optimizer; /* "sgd", "nesterov", "adam", "adamw", "lars", "lamb", "lion"; NULL: "sgd" */
    float lr;              /* learning rate; 0: the optimiser's usual one, of sgd 0.05 */
    float momentum;        /* 0: the usual one, of sgd 0.9 (`more` can say "--momentum 0") */
    float weight_decay;    /* 0: the usual one, of most none */
    uint64_t seed;         /* of the weights, the order of samples and dropout; 0: 1 */
    const char *scheme;    /* how gradients are summed: "ring", "tree", "ps", ...; NULL: "allreduce" */
    /* Further options, as `gradsum train --help` has them: "--clip 1 --schedule cosine --epochs 5 --exact". Without
     * --epochs and --steps there is no last step, and so no schedule that falls. Not those that say how data are read
     * (--labels, --context), or what happens around a training: --save, --load, --resume, --checkpoint and so on. */
    const char *more;
} gs_trainer_options;

/* What a step or an evaluation gives. */
typedef struct gs_metrics {
    double loss;     /* the mean over its samples; of samples with several labels, over all labels */
    double accuracy; /* the share of labels that have the largest output; says nothing of GS_REGRESSION */
    size_t samples;
} gs_metrics;

/* Make a trainer and its workers. Errors:
 *
 *     GS_E_USAGE     an option makes no sense, or does not go with another; the data do not suit the loss
 *     GS_E_MODEL     the text of the model is wrong; the message says where
 *     GS_E_SHAPE     the layers do not fit the samples
 *     GS_E_FORMAT    a label is outside of the model's classes; the message names the sample
 *     GS_E_DEVICE    there is no such device
 *     GS_E_MEMORY, GS_E_OPENCL, GS_E_FILE */
GS_API gs_status gs_trainer_create(const gs_trainer_options *, gs_trainer **out);

/* Ends its threads. At any time; NULL is allowed. */
GS_API void gs_trainer_free(gs_trainer *);

/* One step over the next global batch. Each epoch goes through all samples once, in an order of its own; the last batch
 * of an epoch has what is left. *metrics: of this batch, before the update; NULL is allowed. GS_E_USAGE: all steps that
 * --epochs or --steps asked for are made. GS_E_DIVERGED. */
GS_API gs_status gs_trainer_step(gs_trainer *, gs_metrics *metrics);

/* Steps made so far, those before a gs_trainer_load included; and steps of an epoch. */
GS_API uint64_t gs_trainer_steps(const gs_trainer *);
GS_API uint64_t gs_trainer_steps_per_epoch(const gs_trainer *);

/* Loss and accuracy over a whole set. Each worker takes a part. The result is the same for any number of
 * workers. GS_E_SHAPE, GS_E_FORMAT, GS_E_USAGE: it does not suit the model, as in gs_trainer_create. */
GS_API gs_status gs_trainer_evaluate(gs_trainer *, const gs_dataset *, gs_metrics *);

/* The model's outputs for `count` samples in memory, any number of them: inputs (count, shape of a sample) ->
 * outputs (count, gs_trainer_outputs), before any softmax. Where the training data are images, inputs are their pixels
 * from 0 to 1; else they are numbers or tokens as in training. GS_E_FORMAT: a token that the model does not know.
 * GS_E_USAGE: the model is divided among the workers (--pipeline, --tensor, --zero 3). */
GS_API gs_status gs_trainer_predict(gs_trainer *, size_t count, const float *inputs, float *outputs);
GS_API size_t gs_trainer_outputs(const gs_trainer *); /* floats for each sample */

/* All weights, in the order of the layers, and behind them what layers keep besides (running statistics):
 * gs_trainer_weights floats. GS_E_USAGE, of write: the model is divided. GS_E_DIVERGED, of read: a weight is not
 * finite. */
GS_API size_t gs_trainer_weights(const gs_trainer *);
GS_API gs_status gs_trainer_read_weights(gs_trainer *, float *weights);
GS_API gs_status gs_trainer_write_weights(gs_trainer *, const float *weights);

/* Write weights, and what training needs to go on, to a safetensors file, which PyTorch and `gradsum eval --load` read;
 * whole or not at all. GS_E_FILE. GS_E_DIVERGED: a weight is not finite. */
GS_API gs_status gs_trainer_save(gs_trainer *, const char *path);

/* Go on from such a file, or from the newest checkpoint in a folder, as if training had never stopped: to the same
 * bits. Rates, clipping and the like are this trainer's, whatever those of the file's run were. A file with weights
 * alone gives these, and training begins at step 0. The workers are made anew; after a failure the trainer is as it
 * was. GS_E_FILE; GS_E_FORMAT: it is damaged; GS_E_SHAPE: it holds another model; GS_E_USAGE: it was trained with
 * another option (batch, optimizer, momentum, seed, loss) or on other data. */
GS_API gs_status gs_trainer_load(gs_trainer *, const char *path);
