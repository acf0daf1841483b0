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
    (void)s, (void)mine;
    lab_blank("13.1");
    return 0;
    /* end of task 13.1 */
}

/* ---- forward and backward ---- */

static gs_status gradient_of(lab_step *s, size_t *mine, gs_status (*hook)(lab_step *, int layer)) {
    /* task 13.2: the samples; forward through all layers; the loss; backward through all layers, and the hook after
     * each. Without samples, what must `gradients` hold, and what must you still call? */
    (void)s, (void)mine, (void)hook;
    return lab_blank("13.2");
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
    (void)s;
    return lab_blank("13.3");
    /* end of task 13.3 */
}

/* ---- update ---- */

void update(lab_step *s) {
    /* task 13.4: divide by how many samples? */
    (void)s;
    lab_blank("13.4 (update)");
    /* end of task 13.4 */
}

gs_status plain_step(lab_step *s) {
    /* task 13.4: the pieces that you have, in order. This step needs no hook. */
    (void)s;
    return lab_blank("13.4 (plain_step)");
    /* end of task 13.4 */
}

/* ---- overlap ---- */

gs_status release(lab_step *s, int layer) {
    /* task 13.5: now all elements from this layer on are final; before this layer, those from the next layer on were. A
     * bucket is final if all its elements are. Which buckets became final? */
    (void)s, (void)layer;
    return lab_blank("13.5 (release)");
    /* end of task 13.5 */
}

gs_sync_cost traffic(const lab_step *s) {
    gs_sync_cost cost = {0};
    /* task 13.5: for each bucket, what a ring sends (task 7.3), with the bucket as gs_sync_array. */
    (void)s;
    lab_blank("13.5 (traffic)");
    return cost;
    /* end of task 13.5 */
}

gs_status overlapped_step(lab_step *s) {
    /* task 13.6: the pieces that you have. When must release be called? Where must the waits be? */
    (void)s;
    return lab_blank("13.6");
    /* end of task 13.6 */
}
