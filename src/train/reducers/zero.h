/* ZeRO: what the N workers of data parallelism all hold is divided among them, stage by stage.
 *
 * In plain data parallelism each worker holds all weights, all gradients and all vectors of the optimiser: N times the
 * same. But at no moment does a worker need all of them:
 *
 *     --zero 1   the optimiser's vectors     each worker updates its part of the weights, and needs its part of the
 *                                            vectors for that
 *     --zero 2   the gradients too           a sum of gradients is needed by whoever updates with it
 *     --zero 3   the weights too             a layer's weights are needed while it computes
 *
 * For N workers and a model of P floats, with an optimiser that keeps K vectors, a worker holds:
 *
 *                 weights      gradients    vectors     sends in a step, times (N - 1) / N
 *     allreduce   P            P            K P         2 P
 *     --zero 1    P            P            K P / N     2 P     reduce-scatter of gradients, all-gather of weights
 *     --zero 2    P            P / N + W    K P / N     2 P     the same, unit by unit
 *     --zero 3    P / N + W    P / N + W    K P / N     3 P     all-gather before forward, and again before backward
 *
 * W: two windows, which units of layers take in turns (../partition.h), each as large as the largest of its units; more
 * for units that stay. So the largest layer is the bound: the first one of mlp, most of it, leaves little to save.
 *
 * A step of stage 1 (an all-reduce is a reduce-scatter and an all-gather, and the update fits in between):
 *
 *                 gradients       reduce-scatter     update          all-gather
 *     worker 0    | a0 | b0 |     | a |   |          | A |   |       | A | B |      a = a0 + a1
 *     worker 1    | a1 | b1 |     |   | b |          |   | B |       | A | B |      A = weights after the update by a
 *
 * Stage 2: backward goes from the last unit to the first, and writes the gradients of a unit into one of two windows.
 * Once they are final they are reduce-scattered, by a thread beside the worker if it may have one (core/jobs.h), and
 * the window is free for the unit after the next:
 *
 *     backward    | unit 3 -> window 1 | unit 2 -> window 0 | unit 1 -> window 1 | unit 0 -> window 0 |
 *     its thread                       | sum of 3           | sum of 2           | sum of 1           | sum of 0 |
 *
 * Stage 3: in the same way the weights of the next unit are gathered into one window, while the unit in the other one
 * computes; in forward, and again in backward. (The last unit's could stay from forward to backward. It is gathered
 * again as all others are, so that what is sent is three times the model.)
 *
 * A worker with several passes (--accumulate, or more samples than it computes at once) makes the sums of stages 2 and
 * 3 in each pass, and adds them up: so the bytes are those of a step for each pass, and the weights are those of
 * allreduce within rounding. With one pass they are the same to the bit, between threads. All workers make as many
 * passes as the one with most samples.
 *
 * In a pipeline (../strategies/pipeline.c) the replicas of each of its stages do the same with what they hold, without
 * a thread. Each micro-batch is a pass, with sums of its own, and with --zero 3 gathers of its own. So --zero 1, which
 * sums once, is the usual choice there.
 *
 * With --exact the sums are those of its tree (../ordered_sums.h): a worker adds the gradients of its virtual shards
 * pair by pair, sends each part of the sum to whom it belongs, and the owner adds what comes from all workers in the
 * order of the tree. Where a worker has n virtual shards, it also holds log2(n) whole sums.
 *
 * Source: Rajbhandari, Rasley, Ruwase, He, "ZeRO: memory optimizations toward training trillion parameter models"
 * (SC 2020); gathering ahead as in Zhao et al., "PyTorch FSDP: experiences on scaling fully sharded data parallel"
 * (VLDB 2023).
 */
#pragma once

#include "train/reducer.h"

extern const gs_reducer gs_reducer_zero;
