/* Lab 13: the whole step. tasks.h and README.md say what to write.
 *
 * In build/lessons/13/gradsum `train` steps with this file: plain_step, or with --bucket overlapped_step. The library's
 * own step is in src/train/step.c; read it when yours runs. */
#include "tasks.h"

#include <stdlib.h>
#include <string.h>

/* ---- shard ---- */

size_t my_samples(const lab_step *s, size_t *mine) {
    /* task 13.1: where in the order does this step's global batch begin, and how many samples are left from there?
     * gs_shard_of says which of these are this rank's. */
    size_t first = s->number * s->batch, left = s->samples - first;
    gs_shard part = gs_shard_of(left < s->batch ? left : s->batch, s->rank, s->ranks);
    memcpy(mine, s->order + first + part.first, part.count * sizeof *mine);
    return part.count;
    /* end of task 13.1 */
}

/* ---- forward and backward ---- */

static gs_status gradient_of(lab_step *s, size_t *mine, gs_status (*hook)(lab_step *, int layer)) {
    /* task 13.2: the samples; forward through all layers; the loss; backward through all layers, and the hook after
     * each. Without samples, what must `gradients` hold, and what must you still call? */
    size_t count = my_samples(s, mine);
    memset(s->gradients, 0, (s->params + GS_STATS) * sizeof *s->gradients);
    if (count > 0) GS_TRY(lab_load(s, mine, count));
    for (int l = 0; l < s->layers && count > 0; l++) GS_TRY(lab_forward(s, l));
    if (count > 0) GS_TRY(lab_loss(s));
    for (int l = s->layers - 1; l >= 0; l--) {
        if (count > 0) GS_TRY(lab_backward(s, l));
        if (hook) GS_TRY(hook(s, l));
    }
    return GS_OK;
    /* end of task 13.2 */
}

gs_status local_gradient(lab_step *s, gs_status (*hook)(lab_step *, int layer)) {
    size_t *mine = malloc(s->batch * sizeof *mine);
    if (!mine) return gs_fail(GS_E_MEMORY, "no memory for the numbers of %zu samples", s->batch);
    gs_status status = gradient_of(s, mine, hook);
    free(mine);
    return status;
}

/* ---- sum ---- */

gs_status sum(lab_step *s) {
    /* task 13.3: begin the sum of every bucket; then wait for every sum. */
    for (int b = 0; b < s->buckets; b++) GS_TRY(lab_sum_begin(s, b));
    for (int b = 0; b < s->buckets; b++) GS_TRY(lab_sum_wait(s, b));
    return GS_OK;
    /* end of task 13.3 */
}

/* ---- update ---- */

void update(lab_step *s) {
    /* task 13.4: divide by how many samples? */
    float samples = s->gradients[s->params + GS_STAT_SAMPLES];
    for (size_t i = 0; i < s->params; i++) {
        s->velocity[i] = s->momentum * s->velocity[i] + s->gradients[i] / samples;
        s->weights[i] -= s->rate * s->velocity[i];
    }
    /* end of task 13.4 */
}

gs_status plain_step(lab_step *s) {
    /* task 13.4: the pieces that you have, in order. This step needs no hook. */
    GS_TRY(local_gradient(s, NULL));
    GS_TRY(sum(s));
    update(s);
    return GS_OK;
    /* end of task 13.4 */
}

/* ---- overlap ---- */

gs_status release(lab_step *s, int layer) {
    /* task 13.5: now all elements from this layer on are final; before this layer, those from the next layer on were. A
     * bucket is final if all its elements are. Which buckets became final? */
    size_t final = s->layer[layer].first;
    size_t before = layer + 1 < s->layers ? s->layer[layer + 1].first : s->params + GS_STATS;
    for (int b = 0; b < s->buckets; b++)
        if (s->bucket[b].first >= final && s->bucket[b].first < before) GS_TRY(lab_sum_begin(s, b));
    return GS_OK;
    /* end of task 13.5 */
}

gs_sync_cost traffic(const lab_step *s) {
    gs_sync_cost cost = {0};
    /* task 13.5: for each bucket, what a ring sends (task 7.3), with the bucket as gs_sync_array. */
    for (int b = 0; b < s->buckets; b++) {
        const gs_sync_array array = {.count = s->bucket[b].count};
        cost.rounds += 2 * ((size_t)s->ranks - 1);
        for (int k = 0; k < s->ranks - 1; k++) {
            gs_sync_cost_add(&cost, &array, gs_chunk_of(array.count, s->ranks, s->rank - k));
            gs_sync_cost_add(&cost, &array, gs_chunk_of(array.count, s->ranks, s->rank + 1 - k));
        }
    }
    return cost;
    /* end of task 13.5 */
}

gs_status overlapped_step(lab_step *s) {
    /* task 13.6: the pieces that you have. When must release be called? Where must the waits be? */
    GS_TRY(local_gradient(s, release));
    for (int b = 0; b < s->buckets; b++) GS_TRY(lab_sum_wait(s, b));
    update(s);
    return GS_OK;
    /* end of task 13.6 */
}
