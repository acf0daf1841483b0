/* The parameter server of --sync async: it holds the weights, and workers come and go at their own pace.
 *
 * It has no thread of its own. A thread that brings a gradient (gs_server_exchange) holds the lock, makes the update,
 * and takes the weights as they are then: the server is what the lock protects.
 *
 * How far the workers may run apart is bounded (clocks.h). The velocity goes on moving the weights while a worker
 * computes. So the worker gets the weights that are expected for the moment when it has finished (read_expected in
 * async_server.c).
 *
 * Sources of weights as they are expected: Hakimi, Barkai, Gabel, Schuster, "Taming momentum in a distributed
 * asynchronous environment" (arXiv:1907.11612, 2019); Chen, Yang, Cheng, "Efficient and robust parallel DNN
 * training through model parallelism on multi-GPU platform" (arXiv:1809.02839, 2018). Tried and left: a smaller step
 * for a staler gradient (Zhang, Gupta, Lian, Liu, "Staleness-aware async-SGD for distributed deep learning", IJCAI
 * 2016): mlp at lr 0.02 had 1 point less.
 */
#pragma once

#include "train/train.h"

typedef struct gs_server gs_server;

/* For all workers of w->comm, with the weights and the optimiser's numbers of `w`. On failure *out may be
 * freed. */
gs_status gs_server_create(const gs_worker *w, gs_server **out);
/* What it holds: weights, velocity, a gradient. */
size_t gs_server_bytes(const gs_server *);
void gs_server_free(gs_server *); /* NULL is allowed */

/* The next `steps` exchanges of each worker are one epoch. Call it while no exchange is under way. */
void gs_server_begin_epoch(gs_server *, size_t steps);

/* Worker `rank` gives its gradient (saved + GS_STATS floats). When it may begin its next step, it gets the weights,
 * the layers' state and the epoch's counts so far, in the same place. After the last step of an epoch it waits until
 * all have done theirs, so that all get the same. A count of GS_STAT_STOP says that a worker was asked to stop: then it
 * waits no longer. Called by several threads, each for another rank. */
gs_status gs_server_exchange(gs_server *, int rank, float *data);

/* Every exchange fails with this message, including those that wait. The first message stays. */
void gs_server_fail(gs_server *, const gs_error *);
/* GS_OK or the failure. */
gs_status gs_server_status(gs_server *);

/* The distribution of staleness so far; to be freed by gs_staleness_free. GS_E_MEMORY. */
gs_status gs_server_staleness(gs_server *, gs_staleness *out);
