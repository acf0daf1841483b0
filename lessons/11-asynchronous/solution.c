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
    size_t clock = c->clock[rank];
    size_t bound = clock == c->steps ? 0 : c->bound;
    return clock - gs_clocks_slowest(c) <= bound;
    /* end of task 11.1 */
}

void gs_clocks_apply(gs_clocks *c, const int *ranks, int n) {
    /* task 11.2: the gradients of these n ranks become one update. The staleness of each is the number of gradients
     * applied before this update, minus the number applied when its worker read its weights: add 1 to
     * c->count[staleness]. Then count these n gradients as applied. */
    for (int i = 0; i < n; i++) c->count[c->applied - c->read[ranks[i]]]++;
    c->applied += (uint64_t)n;
    /* end of task 11.2 */
}

double epoch_takes(const epoch *e, double *done) {
    /* task 11.3: go through the steps in order, and in each step through the workers. When have all workers done as
     * many steps as the rule requires? */
    double over = 0;
    for (size_t i = 0; i < e->steps; i++) {
        double all = 0; /* the time when all workers have done i - K steps */
        for (int r = 0; r < e->workers && i > e->bound; r++)
            all = fmax(all, done[(size_t)r * e->steps + i - e->bound - 1]);
        for (int r = 0; r < e->workers; r++) {
            double *mine = &done[(size_t)r * e->steps + i];
            *mine = fmax(all, i > 0 ? mine[-1] : 0) + e->takes[(size_t)r * e->steps + i];
            over = fmax(over, *mine);
        }
    }
    return over;
    /* end of task 11.3 */
}

/* ---- local SGD ---- */

gs_status step_alone(gs_worker *w, way *since, size_t mine, size_t all, bool *meet) {
    /* task 11.4: an update, two counts, and *meet. The first step has w->step 0, and is the first of H. */
    if (mine > 0) GS_TRY(gs_optimizer_update(w->optimizer, (double)mine));
    since->mine += (double)mine;
    since->all += (double)all;
    *meet = (w->step + 1) % (uint64_t)w->settings->every == 0;
    return GS_OK;
    /* end of task 11.4 */
}
