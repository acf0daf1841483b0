/* Scheme "auto": before the first sum it measures the speed of messages between these workers, inserts the results into
 * the time formulas in the header comments of the schemes, and chooses the fastest scheme for this number of ranks and
 * this array size.
 *
 *     alpha, beta    every rank sends to its right neighbour and receives from its left one, 1 float and then 64 Ki
 *                    floats; alpha + beta B is the line through both points. B counts the floats as f32 even
 *                    if they are sent in 16 bits; beta is then smaller, and includes the conversion
 *     gamma          adding 64 Ki floats to others, per byte
 *     the library    its all_reduce has no formula here, so its time is also a line through two points
 *
 * A rank that arrives late finds its messages waiting and mistakes them for fast ones. Therefore the slowest rank's
 * results count, each the median of several batches. All ranks decide by the same results, so all choose the same
 * scheme. A second run may measure differently and choose another scheme, and so another order of additions; name a
 * scheme if runs must repeat to the bit.
 *
 * Source of the model: Hockney (sync.h); Thakur, Rabenseifner, Gropp (IJHPCA 19, 2005), who also choose by size and
 * number of ranks. */

#include "core/clock.h"
#include "core/median.h"
#include "sync/scheme.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { SMALL = 1, LARGE = 65536 /* floats */, BATCH = 8, BATCHES = 5 };

typedef struct decision {
    gs_sync_model model;
    double library; /* expected seconds of the transport's all_reduce */
    double ours;    /* expected seconds of the best of our own schemes that have a formula */
    const gs_sync_scheme *best;
    bool use_library; /* all_reduce is faster */
} decision;

static gs_status shift(gs_sync *s, float *data, size_t count) {
    gs_comm *c = s->comm;
    gs_chunk all = {0, count};
    GS_TRY(gs_sync_send(s, data, all, (c->rank + 1) % c->size));
    return gs_sync_recv(s, data, all, (c->rank + c->size - 1) % c->size);
}

static gs_status all_reduce(gs_sync *s, float *data, size_t count) {
    return gs_sync_allreduce.sum(s, data, count);
}

static gs_status add(gs_sync *s, float *data, size_t count) {
    (void)s;
    gs_sync_add(data, data + LARGE, count);
    return GS_OK;
}

/* Seconds taken by one call on this rank. */
static gs_status seconds_of(gs_sync *s, gs_status (*call)(gs_sync *, float *, size_t), float *data,
                            size_t count, double *seconds) {
    double took[BATCHES];
    for (int b = 0; b < BATCHES; b++) {
        GS_TRY(gs_comm_barrier(s->comm));
        double start = gs_seconds();
        s->array = (gs_sync_array){count, s->wire, 0};
        for (int i = 0; i < BATCH; i++) GS_TRY(call(s, data, count));
        took[b] = (gs_seconds() - start) / BATCH;
    }
    *seconds = gs_median(took, BATCHES);
    return GS_OK;
}

/* Seconds per call; shift and all_reduce with SMALL and with LARGE floats, add only with LARGE. */
typedef struct figures {
    double shift[2], all_reduce[2], add;
} figures;

static gs_status measure_with(gs_sync *probe, float *data, figures *f) {
    GS_TRY(seconds_of(probe, shift, data, SMALL, &f->shift[0]));
    GS_TRY(seconds_of(probe, shift, data, LARGE, &f->shift[1]));
    GS_TRY(seconds_of(probe, all_reduce, data, SMALL, &f->all_reduce[0]));
    GS_TRY(seconds_of(probe, all_reduce, data, LARGE, &f->all_reduce[1]));
    return seconds_of(probe, add, data, LARGE, &f->add);
}

static gs_status measure(const gs_sync *s, figures *f) {
    gs_sync *probe; /* with room for LARGE floats, regardless of s */
    float *data = calloc(2 * (size_t)LARGE, sizeof *data);
    if (!data) return gs_fail(GS_E_MEMORY, "no memory for messages to measure with");
    gs_status status =
        gs_sync_create_wire(&gs_sync_allreduce, s->comm, (gs_sync_array){LARGE, s->wire, 0}, &probe);
    if (status == GS_OK) {
        status = measure_with(probe, data, f);
        gs_sync_free(probe);
    }
    free(data);
    return status;
}

/* Seconds per byte: the slope of the line through the two sizes. */
static double slope(const double seconds[2]) {
    return fmax(0, seconds[1] - seconds[0]) / ((LARGE - SMALL) * sizeof(float));
}

static decision decide(const figures *f, int ranks, size_t most) {
    double bytes = (double)most * sizeof(float);
    decision d = {.model = {f->shift[0], slope(f->shift), f->add / (LARGE * sizeof(float))},
                  .library = f->all_reduce[0] + slope(f->all_reduce) * bytes};
    for (const gs_sync_scheme *const *s = gs_sync_own; *s; s++) {
        if (!(*s)->time) continue;
        const double seconds = (*s)->time(ranks, bytes, &d.model);
        if (d.best && (d.best == &gs_sync_ring ? seconds >= d.ours : seconds > d.ours)) continue;
        d.best = *s;
        d.ours = seconds;
    }
    d.use_library = d.library <= d.ours;
    return d;
}

static void time_text(double seconds, char *text, size_t size) {
    if (seconds < 1e-3)
        snprintf(text, size, "%.3g us", 1e6 * seconds);
    else
        snprintf(text, size, "%.3g ms", 1e3 * seconds);
}

/* The scheme whose name fits the transport's all_reduce. Over Gloo, two ranks exchange arrays without its ring. */
static const gs_sync_scheme *library_of(const gs_comm *c) {
    if (strcmp(c->ops->name, "gloo") == 0 && c->size > 2) return &gs_sync_gloo;
    const bool in_steps =
        strcmp(c->ops->name, "threads in processes") == 0 || strcmp(c->ops->name, "two-level") == 0;
    return in_steps ? &gs_sync_hierarchical : &gs_sync_allreduce;
}

gs_status gs_sync_choose(gs_sync *s) {
    const gs_sync_scheme *library = library_of(s->comm);
    s->scheme = library;
    if (s->comm->size == 1) {
        snprintf(s->why, sizeof s->why, "one worker has nothing to sum");
        return GS_OK;
    }
    figures f; /* for each value, the slowest rank's */
    gs_status status = measure(s, &f);
    if (status == GS_OK) status = gs_comm_all_reduce(s->comm, &f, sizeof f / sizeof(double), GS_F64, GS_MAX);
    if (status != GS_OK) return gs_context(status, "--sync auto: measuring");
    const decision d = decide(&f, s->comm->size, s->most);
    if (!d.use_library) s->scheme = d.best;
    char first[24], second[24], alpha[24], beta[24];
    time_text(d.use_library ? d.library : d.ours, first, sizeof first);
    time_text(d.use_library ? d.ours : d.library, second, sizeof second);
    time_text(d.model.alpha, alpha, sizeof alpha);
    time_text(1e6 * d.model.beta, beta, sizeof beta);
    snprintf(s->why, sizeof s->why, "%s for %.3g KB, %s %s (a message: %s + %s/MB)", first,
             (double)s->most * sizeof(float) / 1e3, d.use_library ? d.best->name : library->name, second,
             alpha, beta);
    return GS_OK;
}

static gs_status auto_sum(gs_sync *s, float *data, size_t count) {
    (void)data;
    gs_bug("rank %d: auto has chosen nothing to sum %zu floats with", s->comm->rank, count);
}

const gs_sync_scheme gs_sync_auto = {
    .name = "auto",
    .what = "the fastest of these here, measured briefly",
    .sum = auto_sum,
};
