/* Linear regression: find the plane t = 3 a - 2 b + 1 from noisy points on it.
 * cc linear_regression.c $(pkg-config --cflags --libs gradsum) -lm -o linear_regression && ./linear_regression */
#include <gradsum.h>
#include <math.h>
#include <stdio.h>

enum { POINTS = 1000, INPUTS = 2, STEPS = 200 };

static gs_status make_points(gs_dataset **set) {
    static float x[POINTS][INPUTS], t[POINTS];
    for (int i = 0; i < POINTS; i++) {
        x[i][0] = (float)(i % 40) / 20 - 1; /* a grid: both from -1 to 1 */
        x[i][1] = floorf((float)i / 40) / 12 - 1;
        t[i] = 3 * x[i][0] - 2 * x[i][1] + 1 + 0.1f * sinf((float)i * (float)i);
    }
    return gs_dataset_from_targets("points", POINTS, (gs_shape){INPUTS, 1, 1, 0}, x[0], 1, t, set);
}

static gs_status fit(gs_dataset **points, gs_trainer **trainer) {
    float w[INPUTS + 1]; /* t = w0 a + w1 b + bias */
    gs_metrics m;
    GS_TRY(make_points(points));
    gs_trainer_options options = {.model = "linear 1", .data = *points, .batch = 50, .loss = GS_REGRESSION};
    options.devices =
        "cpu,cpu"; /* two workers: each sees half of every batch, and the result is the same as with one */
    GS_TRY(gs_trainer_create(&options, trainer));
    for (int i = 0; i < STEPS; i++) GS_TRY(gs_trainer_step(*trainer, NULL));
    GS_TRY(gs_trainer_evaluate(*trainer, *points, &m));
    GS_TRY(gs_trainer_read_weights(*trainer, w));
    /* The noise is a sine of 0.1: no plane's loss falls much below its variance, 0.1^2 / 2 = 0.005. */
    printf("t = %.2f a %+.2f b %+.2f, loss %.4f after %d steps\n", (double)w[0], (double)w[1], (double)w[2],
           m.loss, STEPS);
    return GS_OK;
}

int main(void) {
    gs_dataset *points = NULL;
    gs_trainer *trainer = NULL;
    const gs_status status = fit(&points, &trainer);
    if (status != GS_OK) fprintf(stderr, "%s\n", gs_message());
    gs_trainer_free(trainer);
    gs_dataset_free(points);
    return status == GS_OK ? 0 : 1;
}
