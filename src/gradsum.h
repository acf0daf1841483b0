/* gradsum: learn data-parallel training by running it. The library in one header; read it from top to bottom:
 *
 *     errors       gs_status, gs_message, GS_TRY
 *     devices      gs_device_list, gs_device_open
 *     data         gs_dataset_load, gs_dataset_from_labels, gs_dataset_from_targets
 *     models       texts such as "linear 64, relu, linear 10", or layers
 *     trainers     gs_trainer_create, _step, _evaluate, _predict, _save, _load, _free
 *
 * A whole program, without error checks; cc program.c $(pkg-config --cflags --libs gradsum):
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
 * More headers, for looking into a step, or writing a part of one:
 *
 *     layer/make.h                          all layers, and how to write one
 *     model/model.h, optim/optimizer.h      forward, loss, backward and update, called one by one
 *     sync/scheme.h                         the sum of gradients: the schemes, and their building blocks
 *     comm/create.h, comm/comm.h            messages and collectives between threads or processes; transports
 *     backend.h                             the operators of a device, and its memory
 *     data/order.h, core/philox.h           which worker sees which sample in which step; random numbers
 *
 * Threads: only one thread at a time may use a device, a trainer or a comm; different ones may be used at the same
 * time. A data set is read-only, so any number of threads and trainers may share it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "core/api.h"
#include "core/shape.h"
#include "core/version.h"

/* ---- errors ----
 *
 * A function that can fail returns a gs_status; GS_OK is 0. On failure gs_message() returns one sentence that names the
 * object, the value found and the value wanted. Each thread has its own message. After a failure, the object to be
 * created (`out`) is NULL. GS_TRY(call) returns the status from the calling function if the call fails. */

#include "core/error.h"

/* ---- devices ---- */

/* An open device: a CPU or an OpenCL device. A trainer opens its own devices, by name. */
typedef struct gs_device gs_device;

/* A device as `gradsum devices` shows it. */
typedef struct gs_device_info {
    char name[48];         /* as passed to gs_device_open */
    char description[160]; /* the device's own name */
    char kind[16];         /* "cpu", "gpu", "accelerator" */
    int units;             /* cores or compute units */
    size_t memory;         /* bytes */
    int sub_devices;       /* the number of equal parts it can be split into; 0: it cannot be split */
    char note[200];        /* OpenBLAS's kernels, or the OpenCL platform and driver */
} gs_device_info;

/* All devices of this machine, cpu first. Free *out with free(). A broken OpenCL platform is not a failure: it is
 * omitted, and *problem says so (a static text, or ""; `problem` may be NULL). */
GS_API gs_status gs_device_list(gs_device_info **out, int *count, const char **problem);

/* Open the device called `name`: "cpu", "cl" (the first OpenCL device), "cl:P.D" (device D of platform P, both from 0),
 * or "cl:P.D/KofN" (part K, from 0, of N equal parts). `threads`: CPU threads for cpu (0: one for each core; cl ignores
 * it). GS_E_USAGE: the name has another form. GS_E_DEVICE: no such device; the message lists those that exist. */
GS_API gs_status gs_device_open(const char *name, int threads, gs_device **out);

/* Close a device; NULL is allowed. */
GS_API void gs_device_close(gs_device *);

/* Some OpenBLAS versions do not know the newest CPUs and mistake an AVX-512 machine for an AVX2 one, at half the speed
 * or less. OpenBLAS chooses when it is loaded, so the only correction is to set OPENBLAS_CORETYPE and restart the
 * program. Call this first in main(), with main's argv; it returns if there is nothing to correct, or if the variable
 * is set. `gradsum` calls it; a program that does not may compute products more slowly, and with other bits. */
GS_API void gs_cpu_choose_kernels(char **argv);

/* ---- data ---- */

/* Samples of one shape, and their targets. Targets are either labels (classes, numbered from 0), one for each sample or
 * for each of its tokens, or numbers. A data set holds the bytes of images, which a model sees as (byte / 255 - mean) /
 * std; or floats, which are used unchanged; or a text, whose windows are the samples. */
typedef struct gs_dataset gs_dataset;

typedef enum gs_split { GS_TRAIN, GS_TEST } gs_split;

/* Load one split. `where`: "fashion-mnist" (the full set from Debian's dataset-fashion-mnist; GS_E_FILE names the
 * package if it is not installed), "fashion-mnist-small" (the subset that comes with gradsum: 6,000 + 1,000),
 * "colour-fashion" or "colour-fashion-small" (the grey images in colour), "jargon" or "text:FILE" (a text), a FILE.csv,
 * or a folder with the files of MNIST, CIFAR or NumPy (.npy), or with pictures (train/CLASS/NAME.jpg,
 * val/CLASS/NAME.jpg). GS_E_FILE: cannot be read. GS_E_FORMAT: the message names the file, what was found and what was
 * wanted (truncated, empty, wrong magic, counts that differ, sizes that are 0 or absurd, a damaged gzip stream,
 * trailing bytes). */
GS_API gs_status gs_dataset_load(const char *where, gs_split split, gs_dataset **out);

/* A set of `count` samples from memory, each with floats of this shape and a label. Everything is copied: inputs
 * (count, shape), and labels (count), which are stored as bytes. `name` appears in messages. GS_E_USAGE: no samples, or
 * a shape without elements. GS_E_FORMAT: the message names the first label outside 0 to 255. */
GS_API gs_status gs_dataset_from_labels(const char *name, size_t count, gs_shape shape, const float *inputs,
                                        const int32_t *labels, gs_dataset **out);

/* The same with `each` labels per sample, one for each token: labels (count, each). */
GS_API gs_status gs_dataset_from_token_labels(const char *name, size_t count, gs_shape shape,
                                              const float *inputs, int each, const int32_t *labels,
                                              gs_dataset **out);

/* The same with `outputs` floats as a sample's target instead of a class: for GS_REGRESSION. */
GS_API gs_status gs_dataset_from_targets(const char *name, size_t count, gs_shape shape, const float *inputs,
                                         int outputs, const float *targets, gs_dataset **out);

/* The number of samples, and the shape of each. */
GS_API size_t gs_dataset_count(const gs_dataset *);
GS_API gs_shape gs_dataset_shape(const gs_dataset *);

/* Copy samples order[0..n-1] (if `order` is NULL: samples first..first+n-1) into `inputs`, as bytes or floats,
 * whichever the set stores. Copy their labels, as int32, or their float targets into `targets`. Either pointer may be
 * NULL. The device converts bytes to floats later. A text gives its test windows, or its training windows with shift 0.
 * The call cannot fail for samples in memory; for pictures in files: GS_E_FILE, GS_E_FORMAT or GS_E_MEMORY. */
GS_API gs_status gs_dataset_gather(const gs_dataset *, const uint32_t *order, size_t first, size_t n,
                                   void *inputs, void *targets);

/* NULL is allowed. */
GS_API void gs_dataset_free(gs_dataset *);

/* ---- models ---- */

/* Layers. Their constructors (layer/make.h) can be nested; a trainer or a model takes the outermost layer:
 *
 *     gs_layer *net = gs_sequential(3, (gs_layer *[]){gs_linear(16, true), gs_tanh(), gs_linear(1, true)}); */
typedef struct gs_layer gs_layer;

/* A model can also be written as text: "linear 16, tanh, linear 1", "conv 32 3x3 pad 1, relu, max_pool 2, flatten,
 * linear 10", "2 x (conv 32 3x3 pad 1, relu), residual (linear 8, relu, linear 8)"; `gradsum model --help` prints the
 * grammar. Names stand for whole models: "mlp", "lenet", "resnet20", "gpt". Shapes follow from the sample's shape.
 *
 * Give your own layer a word: from now on, `make` creates the layer for this word in a text. Then several workers can
 * train it, and it can be saved and loaded. Call this before other threads use models. GS_E_USAGE: the word is taken,
 * or is not a word. */
GS_API gs_status gs_model_add_layer(const char *word, gs_layer *(*make)(void));

/* The loss of a sample, and its targets: labels (one int32 for each sample, or for each of its tokens) or values
 * (floats, as many for each sample as the model has outputs). y: the model's k outputs for the sample. */
typedef enum gs_loss {
    GS_SOFTMAX_CROSS_ENTROPY, /* labels:  -log softmax(y)[label]; label_smoothing may apply in training */
    GS_MEAN_SQUARED_ERROR,    /* labels:  (1/k) sum_j (y[j] - (j == label))^2 */
    GS_REGRESSION,            /* values:  (1/k) sum_j (y[j] - value[j])^2 */
} gs_loss;

/* ---- trainers ---- */

/* A model, its optimiser, and one or more workers that train it together. In a step each worker computes the gradient
 * of its part of the batch, the gradients are summed, and all workers make the same update. A worker is a thread with
 * its own device; it lives as long as the trainer.
 *
 * A trainer does what `gradsum train` does: after the same number of steps, the same settings give the same bits. If a
 * worker fails in a call (a lost device, a picture that cannot be decoded, GS_E_DIVERGED: the loss is not finite), all
 * later calls fail with the same message until gs_trainer_load or gs_trainer_free. After any other failure the trainer
 * is unchanged. */
typedef struct gs_trainer gs_trainer;

/* A member that is 0 means the default of `gradsum train`. Data and strings must live as long as the trainer. */
typedef struct gs_trainer_options {
    const char *model;      /* text or name; NULL: "mlp" */
    gs_layer *layers;       /* alternatively, layers; the trainer owns them, even if creating it fails */
    const gs_dataset *data; /* training data; required */
    const char *devices;    /* one worker runs on each: "cpu,cpu", "cl:0.0/0of2,cl:0.0/1of2"; NULL: "cpu" */
    int threads;            /* CPU threads of each cpu worker; 0: the cores are divided among the workers */
    size_t batch;          /* samples in a step, by all workers together; 0: 128, or all if there are fewer */
    gs_loss loss;          /* 0: GS_SOFTMAX_CROSS_ENTROPY */
    const char *optimizer; /* "sgd", "nesterov", "adam", "adamw", "lars", "lamb", "lion"; NULL: "sgd" */
    float lr;              /* learning rate; 0: the optimiser's default, for sgd 0.05 */
    float momentum;        /* 0: the default, 0.9 for sgd (`more` can say "--momentum 0") */
    float weight_decay;    /* 0: the default, usually none */
    uint64_t seed;         /* for the weights, the order of samples and dropout; 0: 1 */
    const char *scheme;    /* how gradients are summed: "ring", "tree", "ps", ...; NULL: "allreduce" */
    /* More options, as in `gradsum train --help`: "--clip 1 --schedule cosine --epochs 5 --exact". Without --epochs and
     * --steps there is no last step, and therefore no falling schedule. Options for reading data (--labels, --context),
     * or for what happens around a run (--save, --load, --resume, --checkpoint and so on), are rejected. */
    const char *more;
} gs_trainer_options;

/* The result of a step or an evaluation. */
typedef struct gs_metrics {
    double loss;     /* the mean over its samples, or over all labels if samples have several */
    double accuracy; /* the share of labels whose output is the largest; meaningless for GS_REGRESSION */
    size_t samples;
} gs_metrics;

/* Make a trainer and its workers. Errors:
 *
 *     GS_E_USAGE     an option makes no sense, or conflicts with another one; the data do not suit the loss
 *     GS_E_MODEL     the text of the model is wrong; the message says where
 *     GS_E_SHAPE     the layers do not fit the samples
 *     GS_E_FORMAT    a label is outside the model's classes; the message names the sample
 *     GS_E_DEVICE    there is no such device
 *     GS_E_MEMORY, GS_E_OPENCL, GS_E_FILE */
GS_API gs_status gs_trainer_create(const gs_trainer_options *, gs_trainer **out);

/* Ends the trainer's threads; may be called at any time. NULL is allowed. */
GS_API void gs_trainer_free(gs_trainer *);

/* One step with the next global batch. Each epoch visits all samples once, in its own order; the last batch of an epoch
 * holds the remaining samples. *metrics describes this batch before the update; `metrics` may be NULL. GS_E_USAGE: all
 * steps of --epochs or --steps are done. GS_E_DIVERGED. */
GS_API gs_status gs_trainer_step(gs_trainer *, gs_metrics *metrics);

/* The number of steps done so far, including those before a gs_trainer_load; and the number of steps in an epoch. */
GS_API uint64_t gs_trainer_steps(const gs_trainer *);
GS_API uint64_t gs_trainer_steps_per_epoch(const gs_trainer *);

/* Loss and accuracy over a whole set. The workers share the work; the result is the same for any number of them.
 * GS_E_SHAPE, GS_E_FORMAT, GS_E_USAGE: the set does not suit the model, as in gs_trainer_create. */
GS_API gs_status gs_trainer_evaluate(gs_trainer *, const gs_dataset *, gs_metrics *);

/* The model's outputs for any `count` samples in memory: inputs (count, shape of a sample) -> outputs (count,
 * gs_trainer_outputs), before any softmax. If the training data are images, inputs are pixels from 0 to 1; otherwise
 * they are floats or tokens as in training. GS_E_FORMAT: a token that the model does not know. GS_E_USAGE: the model is
 * divided among the workers (--pipeline, --tensor, --zero 3). */
GS_API gs_status gs_trainer_predict(gs_trainer *, size_t count, const float *inputs, float *outputs);
GS_API size_t gs_trainer_outputs(const gs_trainer *); /* floats per sample */

/* All weights in the order of the layers, then the other tensors that layers keep (running statistics):
 * gs_trainer_weights floats. write: GS_E_USAGE: the model is divided. read: GS_E_DIVERGED: a weight is not finite. */
GS_API size_t gs_trainer_weights(const gs_trainer *);
GS_API gs_status gs_trainer_read_weights(gs_trainer *, float *weights);
GS_API gs_status gs_trainer_write_weights(gs_trainer *, const float *weights);

/* Write the weights and the training state to a safetensors file that PyTorch and `gradsum eval --load` can read. The
 * file is written completely or not at all. GS_E_FILE. GS_E_DIVERGED: a weight is not finite. */
GS_API gs_status gs_trainer_save(gs_trainer *, const char *path);

/* Continue from a saved file, or from the newest checkpoint in a folder, as if training had never stopped: the results
 * have the same bits. Learning rates, clipping and similar settings are this trainer's, not those of the run that wrote
 * the file. With a file that holds only weights, training begins at step 0. New workers are created; after a failure
 * the trainer is unchanged. GS_E_FILE; GS_E_FORMAT: the file is damaged; GS_E_SHAPE: it holds another model;
 * GS_E_USAGE: it was trained with another option (batch, optimizer, momentum, seed, loss) or on other data. */
GS_API gs_status gs_trainer_load(gs_trainer *, const char *path);
