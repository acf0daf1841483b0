/* Checks gradients of whole networks by finite differences, for every parameter and for the input. This covers how
 * layers pass dx on, share buffers and redraw dropout's mask, which tests of individual operators cannot check. */
#include <math.h>
#include "core/philox.h"
#include "layer/make.h"
#include "tests/support/on_devices.h"
#include "tests/support/operators.h"

typedef struct network {
    const char *text;
    gs_device *device;
    gs_layer *net;
    gs_pass pass;
    float step;                     /* of finite differences */
    size_t inputs, outputs, params; /* floats of the whole batch; params includes the state */
    gs_mem x, dy, weights, gradients;
    float *host_x, *host_weights, *host_y;
} network;

enum { SALT_PARAMETERS = 50 };

static float *device_values(gs_device *d, size_t count, uint32_t salt, float scale, gs_mem *m) {
    float *v = gs_test_calloc(count + 1, sizeof *v);
    for (size_t i = 0; i < count; i++) v[i] = scale * test_value(i, salt);
    *m = gs_test_put(d, v, count * sizeof *v);
    return v;
}

static gs_status fill_state(gs_layer *l, void *context) {
    (void)context;
    for (int p = 0; p < l->params; p++)
        if (l->param[p].state)
            GS_TRY(l->device->ops->fill(l->device, l->param[p].w, l->param[p].initial, l->param[p].count));
    return GS_OK;
}

static void network_open(network *t, gs_device *d, const char *text, gs_shape in, bool training,
                         bool needs_dx) {
    enum { N = 3 };
    *t = (network){.text = text, .device = d};
    t->pass = (gs_pass){.n = N, .training = training, .seed = 7, .step = 11, .first = 5};
    t->net = gs_test_net(text);
    assert_ok(gs_layer_plan(t->net, in, &t->params));
    t->inputs = N * gs_shape_size(in);
    t->outputs = N * gs_shape_size(t->net->out);
    t->params += gs_layer_states(t->net);
    t->host_x = device_values(d, t->inputs, SALT_X, 1, &t->x);
    t->host_weights = device_values(d, t->params, SALT_PARAMETERS, 0.5f, &t->weights);
    device_values(d, t->outputs, SALT_DY, 1, &t->dy);
    t->gradients = gs_test_alloc(d, t->params * sizeof(float));
    assert_ok(gs_layer_bind(t->net, d, t->weights, t->gradients, N, needs_dx));
    assert_ok(gs_layer_walk(t->net, fill_state, NULL));
    t->host_y = gs_test_malloc(t->outputs * sizeof *t->host_y);
}

/* The sum of y dy, in double, so that only y is rounded to f32. */
static double scalar(network *t) {
    gs_mem y;
    assert_ok(gs_layer_forward(t->net, &t->pass, t->x, &y));
    assert_ok(t->device->ops->read(t->device, t->host_y, y, t->outputs * sizeof(float)));
    double sum = 0;
    for (size_t i = 0; i < t->outputs; i++) sum += (double)t->host_y[i] * (double)test_value(i, SALT_DY);
    return sum;
}

/* The derivative from four values, as in test_operators.c. */
static double difference(network *t, gs_mem where, const float *host, size_t i) {
    const float h = t->step, steps[4] = {-2 * h, -h, h, 2 * h};
    double value[4];
    for (int k = 0; k < 4; k++) {
        float moved = host[i] + steps[k];
        assert_ok(t->device->ops->write(t->device, gs_at(where, i), &moved, sizeof moved));
        value[k] = scalar(t);
    }
    assert_ok(t->device->ops->write(t->device, gs_at(where, i), &host[i], sizeof host[i]));
    return (8 * (value[2] - value[1]) - (value[3] - value[0])) / (12 * (double)h);
}

static void check_part(network *t, gs_mem where, const float *host, const float *got, size_t count,
                       const char *what) {
    /* f32 results of the whole network have rounding errors, which the division by the step magnifies */
    const double tolerance = 1e-3;
    size_t checks = gs_test_small() ? 2 : 12;
    double squares = 0;
    for (size_t i = 0; i < count; i++) squares += (double)got[i] * (double)got[i];
    double rms = sqrt(squares / (double)count);
    for (size_t k = 0; k < checks && k < count; k++) {
        size_t i = k == 0 ? 0 : k == 1 ? count - 1 : test_hash(k, (uint32_t)count) % count;
        double want = difference(t, where, host, i), off = fabs(got[i] - want);
        double allowed = tolerance * (fabs(want) + rms);
        if (!(off <= allowed))
            fail_msg("\"%s\" on %s, %s: %s[%zu] is %.9g, difference quotient %.9g: off by %.2g, allowed %.2g",
                     t->text, t->device->name, t->pass.training ? "training" : "evaluation", what, i,
                     (double)got[i], want, off, allowed);
    }
}

static gs_status check_layer(gs_layer *l, void *context) {
    network *t = context;
    for (int p = 0; p < l->params && !l->param[p].state; p++) {
        size_t at = l->param[p].at, count = l->param[p].count;
        float *got = gs_test_malloc(count * sizeof *got);
        assert_ok(t->device->ops->read(t->device, got, gs_at(t->gradients, at), count * sizeof *got));
        check_part(t, gs_at(t->weights, at), t->host_weights + at, got, count, l->param[p].name);
    }
    return GS_OK;
}

static void check_network(gs_device *d, const char *text, gs_shape in, float step, bool training) {
    network t;
    network_open(&t, d, text, in, training, true);
    t.step = step;
    double before = scalar(&t);
    gs_mem dx;
    assert_ok(gs_layer_backward(t.net, &t.pass, t.dy, &dx));
    float *got = gs_test_malloc(t.inputs * sizeof *got);
    assert_ok(d->ops->read(d, got, dx, t.inputs * sizeof *got));
    check_part(&t, t.x, t.host_x, got, t.inputs, "dx");
    gs_layer_walk(t.net, check_layer, &t);
    assert_true(scalar(&t) == before);
}

TEST(gradients) {
    /* with relu and max_pool the step is small, so that no element changes sign and no maximum moves */
    const float wide = 1 / 32.0f, narrow = 1 / 512.0f;
    const struct {
        const char *text;
        gs_shape in;
        float step;
    } networks[] = {
        {"dropout 0.3", {2, 3, 3, 0}, wide},
        {"dropout 0.4, tanh, flatten, dropout 0.2, linear 5, dropout 0.5, sigmoid, dropout 0.3, "
         "linear 4, dropout 0.2",
         {1, 4, 5, 0},
         wide},
        {"conv 3 3x3 pad 1, dropout 0.3, sigmoid, residual (dropout 0.5, conv 3 3x3 pad 1, dropout 0.25), "
         "avg_pool 2, residual (conv 4 1x1, dropout 0.1 | dropout 0.6, conv 4 1x1), flatten, linear 3",
         {2, 6, 6, 0},
         wide},
        {"flatten, dropout 0.2, linear 5, dropout 0.5, relu, dropout 0.3, linear 4", {1, 4, 5, 0}, narrow},
        {"residual (flatten | flatten), residual (tanh | dropout 0.5), residual (dropout 0.5, sigmoid), "
         "linear 4, residual (residual (residual (tanh, linear 4, relu), relu | sigmoid))",
         {6, 1, 2, 0},
         narrow},
        {"max_pool 3 stride 2 pad 1, relu, conv 4 2x2 no_bias, max_pool 2x1 stride 1, tanh, "
         "flatten, linear 3",
         {2, 7, 6, 0},
         narrow},
        {"gelu, dropout 0.3, silu, linear 5, gelu tanh, dropout 0.2, gelu, tanh, silu", {6, 1, 1, 2}, wide},
        {"conv 3 3x3 no_bias, batch_norm, tanh, conv 4 3x3 pad 1 no_bias, residual (batch_norm, "
         "tanh, conv 4 1x1 | batch_norm), flatten, linear 4",
         {2, 6, 6, 0},
         1 / 128.0f},
        {"group_norm 2, conv 6 3x3, tanh, group_norm 3, conv 6 1x1, softplus 2, flatten, linear 4",
         {2, 6, 6, 0},
         1 / 128.0f},
        {"linear 5, positions, layer_norm, tanh, residual (layer_norm, gelu, linear 5), dropout "
         "0.2, linear 7, layer_norm",
         {6, 1, 1, 3},
         1 / 64.0f},
        {"linear 12, tanh, attention 2, tanh, linear 9, attention 3 causal, gelu, residual "
         "(layer_norm, linear 9, attention 1 causal), dropout 0.2, linear 4",
         {6, 1, 1, 5},
         1 / 64.0f},
        {"conv 4 3x2 stride 2x1, tanh, avg_pool 2 stride 1 pad 1, global_avg_pool, sigmoid",
         {2, 7, 6, 0},
         wide},
    };
    FOR_EACH_DEVICE (d)
        for (size_t i = 0; i < sizeof networks / sizeof *networks; i++)
            for (int training = 0; training < 2; training++)
                check_network(d, networks[i].text, networks[i].in, networks[i].step, training);
}

/* Networks of one layer, given by a word or by a word and a number; on images, or on vectors if it takes no images. */
#define TEXT(name, ...) #name " ",
TEST(gradients_of_each_layer) {
    static const char *const words[] = {GS_WORD_LAYERS(TEXT) GS_NUMBER_LAYERS(TEXT)}, *const numbers[] = {
                                                                                          "", "2", "0.5"};
    static const gs_shape shapes[] = {{4, 3, 2, 0}, {6, 1, 1, 0}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        gs_model *m = NULL;
        for (int k = 0; k < 6 && !m; k++) {
            const char *text = gs_test_format("%s%s, flatten, linear 3", words[i], numbers[k / 2]);
            const gs_shape in = shapes[k % 2];
            if (gs_model_create(NULL, &(gs_model_config){.text = text, .in = in}, &m) != GS_OK) continue;
            FOR_EACH_DEVICE (d)
                for (int training = 0; training < 2; training++)
                    check_network(d, text, in, 1 / 256.0f, training);
        }
        if (!m) fail_msg("no test of %s: %s", words[i], gs_message());
        gs_model_free(m);
    }
}

/* Without the input's gradient, layers before the first one with parameters are skipped; the others work as before. */
TEST(gradients_without_dx) {
    const char *text = "tanh, dropout 0.2, residual (relu | flatten, sigmoid), residual (linear 8 | tanh, "
                       "linear 8)";
    FOR_EACH_DEVICE (d) {
        network all, some;
        float got[2][256];
        gs_mem dx;
        network_open(&all, d, text, (gs_shape){5, 1, 1, 0}, true, true);
        network_open(&some, d, text, (gs_shape){5, 1, 1, 0}, true, false);
        assert_in_range(all.params, 1, 256);
        network *both[] = {&all, &some};
        for (size_t k = 0; k < sizeof both / sizeof *both; k++) {
            scalar(both[k]);
            assert_ok(gs_layer_backward(both[k]->net, &both[k]->pass, both[k]->dy, &dx));
            assert_true((dx.base != NULL) == (k == 0));
            assert_ok(d->ops->read(d, got[k], both[k]->gradients, all.params * sizeof(float)));
        }
        assert_memory_equal(got[0], got[1], all.params * sizeof(float));
    }
}

/* The mask depends on a sample's index in the global batch, not on the worker that computes it. */
TEST(dropout_does_not_depend_on_the_cut) {
    enum { N = 5, SIZE = 7 };
    float whole[N * SIZE], part[N * SIZE], other[N * SIZE];
    FOR_EACH_DEVICE (d) {
        const gs_backend *ops = d->ops;
        gs_layer *net = gs_dropout(0.5f);
        size_t params;
        gs_mem x, y;
        assert_ok(gs_layer_plan(net, (gs_shape){SIZE, 1, 1, 0}, &params));
        assert_ok(gs_layer_bind(net, d, GS_NONE, GS_NONE, N, false));
        x = gs_test_alloc(d, sizeof whole);
        assert_ok(ops->fill(d, x, 1, (size_t)N * SIZE));
        gs_pass pass = {.n = N, .training = true, .seed = 3, .step = 9};
        assert_ok(gs_layer_forward(net, &pass, x, &y));
        assert_ok(ops->read(d, whole, y, sizeof whole));
        for (size_t first = 0; first < N; first += 2) {
            pass.first = first;
            pass.n = N - first < 2 ? N - first : 2;
            assert_ok(gs_layer_forward(net, &pass, gs_at(x, first * SIZE), &y));
            assert_ok(ops->read(d, part + first * SIZE, y, pass.n * SIZE * sizeof(float)));
        }
        assert_memory_equal(part, whole, sizeof whole);

        /* each different step, seed or layer gives a different mask */
        for (int change = 0; change < 3; change++) {
            pass = (gs_pass){.n = N, .training = true, .seed = 3 + (change == 1), .step = 9 + (change == 0)};
            net->number = change == 2;
            assert_ok(gs_layer_forward(net, &pass, x, &y));
            assert_ok(ops->read(d, other, y, sizeof other));
            assert_memory_not_equal(other, whole, sizeof whole);
        }
        /* element 1 of sample 0, as core/philox.h and backend.h define it */
        uint32_t word[4];
        gs_philox(3, gs_stream_hi(GS_STREAM_DROPOUT, 9), 0, word);
        assert_true(whole[1] == (gs_uniform(word[1]) >= 0.5f ? 2.0f : 0.0f));

        /* evaluation returns x itself, not a copy */
        pass.training = false;
        assert_ok(gs_layer_forward(net, &pass, x, &y));
        assert_ptr_equal(y.base, x.base);
        gs_layer_free(net);
    }
}
