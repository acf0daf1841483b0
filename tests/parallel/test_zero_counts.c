/* --zero 1, 2, 3: less memory, and the bytes that the theory predicts. */
#include <math.h>

#include "tests/support/counted.h"
#include "tests/support/devices.h"
#include "tests/support/heap.h"
#include "tests/support/training.h"

/* ---- memory ---- */

#ifdef GS_TEST_HEAP
static atomic_size_t bytes_in_step;

static void look(gs_worker *w) {
    if (w->comm->rank == 0 && w->step == 2) atomic_store(&bytes_in_step, gs_test_heap());
}

static double measure(gs_settings s, int zero, gs_result *r) {
    s.zero = zero;
    s.test_hook = look;
    const size_t before = gs_test_heap();
    assert_ok(gs_train(&s, NULL, r));
    return (double)atomic_load(&bytes_in_step) - (double)before;
}

/* During a step, ZeRO saves as much of the heap of all N workers as predicted, and each worker reports what it holds.
 * Activations are small compared with the 480 KB of weights; other differences are less than 3 % of these. */
TEST(memory_falls) {
    enum { WORKERS = 4, PARAMS = 4 * (784 + 784 * 38 + 38) + 7850 };
    gs_settings s = gs_test_settings("cpu,cpu,cpu,cpu");
    s = gs_test_with(s, "--model 'flatten, linear 38, relu, linear 784, relu, linear 38, relu, linear 784, "
                        "linear 10' --optimizer adam --lr 0.001 --batch 4 --steps 2 --tests 0");
    gs_result whole, divided;
    const double all = measure(s, 0, &whole), p = (double)whole.params * sizeof(float), n = WORKERS;
    assert_true(whole.params > 100000 && whole.params < PARAMS);
    gs_result_free(&whole);
    for (int stage = 1; stage <= 3; stage++) {
        const double held = measure(s, stage, &divided);
        const gs_zero_report *z = &divided.zero;
        /* without ZeRO, a scheme's all-reduce also copies all gradients: */
        const double saved = 2 * p - z->vectors + p - z->gradients + p - z->weights + p;
        assert_near(z->vectors, 2 * p / n, 64, 0);
        const double windows = 2 * (784.0 * 38 + 784) * sizeof(float) + 10000;
        if (stage > 1) assert_true(z->gradients < p / n + windows && z->gradients > p / n);
        if (stage > 2) assert_true(z->weights < p / n + windows && z->weights > p / n);
        assert_near(all - held, n * saved, 0.03 * n * p, 0);
        gs_result_free(&divided);
    }
}
#else
TEST(memory_falls) {
    skip_because("a sanitizer, or a C library that is not glibc, counts its memory differently");
}
#endif

/* ---- bytes ---- */

/* Whether the call is a collective for a unit. */
static bool of_units(const gs_call *call) {
    return call->operation == GS_REDUCE_SCATTER || call->operation == GS_ALL_TO_ALL ||
           (call->operation == GS_ALL_GATHER && call->type == GS_F32);
}

/* With --zero 1, 2 and 3, each worker sends 2, 2 and 3 times the weights, times (N - 1) / N, as both counted messages
 * and the run's report show. The sizes divide evenly, so this holds to the byte, also with --exact and one virtual
 * shard each. */
TEST(bytes_are_those_of_the_formula) {
    float x[64 * 8];
    int32_t label[64];
    for (int i = 0; i < 64 * 8; i++) x[i] = sinf((float)i);
    for (int i = 0; i < 64; i++) label[i] = i % 4;
    gs_counted_run t = {.settings = gs_settings_default(), .counts = of_units};
    gs_settings *s = &t.settings;
    assert_ok(gs_dataset_from_labels("waves", 64, (gs_shape){8, 1, 1, 0}, x, label, &t.train));
    t.test = t.train;
    s->model = "linear 32, relu, linear 16, linear 64, linear 8, linear 4";
    s->batch = 16;
    s->steps = 3;
    s->threads = 1;
    s->test_hook = gs_counted_step_2;
    for (int workers = 2; workers <= 4; workers += 2)
        for (s->zero = 1; s->zero <= 3; s->zero++) {
            gs_counted_train(&t, workers);
            const double n = workers, times = s->zero == 3 ? 3 : 2,
                         formula = times * (n - 1) / n * (double)t.result.params * sizeof(float),
                         counts = 2 * (n - 1) / n * GS_STATS * sizeof(float);
            for (int r = 0; r < workers; r++) {
                assert_near(t.bytes[r], formula, 0, 0);
                assert_near(t.sent[r], formula + counts, 1e-6, 0);
            }
        }
    gs_dataset_free(t.train);
}
