/* Training: every worker holds the whole model, sees its part of the data, computes its gradient; the gradients are
 * summed, the sum reaches everyone, everyone makes the same update.
 *
 *     step.c     one step, as the theory states it: load, forward, backward, sum, update
 *     worker.c   a worker: device, replica of the model, optimiser, its rank
 *     train.c    the epochs of one worker
 *     evaluate.c inference: the test set split over the workers
 *     run.c      the workers of this process: threads, and the processes beside it
 */
#ifndef GS_TRAIN_TRAIN_H
#define GS_TRAIN_TRAIN_H

#include <stdbool.h>
#include "data/dataset.h"
#include "model/model.h"
#include "optim/sgd.h"
#include "sync/comm.h"
#include "sync/sync.h"

/* Everything that decides a run. Two runs with equal settings give equal weights. */
typedef struct gs_settings {
    const char *model;        /* name or text */
    const char *data;         /* see gs_dataset_load */
    const char *devices;      /* one worker of this process for each: "cpu,cpu", "cl:0.0/0of2,cl:0.0/1of2" */
    const char *sync;         /* "allreduce" or "ps" */
    gs_loss loss;
    size_t batch;             /* the GLOBAL batch; 0: all samples (full gradient descent) */
    int epochs;
    uint64_t steps;           /* end after so many steps; 0: no such limit */
    uint64_t seed;
    float lr, momentum, weight_decay;
    int threads;              /* CPU threads of each cpu worker; 0: the cores divided among the workers */
    size_t micro_batch;       /* most samples at once in memory; 0: GS_MICRO_BATCH */
    const char *load, *save;  /* safetensors files or NULL */
    bool measure;             /* measure the phases of some steps (costs a wait after each phase) */
    const gs_rendezvous *processes; /* the processes beside this one; NULL: none */
    double timeout;           /* seconds that a worker may wait for another */
} gs_settings;

enum { GS_MICRO_BATCH = 256 };

/* Where the time of a step goes. */
typedef enum gs_phase { GS_PHASE_DATA, GS_PHASE_FORWARD, GS_PHASE_BACKWARD, GS_PHASE_SYNC, GS_PHASE_UPDATE, GS_PHASES } gs_phase;

/* One worker's part of a run. */
typedef struct gs_worker {
    const gs_settings *settings;
    const gs_dataset *train_set, *test_set; /* shared by the workers of a process, read only */
    gs_comm *comm;
    const gs_sync_scheme *scheme;
    gs_device *device;
    gs_model *model;
    gs_sgd *sgd;
    size_t micro_batch;
    gs_mem bytes, x, labels;   /* one micro-batch on the device: (m, c, h, w) uint8, the same as f32, int32 */
    unsigned char *host_bytes; /* the same on the host */
    int32_t *host_labels;
    uint32_t *order;           /* this epoch's order of the training set */
    uint64_t step;             /* steps done */
    double phase[GS_PHASES];   /* seconds in the steps that were measured */
    uint64_t measured;         /* how many those were */
} gs_worker;

/* What one step says, the same on every worker: sums over the global batch. */
typedef struct gs_step_result {
    double loss, correct, samples;
} gs_step_result;

/* Open the device, make the replica and its buffers. local is the number of workers in this process. */
gs_status gs_worker_create(gs_worker *, const gs_settings *, const char *device, gs_comm *, int local,
                           const gs_dataset *train_set, const gs_dataset *test_set);
void gs_worker_free(gs_worker *);

/* One step over samples order[first .. first + batch - 1], the global batch. */
gs_status gs_step(gs_worker *, size_t first, size_t batch, gs_step_result *);

/* Loss and accuracy over the whole test set: each worker takes its part, only the final counts are summed. */
gs_status gs_evaluate(gs_worker *, const gs_dataset *, gs_step_result *);

/* Logits (count, classes) of samples first .. first+count-1. */
gs_status gs_predict(gs_worker *, const gs_dataset *, size_t first, size_t count, float *logits);

/* What a run reports while it goes, from rank 0 only. Any may be NULL. */
typedef struct gs_observer {
    void *context;
    void (*start)(void *context, const gs_worker *rank0);
    void (*step)(void *context, int epoch, size_t step, size_t steps, const gs_step_result *);
    void (*epoch)(void *context, int epoch, double train_loss, double train_accuracy, double test_loss,
                  double test_accuracy, double samples_per_s);
} gs_observer;

/* The outcome of a run. */
typedef struct gs_result {
    double train_loss, test_loss, test_accuracy; /* of the last epoch */
    double samples_per_s;     /* of training alone */
    uint64_t steps;
    double phase[GS_PHASES];  /* seconds per measured step, mean over this process's workers */
    size_t params;
    float *weights;           /* params floats */
    int workers;              /* of all processes */
    int rank;                 /* of this process's first worker */
} gs_result;

void gs_result_free(gs_result *);

/* Train with `settings`. On failure the message names the worker. GS_E_INTERRUPTED after SIGINT or SIGTERM. */
gs_status gs_train(const gs_settings *, const gs_observer *, gs_result *);

/* Evaluate settings->load on the test set with the same workers. result: test_loss, test_accuracy, samples_per_s. */
gs_status gs_eval(const gs_settings *, gs_result *);

/* Set by a signal handler: every worker ends after the step that it is in. */
extern volatile int gs_stop_requested;

#endif
