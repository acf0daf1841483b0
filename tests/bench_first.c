/* How long a first training step takes on an OpenCL device, for bench_cl.sh: seconds from the start of this program to
 * the end of the first step (kernels compiled or found in the cache, data loaded, step and update done), as `gradsum
 * train` makes it. What comes after the step is left out.
 *
 *     bench-first MODEL DEVICE
 */
#include <stdio.h>
#include <stdlib.h>

#include "core/clock.h"
#include "gradsum.h"

static double started;
static const gs_worker *worker;

static void stop(void) {
    fprintf(stderr, "bench-first: %s\n", gs_message());
    exit(1);
}

static void on_start(void *context, const gs_worker *w) {
    (void)context;
    worker = w;
}

static void on_step(void *context, int epoch, uint64_t done, uint64_t of, const gs_score *score) {
    (void)context, (void)epoch, (void)done, (void)of, (void)score;
    if (worker->device->ops->finish(worker->device) != GS_OK) stop();
    printf("%.3f\n", gs_seconds() - started);
    fflush(stdout);
    _Exit(0); /* the other steps and the test set are of no interest */
}

int main(int argc, char **argv) {
    started = gs_seconds();
    if (argc != 3) {
        fprintf(stderr, "usage: bench-first MODEL DEVICE\n");
        return 2;
    }
    gs_cl_choose_settings(true);
    gs_settings s = gs_settings_default();
    s.model = argv[1];
    s.devices = argv[2];
    const gs_observer observer = {.start = on_start, .step = on_step};
    gs_result result;
    if (gs_train(&s, &observer, &result) != GS_OK) stop();
    fprintf(stderr, "bench-first: no step was made\n");
    return 1;
}
