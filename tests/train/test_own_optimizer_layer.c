/* An optimiser with three vectors, and a layer with three parameters and state, both from outside the library. The
 * library must not assume two parameters per layer, or one velocity. */
#include <inttypes.h>
#include <math.h>
#include "layer/make.h"
#include "tests/support/on_devices.h"
#include "tests/support/training.h"

/* ---- a custom optimiser ---- */

enum { MEAN, SQUARES, SEEN, ARRAYS, WEIGHTS = ARRAYS, GRADIENTS };

/* g = scale dw;  mean = 0.9 mean + 0.1 g;  squares = 0.99 squares + 0.01 g^2;  seen += 1;
 * w -= lr mean / (sqrt(squares) + 0.01 seen) */
static gs_status own_update(gs_optimizer *o, size_t first, size_t count, float scale) {
    gs_device *d = o->model->device;
    gs_mem place[ARRAYS + 2] = {
        [WEIGHTS] = gs_at(o->model->weights, first), [GRADIENTS] = gs_at(o->model->gradients, first)};
    for (int i = 0; i < ARRAYS; i++) place[i] = gs_optimizer_vector(o, i, first);
    float *x[ARRAYS + 2];
    for (int i = 0; i < ARRAYS + 2 && count > 0; i++) {
        x[i] = malloc(count * sizeof(float));
        assert_non_null(x[i]);
        GS_TRY(d->ops->read(d, x[i], place[i], count * sizeof(float)));
    }
    for (size_t k = 0; k < count; k++) {
        float g = scale * x[GRADIENTS][k];
        if ((double)x[SEEN][k] < (double)o->updates || (double)x[SEEN][k] > (double)o->updates)
            return gs_fail(GS_E_DIFFER, "%g updates were seen, %" PRIu64 " counted", (double)x[SEEN][k],
                           o->updates);
        x[MEAN][k] = 0.9f * x[MEAN][k] + 0.1f * g;
        x[SQUARES][k] = 0.99f * x[SQUARES][k] + 0.01f * g * g;
        x[SEEN][k] += scale > 0;
        if (scale > 0) x[WEIGHTS][k] -= o->lr * x[MEAN][k] / (sqrtf(x[SQUARES][k]) + 0.01f * x[SEEN][k]);
    }
    for (int i = 0; i < ARRAYS + 2 && count > 0; i++) {
        GS_TRY(d->ops->write(d, place[i], x[i], count * sizeof(float)));
        free(x[i]);
    }
    return GS_OK;
}

static const gs_optimizer_ops own_optimizer = {
    .name = "own", .vector = {"mean", "squares", "seen"}, .update = own_update};

static gs_result train_own(const char *devices_and_options) {
    gs_settings s = gs_test_settings("%s --lr 0.001", devices_and_options);
    s.optimizer = &own_optimizer;
    return gs_test_train(&s);
}

TEST(an_optimiser_in_every_way_to_train) {
    gs_result alone = train_own("cpu"), two = train_own("cpu,cpu"), sharded = train_own("cpu,cpu --zero 1"),
              exact = train_own("cpu --exact"), exact_two = train_own("cpu,cpu --exact"),
              local = train_own("cpu,cpu --sync local --every 4");
    assert_same_bits(&two, &sharded, "each worker updates a part");
    assert_same_bits(&exact, &exact_two, "exact");
    assert_near(two.train_loss, alone.train_loss, 0, 1e-3); /* square roots of tiny values magnify rounding */
    assert_true(local.steps == GS_TEST_STEPS && isfinite(local.train_loss));
}

TEST(async_wants_sgd) {
    gs_settings s = gs_test_settings("cpu,cpu");
    s = gs_test_with(s, "--sync async --staleness 1");
    s.optimizer = &own_optimizer;
    assert_train_fails(GS_E_USAGE, "defined only for sgd; the optimiser is 'own'", &s);
}

/* ---- a layer with three parameters and state ---- */

enum { WIDTH = 3, INPUTS = 4, FIRST = INPUTS * WIDTH + WIDTH, PARAMS = FIRST + 7 + WIDTH * 2 + 2 };

static gs_status own_plan(gs_layer *l, gs_shape in) {
    l->out = in;
    GS_TRY(gs_layer_state(l, "doublings", 1, (int[]){1}, 2));
    GS_TRY(gs_layer_parameter(l, "a", 1, (int[]){in.c}, in.c));
    GS_TRY(gs_layer_parameter(l, "b", 1, (int[]){in.c}, in.c));
    GS_TRY(gs_layer_state(l, "mean", 1, (int[]){in.c}, 0.5f));
    return gs_layer_parameter_filled(l, "c", 1, (int[]){1}, 0.75f);
}

/* y = x. Training doubles the first state and keeps the second: dw is n times the new value. */
static gs_status own_forward(gs_layer *l, const gs_pass *pass, gs_mem x, gs_mem *y) {
    const gs_backend *ops = l->device->ops;
    const gs_param *doublings = &l->param[0], *mean = &l->param[3];
    *y = x;
    if (!pass->training) return GS_OK;
    assert_int_equal(pass->n, 2);
    GS_TRY(ops->add(l->device, mean->dw, mean->w, mean->w, mean->count));
    GS_TRY(ops->add(l->device, doublings->dw, doublings->w, doublings->w, 1));
    return ops->add(l->device, doublings->dw, doublings->dw, doublings->dw, 1);
}

/* Each parameter's gradient is 1 per sample. */
static gs_status own_backward(gs_layer *l, const gs_pass *pass, gs_mem dy, gs_mem *dx) {
    *dx = dy;
    for (int i = 0; i < l->params; i++) {
        const gs_param *p = &l->param[i];
        if (!p->state) GS_TRY(l->device->ops->fill(l->device, p->dw, (float)pass->n, p->count));
    }
    return GS_OK;
}

static void own_describe(const gs_layer *l, char *text, size_t size) {
    (void)l;
    snprintf(text, size, "own");
}

static const gs_layer_ops own_layer = {.name = "own",
                                       .buffers = GS_VIEW,
                                       .plan = own_plan,
                                       .forward = own_forward,
                                       .backward = own_backward,
                                       .describe = own_describe};

static gs_model *own_model(gs_device *d, uint64_t seed) {
    gs_layer *const layers[] = {gs_linear(WIDTH, true), gs_layer_new(&own_layer, sizeof(gs_layer), 0),
                                gs_linear(2, true)};
    gs_model *m = gs_test_model(d, .net = gs_sequential(3, layers), .in = {INPUTS, 1, 1, 0}, .max_batch = 2,
                                .seed = seed);
    return m;
}

static void state_lies_behind_the_parameters(gs_model *m, const float *initial) {
    static const char *const names[] = {"0.weight", "0.bias", "1.a",         "1.b",   "1.c",
                                        "2.weight", "2.bias", "1.doublings", "1.mean"};
    assert_int_equal(m->params, PARAMS);
    assert_int_equal(m->saved, PARAMS + 1 + WIDTH);
    assert_int_equal(m->param_count, 7);
    assert_int_equal(m->saved_count, 9);
    size_t at = 0;
    for (int p = 0; p < m->saved_count; at += m->param[p++]->count) {
        assert_string_equal(m->param[p]->name, names[p]);
        assert_int_equal(m->param[p]->at, at);
    }
    assert_int_equal(at, m->saved);
    assert_true(initial[FIRST + 2 * WIDTH] == 0.75f); /* c */
    assert_true(initial[PARAMS] == 2);
    for (int i = 1; i <= WIDTH; i++) assert_true(initial[PARAMS + i] == 0.5f);
}

/* One step: parameters move by -lr, state changes as the layer defines, and nothing else touches the state. */
static void step(gs_device *d, gs_model *m) {
    gs_optimizer *optimizer;
    gs_pass pass = {.n = 2, .training = true, .fresh = true};
    assert_ok(gs_optimizer_create(&gs_sgd, m, 0.25f, 0.9f, 0, &optimizer));
    gs_mem x = gs_test_alloc(d, 2 * INPUTS * sizeof(float)), labels = gs_test_alloc(d, 2 * sizeof(int32_t)),
           logits;
    assert_ok(d->ops->fill(d, x, 0.5f, 2 * INPUTS));
    assert_ok(gs_model_clear_stats(m));
    assert_ok(gs_model_forward(m, &pass, x, &logits));
    assert_ok(gs_model_loss(m, &pass, logits, labels));
    assert_ok(gs_model_backward(m, &pass, logits, labels));
    assert_ok(gs_optimizer_update(optimizer, 2));
    gs_optimizer_free(optimizer);
}

TEST(state_is_saved_and_not_trained) {
    enum { SAVED = PARAMS + 1 + WIDTH };
    FOR_EACH_DEVICE (d) {
        float before[SAVED], after[SAVED], back[SAVED];
        const char *path = gs_test_format("%s/own.safetensors", gs_test_folder());
        gs_model *m = own_model(d, 1), *other = own_model(d, 2);
        assert_ok(gs_model_read_weights(m, before));
        state_lies_behind_the_parameters(m, before);
        step(d, m);
        assert_ok(gs_model_read_weights(m, after));
        for (int i = 0; i < 7; i++) assert_near(after[FIRST + i], before[FIRST + i] - 0.25f, 1e-6, 0);
        assert_true(after[PARAMS] == 4);
        for (int i = 1; i <= WIDTH; i++) assert_true(after[PARAMS + i] == 0.5f);
        assert_ok(gs_safetensors_save(path, m, after));
        assert_ok(gs_safetensors_load(path, other, back));
        assert_memory_equal(after, back, sizeof back);
        assert_ok(gs_model_write_weights(other, back));
        assert_ok(gs_model_read_weights(other, before));
        assert_memory_equal(after, before, sizeof before);
    }
}

/* ---- a layer that describes its tensors wrongly ---- */

typedef struct wrong_tensor {
    const char *part, *label;
    int ndim, dims[5];
    double fan_in;
} wrong_tensor;

typedef struct wrong_layer {
    gs_layer base;
    gs_status (*add)(gs_layer *, const wrong_tensor *);
    const wrong_tensor *tensor;
} wrong_layer;

static gs_status add_parameter(gs_layer *l, const wrong_tensor *t) {
    return gs_layer_parameter(l, t->label, t->ndim, t->dims, t->fan_in);
}

static gs_status add_filled(gs_layer *l, const wrong_tensor *t) {
    return gs_layer_parameter_filled(l, t->label, t->ndim, t->dims, 1);
}

static gs_status add_state(gs_layer *l, const wrong_tensor *t) {
    return gs_layer_state(l, t->label, t->ndim, t->dims, 0);
}

static gs_status (*const adders[])(gs_layer *, const wrong_tensor *) = {add_parameter, add_filled, add_state};
enum { ADDERS = sizeof adders / sizeof *adders };

/* Plans a parameter w, followed by the tensor that the test wants. */
static gs_status wrong_plan(gs_layer *l, gs_shape in) {
    const wrong_layer *me = (const wrong_layer *)l;
    l->out = in;
    GS_TRY(gs_layer_parameter(l, "w", 4, (int[]){1, 2, 1, 3}, 2));
    return me->add(l, me->tensor);
}

static const gs_layer_ops wrong_ops = {.name = "wrong",
                                       .buffers = GS_VIEW,
                                       .plan = wrong_plan,
                                       .forward = own_forward,
                                       .backward = own_backward};

/* Plans a model whose layer 1 adds this tensor by method `how`. */
static gs_status plan_with(const wrong_tensor *t, int how, gs_model **m) {
    wrong_layer *l = (wrong_layer *)gs_layer_new(&wrong_ops, sizeof *l, 0);
    assert_non_null(l);
    l->add = adders[how];
    l->tensor = t;
    gs_layer *const layers[] = {gs_linear(WIDTH, true), &l->base};
    const gs_model_config config = {.net = gs_sequential(2, layers), .in = {INPUTS, 1, 1, 0}};
    return gs_model_create(NULL, &config, m);
}

#define LABEL_61 "a123456789b123456789c123456789d123456789e123456789f1234567890"

TEST(wrong_tensors_are_refused) {
    static const wrong_tensor wrong[] = {
        {"its v has 0 dimensions; wanted 1 to 4", "v", 0, {1}, 1},
        {"its v has -1 dimensions; wanted 1 to 4", "v", -1, {1}, 1},
        {"its v has 5 dimensions; wanted 1 to 4", "v", 5, {1, 1, 1, 1, 1}, 1},
        {"dims[0] of its v is 0; it must be at least 1", "v", 1, {0}, 1},
        {"dims[1] of its v is -3; it must be at least 1", "v", 2, {2, -3}, 1},
        {"dims[0] of its v is -2; it must be at least 1", "v", 2, {-2, -3}, 1},
        {"its v would have 2147483648 elements; at most 2147483647", "v", 2, {65536, 32768}, 1},
        {"the label of its tensor 1 is NULL; wanted a word", NULL, 1, {1}, 1},
        {"the label of its tensor 1 is empty; wanted a word", "", 1, {1}, 1},
        {"a name of 64 characters; at most 63 are allowed: shorten a123", LABEL_61 "2", 1, {1}, 1},
    };
    static const wrong_tensor wrong_fan_in[] = {
        {"fan_in of its v is -1; wanted 0 to 2147483647", "v", 1, {1}, -1},
        {"fan_in of its v is 4e+09; wanted 0 to 2147483647", "v", 1, {1}, 4e9},
        {"fan_in of its v is nan; wanted 0 to 2147483647", "v", 1, {1}, (double)NAN},
    };
    gs_model *m;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        for (int how = 0; how < ADDERS; how++) {
            assert_fails(GS_E_SHAPE, wrong[i].part, plan_with(&wrong[i], how, &m));
            assert_non_null(strstr(gs_message(), "layer 1 (wrong): "));
            assert_null(m);
        }
    for (size_t i = 0; i < sizeof wrong_fan_in / sizeof *wrong_fan_in; i++)
        assert_fails(GS_E_SHAPE, wrong_fan_in[i].part, plan_with(&wrong_fan_in[i], 0, &m));
}

/* A file with two tensors of the same name could be saved, but never loaded. */
TEST(each_label_once) {
    static const wrong_tensor again = {NULL, "w", 1, {1}, 1};
    gs_model *m;
    for (int how = 0; how < ADDERS; how++)
        assert_fails(GS_E_SHAPE, "layer 1 (wrong): two of its tensors have the label w; each needs its own",
                     plan_with(&again, how, &m));
}

TEST(the_longest_label_and_no_fan_in) {
    static const wrong_tensor right = {NULL, LABEL_61, 1, {3}, 0};
    for (int how = 0; how < ADDERS; how++) {
        gs_model *m;
        float values[64];
        assert_ok(plan_with(&right, how, &m));
        const gs_param *p = m->param[m->saved_count - 1];
        assert_string_equal(p->name, "1." LABEL_61);
        assert_int_equal(p->count, 3);
        assert_true(m->saved <= 64);
        gs_model_initial_values(m, 1, values);
        for (size_t k = 0; k < 3; k++) assert_true(values[p->at + k] == (adders[how] == add_filled ? 1 : 0));
        gs_model_free(m);
    }
}
