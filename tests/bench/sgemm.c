/* Our OpenCL sgemm compared with OpenBLAS's and the machine's FMA peak, for opencl.sh: C = A B, N x N, row-major, with
 * all cores. Each figure is the best of many short turns. The contestants alternate, so that other load on the machine
 * affects all of them. Before the products are timed, their results are checked against each other.
 *
 *     bench-sgemm DEVICE
 */
#include <cblas.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include "cl/cl.h"
#include "core/clock.h"

enum { TURNS = 15, SIZES = 2, FMA_COUNT = 3 << 15, FMA_ROUNDS = 10000 };
static const int sizes[SIZES] = {512, 1024};
static const double GFLOP = 9; /* per turn: some 50 ms */

typedef enum contestant { OURS, BLAS, CONTESTANTS } contestant;

typedef struct bench {
    gs_device *cl, *cpu;
    int threads, n;
    gs_mem a, b, c, fma_cl, fma_cpu;
    float *host_a, *host_b, *host_c, *got;
} bench;

static void stop(const char *what) {
    fprintf(stderr, "bench-sgemm: %s\n", what);
    exit(1);
}

static void must(gs_status status) {
    if (status != GS_OK) stop(gs_message());
}

/* OpenBLAS's threads keep looking for work for 30 ms after a product, so nothing else is measured meanwhile. */
static void let_rest(void) {
    nanosleep(&(struct timespec){.tv_nsec = 60000000}, NULL);
}

static void multiply(const bench *b, contestant who) {
    const size_t n = (size_t)b->n;
    if (who == BLAS) {
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, b->n, b->n, b->n, 1, b->host_a, b->n,
                    b->host_b, b->n, 0, b->host_c, b->n);
        return;
    }
    const gs_cl_gemm_sizes s = {.m = n, .n = n, .k = n, .a_row = n, .a_col = 1, .b_row = n, .b_col = 1};
    must(gs_cl_gemm(b->cl, b->c, b->a, b->b, GS_NONE, s));
}

/* Runs `calls` products with one wait at the end; returns GFLOP/s. */
static double turn(const bench *b, contestant who, int calls) {
    double start = gs_seconds();
    for (int i = 0; i < calls; i++) multiply(b, who);
    if (who == OURS) must(b->cl->ops->finish(b->cl));
    return 2.0 * b->n * b->n * b->n * calls / (gs_seconds() - start) / 1e9;
}

/* The rate of the fastest of several FMA loops, run without pauses: threads that wake up may share a core at first,
 * until Linux moves one of them. */
static double peak(gs_device *d, gs_mem y) {
    enum { LOOPS = 5 };
    double best = 0;
    for (int i = 0; i < LOOPS; i++) {
        double start = gs_seconds();
        must(d->ops->fma_loop(d, y, 0.999f, 0.001f, FMA_COUNT, FMA_ROUNDS));
        must(d->ops->finish(d));
        best = fmax(best, 2.0 * FMA_COUNT * FMA_ROUNDS / (gs_seconds() - start) / 1e9);
    }
    return best;
}

static void begin(bench *b, int n) {
    const size_t count = (size_t)n * (size_t)n, bytes = count * sizeof(float);
    b->n = n;
    b->host_a = malloc(bytes), b->host_b = malloc(bytes), b->host_c = malloc(bytes), b->got = malloc(bytes);
    if (!b->host_a || !b->host_b || !b->host_c || !b->got) stop("no memory");
    for (size_t i = 0; i < count; i++) { /* in [-1, 1) */
        b->host_a[i] = (float)((uint32_t)(i + 1) * 2654435761u >> 8) / (float)(1 << 23) - 1;
        b->host_b[i] = (float)((uint32_t)(i + 7) * 2246822519u >> 8) / (float)(1 << 23) - 1;
    }
    gs_mem *at[] = {&b->a, &b->b, &b->c};
    for (int i = 0; i < 3; i++) must(b->cl->ops->alloc(b->cl, bytes, at[i]));
    must(b->cl->ops->write(b->cl, b->a, b->host_a, bytes));
    must(b->cl->ops->write(b->cl, b->b, b->host_b, bytes));
    multiply(b, OURS);
    multiply(b, BLAS);
    must(b->cl->ops->read(b->cl, b->got, b->c, bytes));
    for (size_t i = 0; i < count; i++) /* false for a NaN */
        if (!(fabsf(b->got[i] - b->host_c[i]) <= 1e-3f)) stop("the two products differ");
}

static void end(bench *b) {
    b->cl->ops->free(b->cl, b->a);
    b->cl->ops->free(b->cl, b->b);
    b->cl->ops->free(b->cl, b->c);
    free(b->host_a), free(b->host_b), free(b->host_c), free(b->got);
}

int main(int argc, char **argv) {
    bench b = {.threads = gs_cpu_cores()};
    double best[SIZES][CONTESTANTS] = {{0}}, peak_cl = 0, peak_cpu = 0;
    if (argc != 2) {
        fprintf(stderr, "usage: bench-sgemm DEVICE\n");
        return 2;
    }
    gs_cpu_choose_kernels(argv);
    gs_cl_choose_settings(true);
    must(gs_device_open(argv[1], 0, &b.cl));
    must(gs_device_open("cpu", b.threads, &b.cpu));
    openblas_set_num_threads(b.threads); /* the cpu backend, used only for its FMA loop, sets it to 1 */
    must(b.cl->ops->alloc(b.cl, FMA_COUNT * sizeof(float), &b.fma_cl));
    must(b.cpu->ops->alloc(b.cpu, FMA_COUNT * sizeof(float), &b.fma_cpu));
    must(b.cl->ops->fill(b.cl, b.fma_cl, 1, FMA_COUNT));
    must(b.cpu->ops->fill(b.cpu, b.fma_cpu, 1, FMA_COUNT));
    peak(b.cl, b.fma_cl); /* compiles the kernel */
    for (int s = 0; s < SIZES; s++) {
        begin(&b, sizes[s]);
        const double products = GFLOP / (2.0 * sizes[s] * sizes[s] * sizes[s] / 1e9);
        for (int t = 0; t < TURNS; t++)
            for (int who = 0; who < CONTESTANTS; who++) {
                let_rest();
                best[s][who] = fmax(best[s][who], turn(&b, who, (int)products));
                let_rest();
                if (who == OURS)
                    peak_cl = fmax(peak_cl, peak(b.cl, b.fma_cl));
                else
                    peak_cpu = fmax(peak_cpu, peak(b.cpu, b.fma_cpu));
            }
        end(&b);
    }
    printf("FMA loop: %.0f GFLOP/s on %s, %.0f on the cpu with %d threads\n", peak_cl, argv[1], peak_cpu,
           b.threads);
    printf("%-16s %10s %10s %10s %10s %12s\n", "sgemm, N x N", argv[1], "of peak", "OpenBLAS", "of peak",
           "to OpenBLAS");
    for (int s = 0; s < SIZES; s++)
        printf("%-16d %10.0f %8.0f %% %10.0f %8.0f %% %11.2fx\n", sizes[s], best[s][OURS],
               100 * best[s][OURS] / peak_cl, best[s][BLAS], 100 * best[s][BLAS] / peak_cpu,
               best[s][OURS] / best[s][BLAS]);
    b.cl->ops->free(b.cl, b.fma_cl);
    b.cpu->ops->free(b.cpu, b.fma_cpu);
    gs_device_close(b.cpu);
    gs_device_close(b.cl);
    return 0;
}
