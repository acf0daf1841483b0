#include "optim/norm.h"

#include <math.h>

double gs_norm_of(const gs_squares *s) {
    const uint32_t infinite = 0x7f800000;
    if (s->largest >= infinite) return s->largest > infinite ? (double)NAN : (double)INFINITY;
    const double sum = (double)s->high * 4294967296.0 + (double)s->low;
    return ldexp(sqrt(sum), (int)s->top - 157); /* half of 2 top - 314 */
}

gs_status gs_norm(gs_device *d, gs_mem x, size_t count, double *norm) {
    gs_squares squares;
    GS_TRY(d->ops->squares(d, x, count, 0, &squares));
    *norm = gs_norm_of(&squares);
    return GS_OK;
}

/* ---- the norm of gradients held in shards by the workers (gs_held) ---- */

/* The bits of the largest |x| in all shards of all workers. */
static gs_status find_largest(gs_device *d, const gs_held *h, int64_t *largest) {
    *largest = 0;
    for (int i = 0; i < h->parts; i++) {
        gs_squares one;
        GS_TRY(d->ops->squares(d, h->part[i].gradients, h->part[i].count, 0, &one));
        if (one.largest > *largest) *largest = one.largest;
    }
    return h->reduce(h->context, largest, 1, true);
}

/* The sum of squares in units that suit `largest`. */
static gs_status add_squares(gs_device *d, const gs_held *h, int64_t largest, gs_squares *all) {
    const uint32_t exponent = (uint32_t)(largest >> 23), top = exponent > 0 ? exponent : 1;
    int64_t sums[2] = {0, 0};
    for (int i = 0; i < h->parts; i++) {
        gs_squares one;
        if (!h->part[i].counted) continue;
        GS_TRY(d->ops->squares(d, h->part[i].gradients, h->part[i].count, top, &one));
        sums[0] += (int64_t)one.high;
        sums[1] += (int64_t)one.low;
    }
    GS_TRY(h->reduce(h->context, sums, 2, false));
    *all = (gs_squares){(uint32_t)largest, top, (uint64_t)sums[0], (uint64_t)sums[1]};
    return GS_OK;
}

gs_status gs_optimizer_clip_held(gs_optimizer *o, double samples, const gs_held *h, bool *may_update) {
    gs_device *d = o->model->device;
    gs_squares all;
    int64_t largest;
    *may_update = true;
    if (!(o->clip > 0) && !(o->loss_scale.scale > 0)) return GS_OK;
    GS_TRY(find_largest(d, h, &largest));
    if (o->loss_scale.scale > 0) *may_update = gs_optimizer_may_update(o, (uint32_t)largest);
    if (!*may_update || !(o->clip > 0)) return GS_OK;
    GS_TRY(add_squares(d, h, largest, &all));
    gs_optimizer_clip(o, gs_norm_of(&all), samples);
    return GS_OK;
}
