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
