/* How long does a batch take, and what latency does a server reach with it?
 *
 *     make build/lessons/12/experiment && build/lessons/12/experiment         (LAB=FILE: with another file than lab.c)
 *
 * First: lenet on the device "cpu" with one thread, the fastest of 30 runs for each size of batch. Then your lab_serve
 * (task 12.4) with these times: requests arrive at random (a Poisson process), at a share of the rate of batch 64. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "core/clock.h"
#include "core/philox.h"
#include "lab.h"
#include "tasks.h"

/* Called by blanks. */
gs_status lab_blank(const char *task) {
    return gs_fail(GS_E_USAGE, "not written yet: task %s", task);
}

enum { SIZES = 9, MOST = 256, RUNS = 30, REQUESTS = 20000 };

/* ---- measured ---- */

static gs_status time_of(gs_model *m, gs_mem x, size_t n, double *ms) {
    const gs_pass pass = {.n = n};
    gs_mem logits;
    *ms = INFINITY;
    for (int i = 0; i < RUNS; i++) {
        double start = gs_seconds();
        GS_TRY(gs_model_forward(m, &pass, x, &logits));
        GS_TRY(m->device->ops->finish(m->device));
        *ms = fmin(*ms, 1e3 * (gs_seconds() - start));
    }
    return GS_OK;
}

static gs_status measure(lab_timing table[SIZES]) {
    gs_device *device;
    gs_model *model = NULL;
    gs_mem x = GS_NONE;
    GS_TRY(gs_device_open("cpu", 1, &device));
    const gs_model_config config = {.text = "lenet", .in = {1, 28, 28, 0}, .max_batch = MOST, .seed = 1};
    gs_status status = gs_model_create(device, &config, &model);
    if (status == GS_OK) status = device->ops->alloc(device, MOST * 28 * 28 * sizeof(float), &x);
    for (int i = 0; status == GS_OK && i < SIZES; i++) {
        table[i].batch = (size_t)1 << i;
        status = time_of(model, x, table[i].batch, &table[i].ms);
    }
    device->ops->free(device, x);
    gs_model_free(model);
    gs_device_close(device);
    return status;
}

/* ---- served ---- */

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The time to the next request of a Poisson process with `rate` requests per ms. */
static double distance(uint64_t i, double rate) {
    uint32_t word[4];
    gs_philox(12, 0, i, word);
    return -log(((double)word[0] + 1) / 4294967296.0) / rate;
}

static void serve(const lab_server *s, double rate, double load) {
    static double arrival[REQUESTS], done[REQUESTS];
    double sum = 0;
    for (uint64_t i = 0; i < REQUESTS; i++) {
        arrival[i] = (i ? arrival[i - 1] : 0) + distance(i, rate * load);
        done[i] = NAN;
    }
    lab_serve(s, REQUESTS, arrival, done);
    for (int i = 0; i < REQUESTS; i++) {
        done[i] -= arrival[i];
        sum += done[i];
    }
    qsort(done, REQUESTS, sizeof *done, by_size);
    printf("  %4.0f %%  %8zu  %6.2f  %10.3f  %10.3f\n", 100 * load, s->most, s->wait, sum / REQUESTS,
           done[REQUESTS * 99 / 100]);
}

int main(int argc, char **argv) {
    (void)argc;
    gs_cpu_choose_kernels(argv);
    lab_timing table[SIZES];
    if (measure(table) != GS_OK) {
        fprintf(stderr, "experiment: %s\n", gs_message());
        return 1;
    }
    printf("# lenet, cpu, 1 thread\n#  batch        ms  requests/ms\n");
    for (int i = 0; i < SIZES; i++)
        printf("  %6zu  %8.3f  %11.2f\n", table[i].batch, table[i].ms, (double)table[i].batch / table[i].ms);

    /* A straight line through the times of batches 1 and 64, where memory is not yet the limit. */
    double each = (table[6].ms - table[0].ms) / 63, fixed = table[0].ms - each;
    printf("\n# a batch of b takes about %.3f + %.4f b ms\n", fixed, each);
    printf("# %d requests; 100 %% are %.2f for each ms\n", REQUESTS, 64 / table[6].ms);
    printf("#  load  at most  wait ms     mean ms     99 %% ms\n");
    double one[1] = {NAN}, probe[1] = {0};
    lab_serve(&(lab_server){1, 0, 1, 0}, 1, probe, one);
    if (isnan(one[0])) {
        printf("# (task 12.4 is not written yet)\n");
        return 0;
    }
    static const double loads[] = {0.1, 0.4, 0.7, 0.9};
    for (size_t l = 0; l < sizeof loads / sizeof *loads; l++) {
        double rate = 64 / table[6].ms;
        serve(&(lab_server){1, 0, fixed, each}, rate, loads[l]);
        serve(&(lab_server){64, 0, fixed, each}, rate, loads[l]);
        serve(&(lab_server){64, 1, fixed, each}, rate, loads[l]);
        serve(&(lab_server){64, 5, fixed, each}, rate, loads[l]);
    }
    return 0;
}
