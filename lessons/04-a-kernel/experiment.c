/* The ladder, measured: the speed of each kernel of lab.cl as a share of the device's peak.
 *
 *     make build/lessons/04/experiment && build/lessons/04/experiment [DEVICE...]
 *
 * (LAB=FILE: FILE instead of lab.cl.)
 *
 * GFLOP/s are 2 N^3 / time, for N x N matrices; the best of all runs, after one that compiles the kernel. The peak is
 * measured with fused multiply-adds in registers, on all cores (cl/peak.cl), again before each kernel, because a
 * machine's speed varies; the fastest counts, and so does a kernel that is faster. The last line is the library's own
 * linear layer with the same number of operations. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "core/clock.h"
#include "tasks.h"
#include "predict/profile.h"

enum { SIZES = 3, RUNS = 5 /* at least */, LARGEST = 960 };
static const double SECONDS = 0.3; /* at least, for each kernel and size */
static const size_t sizes[SIZES] = {96, 480, LARGEST};
static float a[LARGEST * LARGEST], b[LARGEST * LARGEST], c[LARGEST * LARGEST];

typedef struct ladder {
    gs_device *device;
    gs_mem c, a, b;
} ladder;

static gs_status run(const ladder *l, int rung, size_t n) {
    if (rung < LAB_RUNGS) return lab_product(l->device, rung, l->c, l->a, l->b, n, n, n);
    return l->device->ops->linear_forward(l->device, l->c, l->a, l->b, GS_NONE, n, (int)n, (int)n, NULL);
}

static gs_status time_of(const ladder *l, int rung, size_t n, double *seconds) {
    *seconds = INFINITY;
    const double begin = gs_seconds();
    for (int i = 0; i <= RUNS || gs_seconds() - begin < SECONDS; i++) {
        double start = gs_seconds();
        GS_TRY(run(l, rung, n));
        GS_TRY(l->device->ops->finish(l->device));
        if (i > 0) *seconds = fmin(*seconds, gs_seconds() - start);
    }
    return GS_OK;
}

/* Checks some elements of C: the speed of a wrong kernel is meaningless. */
static gs_status is_right(const ladder *l, size_t n, bool *right) {
    GS_TRY(l->device->ops->read(l->device, c, l->c, n * n * sizeof(float)));
    *right = true;
    for (size_t e = 0; e < n * n; e += n * n / 97) {
        float sum = 0;
        for (size_t t = 0; t < n; t++) sum += a[e / n * n + t] * b[t * n + e % n];
        if (c[e] != sum) *right = false;
    }
    return GS_OK;
}

static gs_status better_peak(gs_device *d, double *flops) {
    gs_roofline now;
    GS_TRY(gs_roofline_measure(d, 1, &now));
    *flops = fmax(*flops, now.flops);
    return GS_OK;
}

static gs_status measure_size(const ladder *l, int rung, size_t n, double *flops) {
    double seconds;
    bool right = true;
    GS_TRY(l->device->ops->fill(l->device, l->c, -12345, n * n));
    GS_TRY(time_of(l, rung, n, &seconds));
    if (rung < LAB_RUNGS) GS_TRY(is_right(l, n, &right));
    *flops = right ? 2 * pow((double)n, 3) / seconds : 0;
    return GS_OK;
}

static gs_status measure(const ladder *l) {
    static const char *const names[] = {"4.1 one element a work-item", "4.2 tiles in local memory",
                                        "4.3 4 x 4 in registers", "4.4 8 x float16", "the library's linear"};
    double peak = 0, flops[LAB_RUNGS + 1][SIZES];
    for (int rung = 0; rung <= LAB_RUNGS; rung++) {
        GS_TRY(better_peak(l->device, &peak));
        for (int s = 0; s < SIZES; s++) {
            GS_TRY(measure_size(l, rung, sizes[s], &flops[rung][s]));
            peak = fmax(peak, flops[rung][s]);
        }
    }
    printf("# peak %.1f GFLOP/s\n#  %-28s", peak / 1e9, "GFLOP/s, % of the peak");
    for (int s = 0; s < SIZES; s++) printf("      N = %3zu", sizes[s]);
    printf("\n");
    for (int rung = 0; rung <= LAB_RUNGS; rung++) {
        printf("   %-28s", names[rung]);
        for (int s = 0; s < SIZES; s++)
            if (flops[rung][s] > 0)
                printf(" %6.1f %3.0f %%", flops[rung][s] / 1e9, 100 * flops[rung][s] / peak);
            else
                printf("    not right");
        printf("\n");
    }
    return GS_OK;
}

static gs_status climb(const char *name) {
    ladder l = {0};
    GS_TRY(gs_device_open(name, 0, &l.device));
    const gs_backend *ops = l.device->ops;
    printf("# %s\n", name);
    gs_status status = ops->alloc(l.device, sizeof c, &l.c);
    if (status == GS_OK) status = ops->alloc(l.device, sizeof a, &l.a);
    if (status == GS_OK) status = ops->alloc(l.device, sizeof b, &l.b);
    if (status == GS_OK) status = ops->write(l.device, l.a, a, sizeof a);
    if (status == GS_OK) status = ops->write(l.device, l.b, b, sizeof b);
    if (status == GS_OK) status = measure(&l);
    ops->free(l.device, l.c);
    ops->free(l.device, l.a);
    ops->free(l.device, l.b);
    gs_device_close(l.device);
    return status;
}

/* make has copied the kernels to a folder beside this program. */
static void choose_kernels(const char *program) {
    char folder[4096];
    snprintf(folder, sizeof folder, "%s-kernels", program);
    setenv("GRADSUM_KERNELS", folder, 0);
}

int main(int argc, char **argv) {
    gs_cpu_choose_kernels(argv);
    gs_cl_choose_settings(true);
    choose_kernels(argv[0]);
    for (size_t i = 0; i < (size_t)LARGEST * LARGEST; i++) {
        a[i] = (float)(i * 2654435761u >> 7 & 7) - 3; /* small integers: exact sums in every order */
        b[i] = (float)(i * 40503u >> 5 & 7) - 3;
    }
    gs_status status = GS_OK;
    for (int i = 1; i < argc && status == GS_OK; i++) status = climb(argv[i]);
    if (argc == 1) status = climb("cl");
    if (status == GS_OK) return 0;
    fprintf(stderr, "experiment: %s\n", gs_message());
    return 1;
}
