#include "tune.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cl/cl.h"
#include "core/clock.h"

/* ---- the work that is measured and checked ---- */

/* n samples through a linear layer in -> out, and images through a convolution. */
typedef struct work {
    size_t n, images;
    int in, out;
    gs_conv2d_sizes conv;
} work;

/* Odd sizes, to be checked: all edges of all tiles occur. */
static const work small = {77, 3, 83, 139, {3, 11, 19, 21, 11, 19, 3, 3, 1, 1, 1, 1, 1, 1, 1}};
/* Even ones, to be measured. */
static const work large = {512, 64, 512, 512, {32, 28, 28, 64, 28, 28, 3, 3, 1, 1, 1, 1, 1, 1, 1}};

enum { X, W, B, Y, DX, DW, CX, CW, CB, CY, CDX, CDW, ARRAYS };

static void sizes_of(const work *w, size_t size[ARRAYS]) {
    const gs_conv2d_sizes *c = &w->conv;
    const size_t in = (size_t)w->in, out = (size_t)w->out;
    size[X] = size[DX] = w->n * in;
    size[W] = size[DW] = in * out;
    size[B] = out;
    size[Y] = w->n * out;
    size[CX] = size[CDX] = w->images * (size_t)c->in_c * (size_t)c->in_h * (size_t)c->in_w;
    size[CW] = size[CDW] = (size_t)c->out_c * (size_t)c->in_c * (size_t)c->kernel_h * (size_t)c->kernel_w;
    size[CB] = (size_t)c->out_c;
    size[CY] = w->images * (size_t)c->out_c * (size_t)c->out_h * (size_t)c->out_w;
}

static double flops(const work *w, int number) {
    const gs_conv2d_sizes *c = &w->conv;
    if (number != GS_TUNE_CONV2D) return 2.0 * (double)w->n * w->in * w->out;
    return 3 * 2.0 * (double)w->images * c->in_c * c->out_c * c->kernel_h * c->kernel_w * c->out_h * c->out_w;
}

/* A device and the arrays on it. */
typedef struct place {
    gs_device *device;
    gs_mem at[ARRAYS];
    double round; /* s, which is long enough for the clock */
} place;

static void empty(place *p) {
    for (int i = 0; i < ARRAYS; i++) p->device->ops->free(p->device, p->at[i]);
    memset(p->at, 0, sizeof p->at);
}

/* Numbers in [-1, 1) that are the same on every device; results begin as 0. */
static gs_status fill(place *p, const work *w) {
    size_t size[ARRAYS], most = 0;
    sizes_of(w, size);
    for (int i = 0; i < ARRAYS; i++) most = size[i] > most ? size[i] : most;
    float *host = malloc(most * sizeof *host);
    if (!host) return gs_fail(GS_E_MEMORY, "tune: no memory for %zu numbers", most);
    gs_status st = GS_OK;
    for (int i = 0; i < ARRAYS && st == GS_OK; i++) {
        for (size_t k = 0; k < size[i]; k++) {
            const uint32_t mixed = (uint32_t)(k + 1) * 2654435761u + (uint32_t)i * 40503u;
            host[k] = (float)(mixed >> 8) / (float)(1 << 23) - 1;
        }
        st = p->device->ops->alloc(p->device, size[i] * sizeof *host, &p->at[i]);
        if (st == GS_OK) st = p->device->ops->write(p->device, p->at[i], host, size[i] * sizeof *host);
    }
    free(host);
    return st;
}

/* One of GS_TUNE_CASES. */
static gs_status run(place *p, const work *w, int number) {
    gs_device *d = p->device;
    gs_mem *at = p->at;
    const size_t n = w->n, in = (size_t)w->in, out = (size_t)w->out;
    switch (number) {
    case GS_TUNE_FORWARD:
        return d->ops->linear_forward(d, at[Y], at[X], at[W], at[B], n, w->in, w->out, NULL);
    case GS_TUNE_DX:
        return gs_cl_gemm(
            d, at[DX], at[Y], at[W], GS_NONE,
            (gs_cl_gemm_sizes){.m = n, .n = in, .k = out, .a_row = out, .a_col = 1, .b_row = in, .b_col = 1});
    case GS_TUNE_DW:
        return d->ops->linear_backward(d, GS_NONE, at[DW], GS_NONE, at[Y], at[X], at[W], n, w->in, w->out,
                                       false, NULL);
    default:
        GS_TRY(d->ops->conv2d_forward(d, at[CY], at[CX], at[CW], at[CB], w->images, &w->conv, NULL));
        return d->ops->conv2d_backward(d, at[CDX], at[CDW], at[CB], at[CY], at[CX], at[CW], w->images,
                                       &w->conv, false, NULL);
    }
}

/* The results of the small work, one array after the other; to be freed with free(). */
static gs_status results(place *p, float **out, size_t *count) {
    size_t size[ARRAYS];
    sizes_of(&small, size);
    *count = 0;
    for (int i = 0; i < ARRAYS; i++) *count += size[i];
    *out = malloc(*count * sizeof **out);
    if (!*out) return gs_fail(GS_E_MEMORY, "tune: no memory for %zu results", *count);
    gs_device *d = p->device;
    gs_status st = fill(p, &small);
    if (st == GS_OK)
        st = d->ops->linear_forward(d, p->at[Y], p->at[X], p->at[W], p->at[B], small.n, small.in, small.out,
                                    NULL);
    if (st == GS_OK)
        st = d->ops->linear_backward(d, p->at[DX], p->at[DW], p->at[B], p->at[Y], p->at[X], p->at[W], small.n,
                                     small.in, small.out, false, NULL);
    if (st == GS_OK) st = run(p, &small, GS_TUNE_CONV2D);
    float *to = *out;
    for (int i = 0; i < ARRAYS && st == GS_OK; to += size[i++])
        st = d->ops->read(d, to, p->at[i], size[i] * sizeof *to);
    empty(p);
    return st;
}

/* Each result is a sum of products of numbers below 1 or of such sums; what rounding can do to it grows with the
 * largest. */
static bool agree(const float *got, const float *want, size_t count, char *note, size_t size) {
    const double most = 2e-5;
    double scale = 0;
    for (size_t i = 0; i < count; i++) { /* not by fmax: on arm64 gcc 12 has an internal error then */
        double value = fabs((double)want[i]);
        scale = value > scale ? value : scale;
    }
    for (size_t i = 0; i < count; i++) {
        double off = fabs((double)got[i] - (double)want[i]);
        if (off <= most * (scale + fabs((double)want[i]))) continue; /* false for a NaN */
        snprintf(note, size, "element %zu is %g, wanted %g", i, (double)got[i], (double)want[i]);
        return false;
    }
    return true;
}

/* ---- measuring ---- */

/* Seconds of one call: the best of some rounds, each long enough for the clock. */
static gs_status seconds_of(place *p, const work *w, int number, double *out) {
    enum { ROUNDS = 3 };
    gs_device *d = p->device;
    GS_TRY(run(p, w, number)); /* compiles */
    GS_TRY(d->ops->finish(d));
    double start = gs_seconds();
    GS_TRY(run(p, w, number));
    GS_TRY(d->ops->finish(d));
    double once = gs_seconds() - start;
    int calls = once < p->round ? (int)(p->round / once) + 1 : 1;
    *out = once;
    for (int r = 0; r < ROUNDS; r++) {
        start = gs_seconds();
        for (int i = 0; i < calls; i++) GS_TRY(run(p, w, number));
        GS_TRY(d->ops->finish(d));
        *out = fmin(*out, (gs_seconds() - start) / calls);
    }
    return GS_OK;
}

/* The device's peaks, for the comparison. */
static gs_status measure_peaks(gs_device *d, gs_tune_result *out) {
    /* FEW: whole vectors for each work-item of fma_loop, whatever their width */
    enum { TIMES = 25, COUNT = 8 << 20, FEW = 3 << 15, ROUNDS = 10000 };
    gs_mem m;
    GS_TRY(d->ops->alloc(d, 3 * (size_t)COUNT * sizeof(float), &m));
    gs_status st = GS_OK;
    for (int i = 0; i < 2 * TIMES && st == GS_OK; i++) {
        const bool fma = i < TIMES;
        double start = gs_seconds();
        st = fma ? d->ops->fma_loop(d, m, 0.999f, 0.001f, FEW, ROUNDS)
                 : d->ops->triad(d, m, gs_at(m, COUNT), gs_at(m, 2 * (size_t)COUNT), 2, COUNT);
        if (st == GS_OK) st = d->ops->finish(d);
        double took = gs_seconds() - start;
        if (i % TIMES == 0) continue; /* it was compiled */
        if (fma)
            out->peak_gflops = fmax(out->peak_gflops, 2.0 * FEW * ROUNDS / took / 1e9);
        else
            out->peak_gb_s = fmax(out->peak_gb_s, 3.0 * COUNT * sizeof(float) / took / 1e9);
    }
    d->ops->free(d, m);
    return st;
}

/* sgemm, N x N, with the tiles that the device has now; the fastest so far is kept. */
static gs_status measure_sgemm(gs_device *d, double round, gs_tune_result *out, int which) {
    const int size[2] = {512, 1024};
    for (int i = 0; i < 2; i++) {
        work w = small;
        w.n = (size_t)size[i];
        w.in = w.out = size[i];
        place p = {.device = d, .round = round};
        double seconds = 1;
        gs_status st = fill(&p, &w);
        if (st == GS_OK) st = seconds_of(&p, &w, GS_TUNE_DX, &seconds);
        empty(&p);
        GS_TRY(st);
        double gflops = flops(&w, GS_TUNE_DX) / seconds / 1e9;
        out->sgemm_gflops[i][which] = fmax(out->sgemm_gflops[i][which], gflops);
    }
    return GS_OK;
}

/* ---- candidates ---- */

enum { MOST = 200 };

static int add(gs_cl_tiles *list, int count, gs_cl_tiles t) {
    if (count < MOST) list[count++] = t;
    return count;
}

/* The likely ones first, since the time may not be enough for all. */
static int candidates(const gs_cl_tiles *now, gs_cl_tiles *list) {
    int count = 0;
    const gs_cl_tiles usual = gs_cl_tiles_default(now->gpu, now->vector);
    gs_cl_tiles t = usual;
    count = add(list, count, usual);
    if (now->gpu) {
        for (t.tile = 32; t.tile <= 128; t.tile *= 2)
            for (t.each = 4; t.each <= 8; t.each *= 2)
                for (t.step = 8; t.step <= 32; t.step *= 2)
                    if (gs_cl_group(&t) >= (size_t)t.tile && gs_cl_group(&t) <= 256 &&
                        (t.tile != usual.tile || t.each != usual.each || t.step != usual.step))
                        count = add(list, count, t);
        return count;
    }
    /* one size at a time, then other vectors and the GPU's tiles, which use local memory */
    for (t = usual, t.rows = 4; t.rows <= 14; t.rows += 2)
        if (t.rows != usual.rows) count = add(list, count, t);
    for (t = usual, t.dot_rows = 2; t.dot_rows <= 6; t.dot_rows++)
        if (t.dot_rows != usual.dot_rows) count = add(list, count, t);
    for (t = usual, t.unroll = 2; t.unroll <= 4; t.unroll *= 2) count = add(list, count, t);
    for (t = usual, t.pack = 600; t.pack <= 2400; t.pack += 1800) count = add(list, count, t);
    for (int vector = 16; vector >= 4; vector /= 2)
        if (vector != usual.vector) count = add(list, count, gs_cl_tiles_default(false, vector));
    return add(list, count, gs_cl_tiles_default(true, 1));
}

/* Work with other tiles: the kernels are built again when they are next needed. */
static void use(gs_device *d, gs_cl_tiles t) {
    gs_cl *cl = gs_cl_of(d);
    gs_cl_finish(d);
    gs_cl_programs_free(cl);
    cl->tiles = t;
}

/* Speeds of the four cases, with the tiles that the device has now; the fastest so far are kept. */
static gs_status measure(place *p, gs_tune_row *row) {
    row->score = 1;
    for (int i = 0; i < GS_TUNE_CASES; i++) {
        double seconds = 1;
        GS_TRY(seconds_of(p, &large, i, &seconds));
        row->gflops[i] = fmax(row->gflops[i], flops(&large, i) / seconds / 1e9);
        row->score *= pow(row->gflops[i], 1.0 / GS_TUNE_CASES);
    }
    return GS_OK;
}

static void try_one(gs_device *d, place *p, const float *want, gs_tune_row *row) {
    place check = {.device = d};
    float *got = NULL;
    size_t count;
    gs_status st = results(&check, &got, &count);
    row->correct = st == GS_OK && agree(got, want, count, row->note, sizeof row->note);
    free(got);
    if (st == GS_OK && row->correct) st = measure(p, row);
    if (st == GS_OK && row->correct) return;
    if (st != GS_OK)
        snprintf(row->note, sizeof row->note, "%.190s", gs_message()); /* it may be too large for it */
    row->correct = false;
    row->score = 0;
}

/* All candidates that there is time for. *best: at first the tiles in use, at the end those with the highest score. */
static gs_status try_all(gs_device *d, place *p, const float *want, double seconds,
                         bool (*show)(void *, const gs_tune_row *), void *context, gs_tune_result *out,
                         gs_cl_tiles *best) {
    gs_cl_tiles list[MOST];
    const double end = gs_seconds() + seconds;
    const int count = candidates(best, list);
    for (int i = 0; i < count && (i == 0 || gs_seconds() < end); i++) {
        gs_tune_row row = {0};
        use(d, list[i]);
        gs_cl_tiles_print(&list[i], row.tiles);
        try_one(d, p, want, &row);
        out->candidates++;
        out->correct += row.correct;
        if (row.score > out->best.score) {
            out->best = row;
            *best = list[i];
        }
        if (show && !show(context, &row))
            return gs_fail(GS_E_INTERRUPTED, "stopped by a signal after %d of %d candidates; nothing is kept",
                           i + 1, count);
    }
    if (out->correct == 0) return gs_fail(GS_E_OPENCL, "%s: no tiles give correct results", d->name);
    return GS_OK;
}

/* The best and those in use before, in turn: a candidate that was measured once may have been lucky, and another
 * program may have disturbed one of the two. */
static gs_status play_off(gs_device *d, place *p, gs_cl_tiles before, gs_cl_tiles best, gs_tune_result *out) {
    enum { ROUNDS = 3 };
    bool same = strcmp(out->before.tiles, out->best.tiles) == 0;
    memset(out->best.gflops, 0, sizeof out->best.gflops); /* its luck does not count */
    for (int r = 0; r < (same ? 1 : ROUNDS); r++)
        for (int which = same; which < 2; which++) {
            use(d, which ? best : before);
            GS_TRY(measure(p, which ? &out->best : &out->before));
            GS_TRY(measure_sgemm(d, p->round, out, which));
        }
    if (same) {
        out->before = out->best;
        for (int i = 0; i < 2; i++) out->sgemm_gflops[i][0] = out->sgemm_gflops[i][1];
    }
    double gain = pow(out->best.score / out->before.score, GS_TUNE_CASES);
    for (int i = 0; i < 2; i++) gain *= out->sgemm_gflops[i][1] / out->sgemm_gflops[i][0];
    out->faster = same || gain > 1;
    return GS_OK;
}

static gs_status search(gs_device *d, const float *want, double seconds,
                        bool (*show)(void *, const gs_tune_row *), void *context, gs_tune_result *out) {
    const gs_cl_tiles before = gs_cl_of(d)->tiles;
    gs_cl_tiles best = before;
    place p = {.device = d, .round = seconds > 0 ? 0.03 : 0.003};
    gs_cl_tiles_print(&before, out->before.tiles);
    GS_TRY(measure_peaks(d, out));
    gs_status st = fill(&p, &large);
    if (st == GS_OK) st = try_all(d, &p, want, seconds, show, context, out, &best);
    if (st == GS_OK) st = play_off(d, &p, before, best, out);
    empty(&p);
    GS_TRY(st);
    if (out->faster) {
        use(d, best);
        out->kept = gs_cl_tuned_write(gs_cl_of(d));
    }
    return GS_OK;
}

gs_status gs_tune(const char *name, double seconds, bool (*row)(void *context, const gs_tune_row *),
                  void *context, gs_tune_result *out) {
    *out = (gs_tune_result){.candidates = 0};
    if (strncmp(name, "cl", 2) != 0)
        return gs_fail(GS_E_USAGE, "device '%s' is not an OpenCL device; only their kernels can be tuned",
                       name);
    place reference = {.device = NULL};
    gs_device *d = NULL;
    float *want = NULL;
    size_t count;
    gs_status st = gs_device_open(name, 0, &d);
    if (st == GS_OK) st = gs_device_open("cpu", 1, &reference.device);
    if (st == GS_OK) {
        snprintf(out->device, sizeof out->device, "%s", d->description);
        st = results(&reference, &want, &count);
    }
    if (st == GS_OK) st = search(d, want, seconds, row, context, out);
    free(want);
    gs_device_close(reference.device);
    gs_device_close(d);
    return st;
}
