/* --precision: whole runs with 16-bit products, and the loss scale for f16. */
#include "tests/support/devices.h"
#include "tests/support/training.h"

#include <math.h>

/* ---- the loss scale ---- */

TEST(halved_and_doubled) {
    gs_loss_scale s = {.scale = GS_LOSS_SCALE_FIRST};
    gs_loss_scale_step(&s, false);
    assert_true(s.skipped && s.skips == 1 && s.used == 128 && s.scale == 64);
    for (int i = 0; i < GS_LOSS_SCALE_STEPS - 1; i++) gs_loss_scale_step(&s, true);
    assert_true(!s.skipped && s.scale == 64);
    gs_loss_scale_step(&s, true);
    assert_true(s.used == 64 && s.scale == 128);
    for (int i = 0; i < GS_LOSS_SCALE_STEPS - 1; i++) gs_loss_scale_step(&s, true);
    gs_loss_scale_step(&s, false); /* the count restarts */
    for (int i = 0; i < GS_LOSS_SCALE_STEPS - 1; i++) gs_loss_scale_step(&s, true);
    assert_true(s.scale == 64);
    for (int i = 0; i < 100; i++) gs_loss_scale_step(&s, false);
    assert_true(s.scale == GS_LOSS_SCALE_LEAST);
    for (int i = 0; i < 100 * GS_LOSS_SCALE_STEPS; i++) gs_loss_scale_step(&s, true);
    assert_true(s.scale == GS_LOSS_SCALE_MOST);
}

TEST(what_a_file_may_say) {
    assert_true(gs_loss_scale_is_valid(65536, 0) && gs_loss_scale_is_valid(0x1p-24, 1999));
    assert_false(gs_loss_scale_is_valid(65536, 2000));
    assert_false(gs_loss_scale_is_valid(65535, 0));
    assert_false(gs_loss_scale_is_valid(0x1p25, 0));
    assert_false(gs_loss_scale_is_valid(0, 0));
    assert_false(gs_loss_scale_is_valid(-2, 0));
    assert_false(gs_loss_scale_is_valid(NAN, 0));
    assert_false(gs_loss_scale_is_valid(INFINITY, 0));
}

/* ---- an update ---- */

enum { FEATURES = 3, OUTPUTS = 2, PARAMS = (FEATURES + 1) * OUTPUTS };

typedef struct updated {
    float weights[PARAMS], vector[PARAMS];
    gs_loss_scale scale;
    uint64_t updates;
    double norm;
} updated;

/* Two updates with gradients of about 1e-3 times the scale; in the second, one element is multiplied by `spoiled`. */
static updated update_twice(gs_device *d, const gs_optimizer_ops *ops, float scale, float clip,
                            float spoiled) {
    updated u;
    gs_optimizer *o;
    float g[PARAMS];
    gs_model *m = gs_test_model(d, .text = "linear 2", .in = {FEATURES, 1, 1, 0}, .max_batch = 1, .seed = 1);
    assert_ok(gs_optimizer_create(ops, m, 0.25f, ops->usual.momentum > 0 ? 0.5f : 0, 0, &o));
    o->loss_scale.scale = scale;
    o->clip = clip;
    for (int step = 0; step < 2; step++) {
        for (int i = 0; i < PARAMS; i++) g[i] = 1e-3f * (float)(i + 1 + step) * (scale > 0 ? scale : 1);
        if (step == 1) g[5] *= spoiled;
        assert_ok(d->ops->write(d, m->gradients, g, sizeof g));
        assert_ok(gs_optimizer_update(o, 4));
    }
    assert_ok(d->ops->read(d, u.weights, m->weights, sizeof u.weights));
    assert_ok(d->ops->read(d, u.vector, gs_optimizer_vector(o, 0, 0), sizeof u.vector));
    u.scale = o->loss_scale;
    u.updates = o->updates;
    u.norm = o->norm;
    gs_optimizer_free(o);
    return u;
}

/* Dividing by a power of two changes no bit of the result. */
TEST(scaled_gradients_give_the_same_update) {
    FOR_EACH_DEVICE (d)
        for (int i = 0; gs_optimizers[i]; i++)
            for (int clipped = 0; clipped < 2; clipped++) {
                const float clip = 0.001f * (float)clipped;
                const updated plain = update_twice(d, gs_optimizers[i], 0, clip, 1),
                              scaled = update_twice(d, gs_optimizers[i], 4096, clip, 1);
                assert_memory_equal(plain.weights, scaled.weights, sizeof plain.weights);
                assert_near(scaled.norm, plain.norm, 0, 1e-12);
                assert_true(scaled.scale.good == 2 && !scaled.scale.skipped && plain.scale.used == 0);
            }
}

/* Weights, vectors and Adam's count of updates all stay unchanged. */
TEST(nothing_is_updated_by_infinity) {
    static const gs_optimizer_ops *const all[] = {&gs_sgd, &gs_adam};
    const float bad[] = {INFINITY, -INFINITY, NAN};
    FOR_EACH_DEVICE (d)
        for (size_t i = 0; i < sizeof all / sizeof *all; i++)
            for (size_t b = 0; b < sizeof bad / sizeof *bad; b++) {
                const updated u = update_twice(d, all[i], 4096, 0, bad[b]);
                assert_true(u.scale.skipped && u.scale.skips == 1 && u.scale.scale == 2048 && u.updates == 1);
                for (int k = 0; k < PARAMS; k++) assert_true(isfinite(u.weights[k]) && isfinite(u.vector[k]));
                const updated without = update_twice(d, all[i], 0, 0, bad[b]);
                assert_false(isfinite(without.weights[5])); /* without the check it would have been updated */
            }
}

/* ---- whole runs ---- */

/* The first logits are far apart, so the first scale makes the gradients infinite at once. */
static const char FAR_APART[] = "flatten, linear 16 std 2, tanh, linear 16 std 50, linear 10 std 50";

static gs_settings settings_of(gs_precision p, const char *devices) {
    gs_settings s = gs_test_settings("%s --batch 333 --steps 12", devices);
    s.precision = p;
    return s;
}

static uint64_t skips;
static float scale;

static void look(gs_worker *w) {
    if (w->comm->rank != 0) return;
    skips = w->optimizer->loss_scale.skips;
    scale = w->optimizer->loss_scale.scale;
}

/* --verify compares the weights after each step, so it would detect a step that only one worker skips. */
TEST(all_workers_skip_the_same) {
    static const char *const ways[] = {"cpu",
                                       "cpu,cpu,cpu --sync ring --wire f16",
                                       "cpu,cpu --sync ps --bucket 1",
                                       "cpu,cpu --accumulate 3 --clip 0.5",
                                       "cpu,cpu,cpu --zero 1 --clip 0.5",
                                       "cpu,cpu --exact",
                                       "cl", /* from here on OpenCL */
                                       "cpu,cl --accumulate 2"};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        if (i > 5 && !gs_test_has_opencl()) continue;
        gs_settings s =
            gs_test_with(settings_of(GS_PRECISION_F16, ways[i]), "--model '%s' --verify 1", FAR_APART);
        s.test_hook = look;
        skips = 0;
        gs_test_train(&s);
        if (skips == 0 || skips >= s.steps || scale != ldexpf(GS_LOSS_SCALE_FIRST, -(int)skips))
            fail_msg("%s: %d of 12 steps ran no update, and the scale is %g", ways[i], (int)skips,
                     (double)scale);
    }
}

/* The weights equal those of f32 up to rounding: 12 steps at a rate of 0.05, products that are off by at most 2 units
 * at 1, and gradients of magnitude at most 1. */
static void near_to_f32_on(const char *device) {
    gs_settings s = settings_of(GS_PRECISION_F32, device);
    const gs_result f32 = gs_test_train(&s);
    const double unit[GS_PRECISIONS] = {
        [GS_PRECISION_BF16] = ldexp(1, -8), [GS_PRECISION_F16] = ldexp(1, -11)};
    for (int p = GS_PRECISION_BF16; p <= GS_PRECISION_F16; p++) {
        s.precision = (gs_precision)p;
        gs_result r = gs_test_train(&s);
        const double off = gs_test_difference(&f32, &r), most = 12 * 0.05 * 2 * unit[p] / (1 - 0.9);
        if (off == 0 || !(off <= most))
            fail_msg("precision %d on %s: the weights are off by %g, tolerance %g", p, device, off, most);
    }
}

TEST(near_to_f32) {
    near_to_f32_on("cpu");
    if (gs_test_has_opencl()) near_to_f32_on("cl");
}

/* The bits of products depend only on the sizes, so --exact also holds in 16 bits, and for any number of threads. */
TEST(the_same_bits) {
    static const char *const precisions[] = {"bf16", "f16"};
    for (int p = 0; p < 2; p++) {
        const char *run = gs_test_format("--batch 333 --steps 12 --precision %s", precisions[p]);
        assert_ways_have_the_bits(gs_test_format("%s --exact", run), ON_2, ON_4);
        /* without conv2d, which sums dw by threads */
        assert_ways_have_the_bits(gs_test_format("%s --model 'flatten, linear 70, relu, linear 10'", run),
                                  "--threads 3");
    }
}

TEST(on_opencl_too) {
    gs_test_need_opencl();
    for (int p = GS_PRECISION_BF16; p <= GS_PRECISION_F16; p++) {
        gs_settings s = gs_test_with(settings_of((gs_precision)p, "cpu,cl"), "--verify 1 --steps 4");
        gs_result both = gs_test_train(&s);
        s.devices = "cpu,cpu";
        gs_result cpu = gs_test_train(&s);
        /* a number near a tie may be rounded up in one run and down in the other: one unit in each of 4 steps */
        const double most = 4 * 0.05 * (p == GS_PRECISION_BF16 ? ldexp(1, -8) : ldexp(1, -11)) / (1 - 0.9);
        const double off = gs_test_difference(&both, &cpu);
        if (!(off <= most)) fail_msg("precision %d: the weights differ by %g, tolerance %g", p, off, most);
    }
}

/* ---- --save-state ---- */

static void end_after_6(gs_worker *w) {
    if (w->step >= 5) gs_stop_requested = 1;
}

TEST(the_scale_is_kept) {
    gs_settings s = settings_of(GS_PRECISION_F16, "cpu,cpu");
    gs_state *kept;
    s = gs_test_with(s, "--model '%s' --save-state", FAR_APART);
    const char *half = gs_test_format("%s/half.st", gs_test_folder());
    const char *whole = gs_test_format("%s/whole.st", gs_test_folder());
    const char *both = gs_test_format("%s/both.st", gs_test_folder());
    s.save = whole;
    gs_result all = gs_test_train(&s);
    s.save = half;
    s.test_hook = end_after_6;
    gs_result r;
    assert_ok(gs_train(&s, NULL, &r));
    gs_stop_requested = 0;
    gs_result_free(&r);
    assert_ok(gs_state_read(half, &kept));
    assert_true(kept->loss_scale > 0 && kept->loss_scale < GS_LOSS_SCALE_FIRST && kept->updates < kept->step);
    gs_state_free(kept);
    s = gs_test_with(s, "--resume %s --save %s", half, both);
    s.test_hook = NULL;
    assert_trains_to(&all, &s, "in two parts");
    s.precision = GS_PRECISION_BF16;
    assert_train_fails(GS_E_USAGE, "--precision bf16: the run in", &s);
}

/* ---- the command ---- */

TEST(what_it_says) {
    const char *log = gs_test_format("%s/log", gs_test_folder());
    assert_prints(0, "products of bf16", "train --model softmax --steps 1 --precision bf16");
    assert_prints(0, "\"precision\":\"bf16\"", "train --model softmax --steps 1 --precision bf16 --json");
    assert_prints(0, "step 1: a gradient is not finite with a loss scale of 128; the update is left out",
                  "train --model '%s' --steps 8 --precision f16 --log %s", FAR_APART, log);
    char *output =
        gs_test_shell_output(0, "grep -c '\"loss_scale\":128,\"skipped\":1' %s/metrics.jsonl", log);
    assert_string_equal(output, "1\n");
    assert_prints(2, "unknown --precision 'f8'; choose one of: f32, bf16, f16", "train --precision f8");
    assert_prints(2, "unknown option --precision", "eval --precision bf16");
    assert_prints(0, "done", "train --model softmax --sync local --every 2 --precision bf16 --steps 3");
}

/* Each sample has a pixel of 1e8: infinite in f16, as is its gradient with any scale, although the loss is finite. */
TEST(no_scale_will_do) {
    enum { N = 40, PIXELS = 16 };
    static float x[N * PIXELS];
    static int32_t label[N];
    gs_dataset *set;
    gs_result r = {0};
    for (int i = 0; i < N; i++) x[i * PIXELS + i % PIXELS] = 1e8f;
    for (int i = 0; i < N; i++) label[i] = i % 10;
    assert_ok(gs_dataset_from_labels("spots", N, (gs_shape){1, 4, 4, 0}, x, label, &set));
    gs_settings s = settings_of(GS_PRECISION_F16, "cpu,cpu");
    s.model = "flatten, linear 64, tanh, linear 10";
    s.train_set = s.test_set = set;
    s = gs_test_with(s, "--batch 8 --epochs 20");
    s.steps = 0;
    assert_train_fails(GS_E_DIVERGED,
                       "diverged at step 63: gradients in f16 are not finite with the least loss scale", &s);
    s.steps = 3; /* fewer steps than it takes to reach the smallest scale */
    assert_train_fails(GS_E_DIVERGED, "not finite with a loss scale of 32 (updates left out: all 3)", &s);
    s.steps = 0;
    s.keep_going = true;
    assert_ok(gs_train(&s, NULL, &r));
    gs_result_free(&r);
    gs_dataset_free(set);
}
