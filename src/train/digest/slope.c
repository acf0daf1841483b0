/* How steep an update is, for optimisers that divide by the size of the gradient (gs_optimizer_ops.rate): 1 / S of
 * each weight, with S = root sqrt(v) + epsilon (optim/adam.c), counted by its size:
 *
 *     part 0       the weights' rates: n, sum and squares
 *     part k       1 / S of the weights where it is from 4^(k-1) on and below 4^k: n, sum and squares;
 *                  the first and the last of these parts are open
 *
 * Weights that never had a gradient are in part 0 alone: rounding does not move them. */
#include <math.h>

#include "optim/adam.h"
#include "train/digest/record.h"

static int part_of(double slope) {
    const int power = ilogb(slope) / 2; /* of 4 */
    return slope < 4 ? 1 : power + 1 < GS_DIGEST_PARTS ? power + 1 : GS_DIGEST_PARTS - 1;
}

static void add(gs_digest *d, const gs_optimizer *o, int p, size_t count) {
    const gs_adam_step s = gs_adam_step_of(o, 1);
    const double rate = o->ops->rate(o, p), n = (double)count;
    gs_numbers *rates = gs_digest_cell(d, GS_DIGEST_slope, p, 0);
    rates->n += n;
    rates->sum += n * rate;
    rates->squares += n * rate * rate;
    for (size_t i = 0; i < count; i++) {
        const double v = (double)d->room[i];
        if (!(v > 0)) continue;
        const double slope = 1 / ((double)s.root * sqrt(v) + (double)s.epsilon);
        gs_numbers *to = gs_digest_cell(d, GS_DIGEST_slope, p, part_of(slope));
        to->n++;
        to->sum += slope;
        to->squares += slope * slope;
    }
}

gs_status gs_digest_add_slopes(gs_digest *d, const gs_optimizer *o, size_t first, size_t count,
                               size_t vector_at) {
    const gs_model *m = d->worker->model;
    for (int p = 0; p < m->param_count && o->ops->rate; p++) {
        const size_t from = m->param[p]->at > first ? m->param[p]->at : first,
                     end = m->param[p]->at + m->param[p]->count,
                     to = end < first + count ? end : first + count;
        if (from >= to) continue;
        GS_TRY(gs_digest_fetch(d, gs_at(o->vector[1], vector_at + from - first), to - from));
        add(d, o, p, to - from);
    }
    return GS_OK;
}
