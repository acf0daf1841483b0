/* Lesson 11: waiting for no one. tasks.h and README.md say what to write.
 *
 * This file and given.c replace the functions of src/train/strategies/clocks.h, and local SGD: in
 * `build/lessons/11/gradsum train --sync async --staleness 4` the functions below decide which worker may go on, and
 * `--sync local --every 8` steps with step_alone. */
#include "tasks.h"

#include <math.h>

/* ---- bounded staleness; gs_clocks_slowest is given ---- */

bool gs_clocks_may_go_on(const gs_clocks *c, int rank) {
    /* task 11.1: true if this worker is at most c->bound steps ahead of the slowest. But a worker that has done all
     * c->steps of the epoch waits until no other is behind. */
    (void)c, (void)rank;
    return lab_blank("11.1") == GS_OK;
    /* end of task 11.1 */
}

void gs_clocks_apply(gs_clocks *c, const int *ranks, int n) {
    /* task 11.2: the gradients of these n ranks become one update. The staleness of each is the number of gradients
     * applied before this update, minus the number applied when its worker read its weights: add 1 to
     * c->count[staleness]. Then count these n gradients as applied. */
    (void)c, (void)ranks, (void)n;
    lab_blank("11.2");
    /* end of task 11.2 */
}

double epoch_takes(const epoch *e, double *done) {
    /* task 11.3: go through the steps in order, and in each step through the workers. When have all workers done as
     * many steps as the rule requires? */
    (void)e, (void)done;
    return lab_blank("11.3") == GS_OK;
    /* end of task 11.3 */
}

/* ---- local SGD ---- */

gs_status step_alone(gs_worker *w, way *since, size_t mine, size_t all, bool *meet) {
    /* task 11.4: an update, two counts, and *meet. The first step has w->step 0, and is the first of H. */
    (void)w, (void)since, (void)mine, (void)all, (void)meet;
    return lab_blank("11.4");
    /* end of task 11.4 */
}
