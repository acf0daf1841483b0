/* Lesson 5: the functions of lab.c. The first two, gs_shard_of and gs_epoch_order, have their contract in
 * src/core/shard.h and src/data/order.h, and take the place of the library's own in this lab's program.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include "core/philox.h"
#include "core/shard.h"
#include "data/order.h"

/* For task 5.2: draw number i of this epoch, in 0 .. below-1, each as likely as the others. It is a function of its
 * arguments alone: every worker that asks gets the same answer, and nobody has to remember anything. below >= 1. */
static inline size_t lab_draw(uint64_t seed, uint64_t epoch, size_t i, size_t below) {
    uint32_t word[4];
    gs_philox(seed, gs_stream_hi(GS_STREAM_ORDER, epoch), i / 4, word);
    return (size_t)((uint64_t)word[i % 4] * below >> 32);
}

/* The orders of the epochs 1 .. epochs, one after the other. For checks. */
void lab_orders(uint64_t seed, uint64_t epochs, size_t n, uint32_t *orders);

/* gs_epoch_order or a function like it: the tasks below get it as an argument, so that they do not need task 5.2. */
typedef void lab_order(uint64_t seed, uint64_t epoch, size_t n, uint32_t *order);

/* Train on one sample in an epoch; what it does is of no interest here. */
typedef void lab_use(void *context, uint64_t epoch, uint32_t sample);

/* Task 5.3. Use each of the samples 0 .. n-1 once in each of the epochs 1 .. epochs, in the order that `order_of` gives
 * for this epoch. `order` has room for n. */
void lab_epochs(uint64_t seed, uint64_t epochs, size_t n, lab_order *order_of, uint32_t *order, lab_use *use,
                void *context);

/* Task 5.4. The samples of one epoch, some of them held out to tell how good the network is on what it has not seen:
 *
 *     validation[0 .. held_out - 1]     the same samples in each epoch
 *     train[0 .. n - held_out - 1]      all the others, in an order that changes with the epoch
 *
 * Another seed holds out other samples. 0 <= held_out <= n; epochs count from 1; `order` has room for n, to work in. */
void lab_split(uint64_t seed, uint64_t epoch, size_t n, size_t held_out, lab_order *order_of, uint32_t *order,
               uint32_t *train, uint32_t *validation);

/* One worker's part of a global batch. */
typedef struct lab_part {
    size_t count;
    const double *x, *y;
} lab_part;

/* Task 5.5. One step of a model with a single weight. The loss of a sample is (w x - y)^2 / 2, its gradient (w x - y)
 * x.
 *
 *     w - lr (sum of the gradients of all samples of the global batch) / (number of these samples)
 *
 * is the result; if there are no samples, w. dw[r] is the place for worker r's gradient; as in the framework, it is
 * there for the whole run, and holds at the beginning what the step before has left. */
double lab_step(double w, double lr, int workers, const lab_part *parts, double *dw);
