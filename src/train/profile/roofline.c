#include "train/profile/roofline.h"

#include "core/clock.h"

#include <math.h>

/* Floats of each of triad's three arrays: first- and second-level caches, the last level, memory. */
static const size_t sizes[GS_ROOFLINE_SIZES] = {2 << 10, 32 << 10, 512 << 10, 8 << 20};
enum { FMA_FLOATS = 1 << 20, TAKES = 5 /* the best of them counts: others may be using the machine */ };

typedef struct measurement {
    gs_device *device;
    gs_mem y, a, b;
    size_t count; /* floats */
} measurement;

typedef gs_status (*measured)(const measurement *, size_t repeats);

static gs_status fma_loop(const measurement *m, size_t repeats) {
    return m->device->ops->fma_loop(m->device, m->y, 0.999f, 0.001f, m->count, repeats);
}

static gs_status triad(const measurement *m, size_t repeats) {
    for (size_t i = 0; i < repeats; i++)
        GS_TRY(m->device->ops->triad(m->device, m->y, m->a, m->b, 0.5f, m->count));
    return GS_OK;
}

static gs_status seconds_of(const measurement *m, measured work, size_t repeats, double *seconds) {
    GS_TRY(m->device->ops->finish(m->device));
    double start = gs_seconds();
    GS_TRY(work(m, repeats));
    GS_TRY(m->device->ops->finish(m->device));
    *seconds = gs_seconds() - start;
    return GS_OK;
}

/* Seconds per repeat, from enough repeats at once to be measured. */
static gs_status best_of(const measurement *m, measured work, double seconds, double *one) {
    double least = seconds / TAKES, took;
    size_t repeats = 1;
    GS_TRY(seconds_of(m, work, 1, &took)); /* kernels are compiled here */
    GS_TRY(seconds_of(m, work, 1, &took));
    while (took < least) {
        repeats *= 2;
        GS_TRY(seconds_of(m, work, repeats, &took));
    }
    *one = took / (double)repeats;
    for (int i = 1; i < TAKES; i++) {
        GS_TRY(seconds_of(m, work, repeats, &took));
        *one = fmin(*one, took / (double)repeats);
    }
    return GS_OK;
}

static gs_status measure(measurement *m, double seconds, gs_roofline *out) {
    double one, each = seconds / (GS_ROOFLINE_SIZES + 1);
    m->count = FMA_FLOATS;
    GS_TRY(best_of(m, fma_loop, each, &one));
    out->flops = 2.0 * FMA_FLOATS / one;
    for (int i = GS_ROOFLINE_SIZES - 1; i >= 0; i--) {
        m->count = sizes[i];
        GS_TRY(best_of(m, triad, each, &one));
        out->bytes[i] = 12.0 * (double)sizes[i];
        out->rate[i] = out->bytes[i] / one;
        /* little work on a wide device is mostly its start, which is no limit of the memory */
        if (i + 1 < GS_ROOFLINE_SIZES) out->rate[i] = fmax(out->rate[i], out->rate[i + 1]);
    }
    return GS_OK;
}

gs_status gs_roofline_measure(gs_device *d, double seconds, gs_roofline *out) {
    measurement m = {.device = d};
    size_t bytes = sizes[GS_ROOFLINE_SIZES - 1] * sizeof(float);
    gs_status status = d->ops->alloc(d, bytes, &m.y);
    if (status == GS_OK) status = d->ops->alloc(d, bytes, &m.a);
    if (status == GS_OK) status = d->ops->alloc(d, bytes, &m.b);
    if (status == GS_OK) status = measure(&m, seconds, out);
    d->ops->free(d, m.y);
    d->ops->free(d, m.a);
    d->ops->free(d, m.b);
    return gs_context(status, "measuring the peak of %s", d->name);
}

double gs_roofline_rate(const gs_roofline *r, double bytes) {
    if (!(bytes > r->bytes[0])) return r->rate[0];
    for (int i = 1; i < GS_ROOFLINE_SIZES; i++)
        if (bytes < r->bytes[i]) {
            double share = log(bytes / r->bytes[i - 1]) / log(r->bytes[i] / r->bytes[i - 1]);
            return r->rate[i - 1] + share * (r->rate[i] - r->rate[i - 1]);
        }
    return r->rate[GS_ROOFLINE_SIZES - 1];
}

double gs_roofline_seconds(const gs_roofline *r, double flops, double bytes) {
    return fmax(flops / r->flops, bytes / gs_roofline_rate(r, bytes));
}
