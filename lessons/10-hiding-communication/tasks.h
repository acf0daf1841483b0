/* What lesson 10 asks for, in lab.c:
 *
 *     10.1   gs_buckets_plan   where the gradients are cut: src/train/reducers/buckets.h
 *     10.2   hidden_share      when the sums of the buckets are over: below
 *     10.3   to_bf16           f32 -> bf16, to nearest even: below, and src/sync/wire.h
 *     10.4   to_f16            f32 -> f16, the same
 */
#pragma once

#include "lab.h"
#include "sync/wire.h"
#include "train/reducers/buckets.h"

/* The backward of one step, on the clock, and the buckets that are summed meanwhile. Times are in seconds. */
typedef struct timeline {
    int layers;
    const size_t *layer; /* where each begins, as in gs_buckets_plan */
    /* done[i]: when backward of layer i is done. It goes from the last layer to the first, so done[0] is the latest:
     * then backward is over. */
    const double *done;
    int buckets;
    const gs_bucket *bucket; /* floats of 4 bytes; bucket 0 is the end of the array */
    double alpha, beta;      /* the sum of b bytes takes alpha + beta b seconds; alpha: all its rounds */
} timeline;

/* Task 10.2. Bucket 0 is summed first, then bucket 1, and so on, one at a time. A sum begins as soon as all gradients
 * in its bucket are final and the sum before it is over. over[b] = the moment when the sum of bucket b is over. Returns
 * the hidden share: 1 - (time from the end of backward to the end of the last sum) / (time of all sums together).
 *
 * Of several layers that begin at the same place, only the last has weights. alpha > 0. */
double hidden_share(const timeline *, double *over);

/* Tasks 10.3 and 10.4. The 16 bits that are nearest to f; of two that are equally near, those whose last bit is 0. What
 * is too large for the format becomes infinity; a NaN becomes a NaN. */
uint16_t to_bf16(float f);
uint16_t to_f16(float f);

/* ---- given.c; remote.c in a checker ---- */

/* gs_buckets_plan, for the check: the plan as it is. */
int lab_plan(const size_t *layer, int layers, size_t count, size_t least, gs_bucket *bucket);

/* to[i] = to_bf16(from[i]); or to_f16, if that is the wire. */
void lab_narrow(gs_wire wire, uint16_t *to, const float *from, size_t count);
