/* ZeRO: the N workers of data parallelism divide, stage by stage, what each of them would otherwise hold whole.
 *
 * In plain data parallelism each worker holds all weights, all gradients and all optimiser vectors: N copies. But a
 * worker never needs all of these at the same time:
 *
 *     --zero 1   the optimiser's vectors     each worker updates its part of the weights, with its part of the vectors
 *     --zero 2   also the gradients          only the worker that updates with a sum of gradients needs it
 *     --zero 3   also the weights            a layer's weights are needed only while it computes
 *
 * For N workers and a model of P floats, with an optimiser that keeps K vectors, a worker holds:
 *
 *                 weights      gradients    vectors     sent per step, times (N - 1) / N
 *     allreduce   P            P            K P         2 P
 *     --zero 1    P            P            K P / N     2 P     reduce-scatter of gradients, all-gather of weights
 *     --zero 2    P            P / N + W    K P / N     2 P     the same, unit by unit
 *     --zero 3    P / N + W    P / N + W    K P / N     3 P     all-gather before forward, and again before backward
 *
 * W is the size of two windows, which the units of layers use alternately (../partition.h), each as large as the
 * largest unit that uses it; and of one more window for each unit that stays. The largest layer therefore limits the
 * saving: mlp's first layer is most of the model, so there is little to save.
 *
 * A step in stage 1 (an all-reduce is a reduce-scatter followed by an all-gather; the update fits in between):
 *
 *                 gradients       reduce-scatter     update          all-gather
 *     worker 0    | a0 | b0 |     | a |   |          | A |   |       | A | B |      a = a0 + a1
 *     worker 1    | a1 | b1 |     |   | b |          |   | B |       | A | B |      A = weights after the update by a
 *
 * Stage 2: backward runs from the last unit to the first, and writes a unit's gradients to one of two windows. Once
 * final, they are reduce-scattered, by a thread if possible (core/jobs.h). The window is then free for the next unit
 * but one:
 *
 *     backward    | unit 3 -> window 1 | unit 2 -> window 0 | unit 1 -> window 1 | unit 0 -> window 0 |
 *     its thread                       | sum of 3           | sum of 2           | sum of 1           | sum of 0 |
 *
 * Stage 3 gathers the weights of the next unit into one window while the unit in the other window computes, in forward
 * and again in backward. (The last unit's weights could stay from forward to backward. They are gathered again like
 * those of all other units, so that a step sends exactly three times the model.)
 *
 * A worker with several passes (--accumulate, or more samples than it computes at once) performs the sums of stages 2
 * and 3 in each pass, and adds their results. A step then sends its bytes once per pass, and the weights equal those of
 * allreduce up to rounding. With one pass, between threads, they are bitwise equal. All workers make as many passes as
 * the one with the most samples.
 *
 * In a pipeline (../strategies/pipeline.c) the replicas of each stage divide what that stage holds, without a thread.
 * Each micro-batch is a pass with its own sums, and with --zero 3 its own gathers. --zero 1 sums only once per step,
 * and is therefore the usual choice for pipelines.
 *
 * With --exact the sums follow the tree of ../ordered_sums.h: a worker sends each part of its sum to the part's owner,
 * which adds the parts from all workers in the order of the tree. With n passes a worker first adds its passes pair by
 * pair, and also holds log2(n) whole sums.
 *
 * Source: Rajbhandari, Rasley, Ruwase, He, "ZeRO: memory optimizations toward training trillion parameter models"
 * (SC 2020); gathering ahead as in Zhao et al., "PyTorch FSDP: experiences on scaling fully sharded data parallel"
 * (VLDB 2023).
 */
#pragma once

#include "train/reducer.h"

extern const gs_reducer gs_reducer_zero;
