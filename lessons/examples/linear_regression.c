/* Linear regression: find the plane t = 3 a - 2 b + 1 from noisy points on it.
 *
 *     cc linear_regression.c $(pkg-config --cflags --libs gradsum) -o linear_regression && ./linear_regression
 */
#include <gradsum.h>
#include <stdio.h>

enum { POINTS = 1000, INPUTS = 2 };

/* Random numbers that need no state: number `which` of point i is the same in every run and on every machine. */
static float random_number(unsigned i, int which) {
    uint32_t word[4];
    gs_philox(7, 0, i, word);
    return 2 * gs_uniform(word[which]) - 1; /* from -1 to 1 */
}

static gs_status make_points(gs_dataset **set) {
    static float x[POINTS][INPUTS], t[POINTS];
    for (unsigned i = 0; i < POINTS; i++) {
        x[i][0] = random_number(i, 0);
        x[i][1] = random_number(i, 1);
        t[i] = 3 * x[i][0] - 2 * x[i][1] + 1 + 0.1f * random_number(i, 2);
    }
    return gs_dataset_from_targets("points", POINTS, (gs_shape){INPUTS, 1, 1, 0}, x[0], 1, t, set);
}

static gs_status train(const gs_dataset *points, gs_result *result) {
    gs_settings s = gs_settings_default();
    s.model = "linear 1"; /* t = w0 a + w1 b + bias */
    s.loss = GS_REGRESSION;
    s.train_set = s.test_set = points;
    s.batch = 50;
    s.epochs = 10;
    s.devices = "cpu,cpu"; /* two workers: each sees half of every batch, and the result is that of one */
    return gs_train(&s, NULL, result);
}

int main(void) {
    gs_dataset *points = NULL;
    gs_result result = {0};
    gs_status status = make_points(&points);
    if (status == GS_OK) status = train(points, &result);
    if (status == GS_OK)
        /* The noise is uniform in (-0.1, 0.1): no plane's loss is below its variance, 0.1^2 / 3 = 0.0033. */
        printf("t = %.2f a %+.2f b %+.2f, loss %.4f after %d steps\n", (double)result.weights[0],
               (double)result.weights[1], (double)result.weights[2], result.test_loss, (int)result.steps);
    else
        fprintf(stderr, "%s\n", gs_message());
    gs_result_free(&result);
    gs_dataset_free(points);
    return status == GS_OK ? 0 : 1;
}
