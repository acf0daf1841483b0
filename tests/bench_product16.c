/* A product of two matrices of 1024 x 1024 in 16 bits (cpu/product16.h) beside OpenBLAS's in f32, on one thread; first
 * both are compared. A figure is the fastest of many short turns, which all take in turn.
 *
 *     bench-product16 [N [TURNS]]
 */
#include "cpu/product16.h"

#include <cblas.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/clock.h"

#if defined(__x86_64__)
void gs_cpu_product16_v4(const gs_product16 *, float *);
size_t gs_cpu_product16_memory_v4(int, int);
#endif

enum { WAYS = 3 };
static const char *const names[WAYS] = {"OpenBLAS, f32", "bf16", "f16"};

static float *floats(size_t count) {
    float *x = malloc(count * sizeof *x);
    if (!x) exit(1);
    return x;
}

int main(int argc, char **argv) {
    gs_cpu_choose_kernels(argv);
    const int n = argc > 1 ? atoi(argv[1]) : 1024, turns = argc > 2 ? atoi(argv[2]) : 15;
    const size_t count = (size_t)n * (size_t)n;
    gs_device *d;
    if (gs_device_open("cpu", 1, &d) != GS_OK) return 1;
    const bool instruction = gs_cpu_of(d)->bf16;
    void (*product)(const gs_product16 *, float *) = gs_cpu_product16_base;
    size_t room = gs_cpu_product16_memory_base(n, n);
#if defined(__x86_64__)
    if (gs_cpu_has_avx512()) product = gs_cpu_product16_v4, room = gs_cpu_product16_memory_v4(n, n);
#endif
    float *a = floats(count), *b = floats(count), *c[WAYS] = {floats(count), floats(count), floats(count)},
          *memory = floats(room);
    for (size_t i = 0; i < count; i++) { /* in [-1, 1) */
        a[i] = (float)((uint32_t)(i + 1) * 2654435761u >> 8) / (float)(1 << 23) - 1;
        b[i] = (float)((uint32_t)(i + 7) * 2246822519u >> 8) / (float)(1 << 23) - 1;
    }
    gs_product16 t = {.rows = n,
                      .depth = n,
                      .columns = n,
                      .a = {a, (size_t)n, NULL, true},
                      .b = {b, (size_t)n, NULL, true}, /* B^T, as in forward of a linear layer */
                      .c_row = (size_t)n};
    double best[WAYS] = {0}, error[WAYS] = {0}, size = 0;
    for (int turn = 0; turn < turns; turn++)
        for (int way = 0; way < WAYS; way++) {
            const double start = gs_seconds();
            t.c = c[way];
            t.precision = way == 1 ? GS_PRECISION_BF16 : GS_PRECISION_F16;
            t.instruction = way == 1 && instruction;
            if (way == 0)
                cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, n, n, n, 1, a, n, b, n, 0, c[0], n);
            else
                product(&t, memory);
            best[way] = fmax(best[way], 2.0 * n * n * n / (gs_seconds() - start) / 1e9);
        }
    for (size_t i = 0; i < count; i++) size += (double)c[0][i] * (double)c[0][i];
    printf("%-22s %10s %14s %16s\n", "product, one thread", "GFLOP/s", "to OpenBLAS", "relative error");
    for (int way = 0; way < WAYS; way++) {
        for (size_t i = 0; i < count; i++) error[way] += pow((double)c[way][i] - (double)c[0][i], 2);
        printf("%-22s %10.0f %13.2fx %16.1e\n", names[way], best[way], best[way] / best[0],
               sqrt(error[way] / size));
    }
    printf("%d x %d x %d; bf16 %s\n", n, n, n, instruction ? "by the processor's instruction" : "in floats");
    free(a), free(b), free(memory), free(c[0]), free(c[1]), free(c[2]);
    gs_device_close(d);
    return 0;
}
