/* Lesson 5: the functions of lab.c. src/core/shard.h and src/data/order.h have the contracts of the first two,
 * gs_shard_of and gs_epoch_order, which replace the library's own in this lab's program. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include "core/philox.h"
#include "core/shard.h"
#include "data/order.h"

/* For task 5.2: draw number i of this epoch, in 0 .. below-1, all equally likely. It depends on its arguments alone:
 * every worker gets the same answer, and none stores a state. below >= 1. */
static inline size_t lab_draw(uint64_t seed, uint64_t epoch, size_t i, size_t below) {
    uint32_t word[4];
    gs_philox(seed, gs_stream_hi(GS_STREAM_ORDER, epoch), i / 4, word);
    return (size_t)((uint64_t)word[i % 4] * below >> 32);
}

/* For checks: the orders of the epochs 1 .. epochs, concatenated. */
void lab_orders(uint64_t seed, uint64_t epochs, size_t n, uint32_t *orders);

/* gs_epoch_order or a function like it, an argument of the tasks below, so that they do not need task 5.2. */
typedef void lab_order(uint64_t seed, uint64_t epoch, size_t n, uint32_t *order);

/* Trains on one sample in an epoch. */
typedef void lab_use(void *context, uint64_t epoch, uint32_t sample);

/* Task 5.3. Use each of the samples 0 .. n-1 once in each of the epochs 1 .. epochs, in the order that `order_of` gives
 * for that epoch. `order` has room for n. */
void lab_epochs(uint64_t seed, uint64_t epochs, size_t n, lab_order *order_of, uint32_t *order, lab_use *use,
                void *context);

/* Task 5.4. The samples of one epoch, some of them held out to judge the network on samples it has not seen:
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

/* Task 5.5. One step of a model with a single weight. A sample's loss is (w x - y)^2 / 2, its gradient (w x - y) x.
 * Returns
 *
 *     w - lr (sum of the gradients of all samples of the global batch) / (number of these samples)
 *
 * or w if there are no samples. dw[r] stores worker r's gradient. As in the framework, it exists for the whole run, and
 * still holds the value of the step before. */
double lab_step(double w, double lr, int workers, const lab_part *parts, double *dw);
