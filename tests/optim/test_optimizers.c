/* Optimisers other than sgd, and sgd with clipping: compares five updates with PyTorch's, on every device and in the
 * plain loops; checks that the bits are the same everywhere, and that every strategy works. */
#include <float.h>
#include <math.h>
#include "tests/support/on_devices.h"
#include "tests/support/golden.h"
#include "tests/support/operators.h"
#include "tests/support/training.h"

/* Elements may differ by TOLERANCE * (|wanted| + root mean square of the tensor). */
static const double TOLERANCE = 1e-5;

enum { STEPS = 5 };

typedef struct updates {
    bool small;
    const char *file; /* the golden file, and */
    const char *name; /* the case's name in it */
    const gs_optimizer_ops *ops;
    int in, out;
    double samples;
    float lr, beta1, beta2, epsilon, weight_decay; /* beta1 is also the momentum */
    float clip;                                    /* if set, gradients grow from step to step */
} updates;

#define NAME_OF(name, in, out, samples, ...) #name " " #in " " #out " " #samples
#define UPDATES(small, name, in, out, samples, lr, beta1, beta2, epsilon, decay)                             \
    {small,                                                                                                  \
     "optimizers",                                                                                           \
     NAME_OF(name, in, out, samples) " " #lr " " #beta1 " " #beta2 " " #epsilon " " #decay,                  \
     &gs_##name,                                                                                             \
     in,                                                                                                     \
     out,                                                                                                    \
     samples,                                                                                                \
     (float)(lr),                                                                                            \
     (float)(beta1),                                                                                         \
     (float)(beta2),                                                                                         \
     (float)(epsilon),                                                                                       \
     (float)(decay),                                                                                         \
     0},
#define CLIP(in, out, samples, lr, momentum, decay, most)                                                    \
    {in <= 5,                                                                                                \
     "clip",                                                                                                 \
     NAME_OF(clip, in, out, samples) " " #lr " " #momentum " " #decay " " #most,                             \
     &gs_sgd,                                                                                                \
     in,                                                                                                     \
     out,                                                                                                    \
     samples,                                                                                                \
     (float)(lr),                                                                                            \
     (float)(momentum),                                                                                      \
     0,                                                                                                      \
     0,                                                                                                      \
     (float)(decay),                                                                                         \
     (float)(most)},
static const updates cases[] = {
#include "tests/support/clip_cases.h"
#include "tests/support/optimizer_cases.h"
};
enum { CASES = sizeof cases / sizeof *cases };

/* ---- against PyTorch ---- */

/* Skips sgd, which comes first. */
static const gs_optimizer_ops *const *const all = gs_optimizers + 1;

static void write_values(gs_device *d, gs_mem to, size_t count, uint32_t salt, float times) {
    float *x = gs_test_malloc((count + 1) * sizeof *x);
    for (size_t i = 0; i < count; i++) x[i] = test_value(i, salt) * times;
    assert_ok(d->ops->write(d, to, x, count * sizeof *x));
}

static void check_values(gs_device *d, const updates *u, const char *tensor, gs_mem from, size_t count) {
    float *x = gs_test_malloc((count + 1) * sizeof *x);
    assert_ok(d->ops->read(d, x, from, count * sizeof *x));
    golden_check(u->file, u->name, tensor, x, count, TOLERANCE, d->name);
}

/* Updates all parameters at once, or in two parts whose boundary is inside a vector. */
static void update(gs_optimizer *o, double samples, bool parts) {
    size_t count = o->model->params, cut = count / 3;
    if (!parts) {
        assert_ok(gs_optimizer_update(o, samples));
        return;
    }
    assert_ok(gs_optimizer_update_part(o, samples, cut, count - cut));
    assert_ok(gs_optimizer_update_part(o, samples, 0, cut));
    assert_ok(gs_optimizer_end_update(o, samples));
}

static void update_five_times(gs_device *d, const updates *u, bool parts) {
    gs_optimizer *o;
    float norms[STEPS];
    const char *net = gs_test_format("flatten, linear %d, linear 3", u->out);
    gs_model *m = gs_test_model(d, .text = net, .in = {1, 1, u->in, 0}, .max_batch = 1, .seed = 1);
    assert_ok(gs_optimizer_create(u->ops, m, u->lr, u->beta1, u->weight_decay, &o));
    if (u->ops->usual.beta1 > 0) o->beta1 = u->beta1;
    if (u->ops->usual.beta2 > 0) o->beta2 = u->beta2;
    if (u->ops->usual.epsilon > 0) o->epsilon = u->epsilon;
    o->clip = u->clip;
    write_values(d, m->weights, m->params, SALT_W, 1);
    assert_ok(gs_optimizer_warm_up(o)); /* this must change nothing */
    for (uint32_t step = 0; step < STEPS; step++) {
        write_values(d, m->gradients, m->params, SALT_DY + 10 * step, u->clip > 0 ? (float)(step + 1) : 1);
        update(o, u->samples, parts);
        norms[step] = (float)o->norm;
    }
    check_values(d, u, "w", m->weights, m->params);
    if (u->clip > 0) golden_check(u->file, u->name, "norms", norms, STEPS, 1e-6, d->name);
    for (int i = 0; i < o->vectors && u->clip <= 0; i++)
        check_values(d, u, u->ops->vector[i], o->vector[i], m->params);
    gs_optimizer_free(o);
}

TEST(all_have_cases) {
    for (const gs_optimizer_ops *const *o = all; *o; o++) {
        int found = 0;
        for (int i = 0; i < CASES; i++) found += cases[i].ops == *o;
        if (!found) fail_msg("optimizer_cases.h has no case of %s", (*o)->name);
    }
}

TEST(as_pytorch) {
    gs_device *plain = gs_test_open_plain();
    for (int i = 0; i < CASES; i++) {
        if (gs_test_small() && !cases[i].small) continue;
        const bool whole = cases[i].ops->whole || cases[i].clip > 0;
        FOR_EACH_DEVICE (d)
            for (int parts = 0; parts < (whole ? 1 : 2); parts++) update_five_times(d, &cases[i], parts);
        update_five_times(plain, &cases[i], !whole);
    }
}

/* ---- moments and velocities decay to 0 ---- */

enum { N = 19 /* full vectors and a remainder */ };

/* A value that, multiplied by 0.9, is just below FLT_MIN or just above it. */
static float near_the_end(int i) {
    return (i % 2 ? -1.0f : 1.0f) * FLT_MIN * (i % 3 ? 1.05f : 1.25f);
}

static void check_end(const float *x, const char *name, const char *device, float decay) {
    for (int i = 0; i < N; i++) {
        float want = decay * near_the_end(i);
        if (fabsf(want) < FLT_MIN) want = 0;
        if (!(fabsf(x[i] - want) <= 0.01f * FLT_MIN))
            fail_msg("%s: %s[%d] is %a, wanted %a", device, name, i, (double)x[i], (double)want);
    }
}

TEST(vectors_end_at_zero) {
    static const gs_adam_step step = {.scale = 1,
                                      .rate = 0.1f,
                                      .beta1 = 0.9f,
                                      .rest1 = 0.1f,
                                      .beta2 = 0.9f,
                                      .rest2 = 0.1f,
                                      .root = 1,
                                      .epsilon = 1,
                                      .keep = 1};
    FOR_EACH_DEVICE (d) {
        const gs_backend *ops = d->ops;
        gs_mem place[4]; /* w, m, v, dw */
        float x[N];
        for (int i = 0; i < N; i++) x[i] = near_the_end(i);
        for (int i = 0; i < 4; i++) {
            place[i] = gs_test_alloc(d, sizeof x);
            assert_ok(ops->fill(d, place[i], 0, N));
        }
        assert_ok(ops->write(d, place[1], x, sizeof x));
        for (int i = 0; i < N; i++) x[i] = near_the_end(i);
        assert_ok(ops->write(d, place[2], x, sizeof x));
        assert_ok(ops->nesterov_update(d, place[0], place[2], place[3], N, 1, 0.05f, 0.9f, 0));
        assert_ok(ops->read(d, x, place[2], sizeof x));
        check_end(x, "velocity", d->name, 0.9f);
        assert_ok(ops->adam_update(d, place[0], place[1], place[2], place[3], N, step));
        assert_ok(ops->read(d, x, place[1], sizeof x));
        check_end(x, "first_moment", d->name, 0.9f);
    }
}

/* ---- in runs ---- */

static gs_settings settings_for(const gs_optimizer_ops *ops, const char *devices) {
    gs_settings s = gs_test_settings("%s", devices);
    s.optimizer = ops;
    return s;
}

/* N workers compared with one. The tolerance is loose because square roots of tiny values, such as squared gradients of
 * rarely used weights, magnify rounding errors. */
TEST(several_workers) {
    gs_test_need_whole();
    for (int i = 0; all[i]; i++) {
        gs_settings s = settings_for(all[i], "cpu");
        gs_result one = gs_test_train(&s);
        s = gs_test_with(s, "--devices cpu,cpu,cpu --verify 1 --bucket 1 --accumulate 2");
        gs_result several = gs_test_train(&s);
        assert_near(several.train_loss, one.train_loss, 0, 1e-3);
        s.bucket = s.accumulate = 0;
        gs_result whole = gs_test_train(&s);
        s.zero = 1;
        assert_trains_to(&whole, &s, all[i]->name);
    }
}

TEST(exact) {
    gs_test_need_whole();
    for (int i = 0; all[i]; i++)
        assert_ways_have_the_bits(gs_test_format("--exact --optimizer %s", all[i]->name), ON_4);
}

/* Local SGD also averages the optimiser's vectors. */
TEST(local_and_async) {
    gs_test_need_whole();
    for (int i = 0; all[i]; i++) {
        gs_settings s = settings_for(all[i], "cpu,cpu");
        s = gs_test_with(s, "--sync local --every 4 --verify 4");
        const gs_result r = gs_test_train(&s);
        assert_true(isfinite(r.train_loss) && r.train_loss < log(10));
        s.verify = s.every = 0;
        s = gs_test_with(s, "--sync async --staleness 1");
        assert_train_fails(GS_E_USAGE, "which is defined only for sgd; the optimiser is", &s);
    }
}

/* All workers keep the same weights although their devices differ; otherwise --verify stops the run. */
TEST(mixed_devices) {
    gs_test_need_whole();
    gs_test_need_opencl();
    for (int i = 0; all[i]; i++) {
        gs_settings s = gs_test_with(settings_for(all[i], "cpu,cl"), "--verify 1 --steps 6");
        gs_test_train(&s);
    }
}

/* ---- options ---- */

static void check_numbers(gs_worker *w) {
    const gs_optimizer *o = w->optimizer;
    assert_true(o->lr == 0.125f && o->weight_decay == 0.5f && o->beta1 == 0.75f);
    assert_true(o->beta2 == 0.875f && o->epsilon == 0.25f);
}

TEST(numbers_reach_the_optimiser) {
    gs_settings s =
        gs_test_with(settings_for(&gs_adam, "cpu"), "--lr 0.125 --weight-decay 0.5 --epsilon 0.25 --steps 2");
    s.beta1 = 0.75f;
    s.beta2 = 0.875f;
    s.test_hook = check_numbers;
    gs_test_train(&s);
}

TEST(usual_numbers) {
    static const char run[] = "train --model softmax --steps 1 --optimizer";
    assert_prints(0, "SGD lr 0.05, momentum 0.9, weight decay 0,", "%s sgd", run);
    assert_prints(0, "Nesterov lr 0.05, momentum 0.9, weight decay 0,", "%s nesterov", run);
    assert_prints(0, "Adam lr 0.001, beta1 0.9, beta2 0.999, epsilon 1e-08,\n         weight decay 0,",
                  "%s adam", run);
    assert_prints(0, "AdamW lr 0.002, beta1 0.9, beta2 0.99, epsilon 1e-08,\n         weight decay 0.01,",
                  "%s adamw --lr 0.002 --beta2 0.99", run);
    assert_prints(0, "LARS lr 0.01, momentum 0.9, weight decay 0,", "%s lars", run);
    assert_prints(0, "LAMB lr 0.01, beta1 0.9, beta2 0.999, epsilon 1e-06,\n         weight decay 0.01,",
                  "%s lamb", run);
    assert_prints(0, "\"optimizer\":\"adam\",\"lr\":0.001", "%s adam --json", run);
}

TEST(what_an_optimiser_does_not_take) {
    assert_prints(2,
                  "--momentum 0.9: the optimiser adam does not take it; it is for --optimizer sgd, nesterov",
                  "train --optimizer adam --momentum 0.9");
    assert_prints(2, "--beta1 0.5: the optimiser sgd does not take it; it is for --optimizer adam, adamw",
                  "train --beta1 0.5");
    assert_prints(2, "--epsilon 1e-06: the optimiser nesterov does not take it",
                  "train --optimizer nesterov --epsilon 1e-6");
    assert_prints(2, "unknown --optimizer 'adm'; choose one of: sgd, nesterov, adam",
                  "train --optimizer adm");
    assert_prints(2, "--beta2: '1' is not a number from 0 to 0.999999", "train --optimizer adam --beta2 1");
    assert_prints(2, "--epsilon: '0' is not a number", "train --optimizer adam --epsilon 0");
}
