/* The tasks of lesson 10, for lab.c:
 *
 *     10.1   gs_buckets_plan   where to cut the gradients: src/train/reducers/buckets.h
 *     10.2   hidden_share      when the sums of the buckets end: below
 *     10.3   to_bf16           f32 -> bf16, to nearest even: below, and src/sync/wire.h
 *     10.4   to_f16            f32 -> f16, to nearest even
 */
#pragma once

#include "lab.h"
#include "sync/wire.h"
#include "train/reducers/buckets.h"

/* The backward of one step and the buckets summed meanwhile. Times are in seconds. */
typedef struct timeline {
    int layers;
    const size_t *layer; /* where each begins, as in gs_buckets_plan */
    const double
        *done; /* done[i]: when backward of layer i ends. done[0] is the latest: the end of backward */
    int buckets;
    const gs_bucket *bucket; /* floats of 4 bytes; bucket 0 is the end of the array */
    double alpha, beta; /* the sum of b bytes takes alpha + beta b seconds; alpha covers all its rounds */
} timeline;

/* Task 10.2. One sum runs at a time: bucket 0, then bucket 1, and so on. A sum begins as soon as all gradients in its
 * bucket are final and the previous sum is over. over[b] = the time when the sum of bucket b is over. Returns the
 * hidden share: 1 - (time from the end of backward to the end of the last sum) / (time of all sums together).
 *
 * If several layers begin at the same element, only the last of them has weights. alpha > 0. */
double hidden_share(const timeline *, double *over);

/* Tasks 10.3 and 10.4. The 16 bits nearest to f; if two are equally near, those whose last bit is 0. A number too large
 * for the format becomes infinity; a NaN becomes a NaN. */
uint16_t to_bf16(float f);
uint16_t to_f16(float f);

/* ---- given.c; remote.c in a checker ---- */

/* gs_buckets_plan, for the check, even if the plan is wrong. */
int lab_plan(const size_t *layer, int layers, size_t count, size_t least, gs_bucket *bucket);

/* to[i] = to_bf16(from[i]), or to_f16(from[i]) if the wire is f16. */
void lab_narrow(gs_wire wire, uint16_t *to, const float *from, size_t count);
