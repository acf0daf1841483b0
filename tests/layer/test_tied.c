/* The embedding's table is also the output layer's weight (layer/tied.c): one tensor, whose gradient is a sum of two.
 * The model `tied` in tests/support/model_cases.h compares it with PyTorch. */
#include <math.h>
#include "layer/make.h"
#include "tests/support/on_devices.h"
#include "tests/support/operators.h"
#include "tests/support/training.h"

enum { N = 3, LENGTH = 4, VOCABULARY = 5, WIDTH = 6, TABLE = VOCABULARY * WIDTH };
static const char MODEL[] =
    "embedding 5 6 std 0.5, positions std 0.5, residual (layer_norm, linear 6, tanh), tied";
static const gs_shape SEQUENCE = {1, 1, 1, LENGTH};

/* A model and its batch: tokens, with the next tokens as targets. */
typedef struct small {
    gs_model *model;
    gs_mem x, labels;
} small;

static small open_small(gs_device *d) {
    small s;
    float x[N * LENGTH];
    int32_t label[N * LENGTH];
    for (int i = 0; i < N * LENGTH; i++) x[i] = (float)(i * i % VOCABULARY);
    for (int i = 0; i < N * LENGTH; i++) label[i] = (i + 1) * (i + 1) % VOCABULARY;
    s.model = gs_test_model(d, .text = MODEL, .in = SEQUENCE, .max_batch = N, .seed = 1);
    s.x = gs_test_new_mem(d, x, N * LENGTH);
    s.labels = gs_test_new_mem(d, label, N * LENGTH);
    return s;
}

/* The loss of the batch. backward adds to the gradients, or overwrites them if the pass is fresh. */
static float run(const small *s, gs_pass pass, bool backward) {
    float stats[GS_STATS];
    gs_mem logits;
    pass.n = N;
    assert_ok(gs_model_clear_stats(s->model));
    assert_ok(gs_model_forward(s->model, &pass, s->x, &logits));
    assert_ok(gs_model_loss(s->model, &pass, logits, s->labels));
    if (backward) assert_ok(gs_model_backward(s->model, &pass, logits, s->labels));
    assert_ok(s->model->device->ops->read(s->model->device, stats, gs_model_stats(s->model), sizeof stats));
    return stats[0];
}

static float *gradients(const small *s) {
    float *g = gs_test_malloc(s->model->params * sizeof *g);
    assert_ok(
        s->model->device->ops->read(s->model->device, g, s->model->gradients, s->model->params * sizeof *g));
    return g;
}

/* ---- one tensor ---- */

TEST(it_is_counted_once) {
    gs_model *tied = gs_test_plan("embedding 5 6, positions, tied", SEQUENCE);
    gs_model *own = gs_test_plan("embedding 5 6, positions, linear 5 no_bias", SEQUENCE);
    assert_int_equal(tied->params, TABLE + LENGTH * WIDTH);
    assert_int_equal(own->params, TABLE + LENGTH * WIDTH + TABLE);
    assert_int_equal(tied->param_count, 2);
    assert_int_equal(tied->out.c, VOCABULARY);
    /* as many operations as two separate layers */
    assert_true(tied->flops_forward == own->flops_forward && tied->flops_backward == own->flops_backward);
}

TEST(it_needs_an_embedding) {
    static const char *const wrong[][2] = {
        {"flatten, tied", "layer 1 (tied): no embedding comes before it, whose table it could use"},
        {"tied, embedding 5 6", "layer 0 (tied): no embedding comes before it"},
        {"embedding 5 6, tied, linear 6, tied",
         "layer 3 (tied): another tied layer uses the table of layer 0"},
        {"embedding 5 6, linear 7, tied", "the input is (4,7,1,1); the vectors of layer 0 have 6 numbers"},
        {"embedding 5 6, flatten, tied", "the input is (24,1,1); the vectors of layer 0 have 6 numbers"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_no_model(GS_E_SHAPE, wrong[i][1], NULL, .text = wrong[i][0], .in = SEQUENCE);
}

/* A net may be planned again for other shapes; the embedding then lends its table again. */
TEST(it_is_planned_twice) {
    gs_layer *net = gs_sequential(2, (gs_layer *[]){gs_embedding(5, 6), gs_tied()});
    size_t params;
    for (int i = 1; i < 3; i++) {
        assert_ok(gs_layer_plan(net, (gs_shape){1, 1, 1, i}, &params));
        assert_int_equal(params, TABLE);
        assert_true(net->child[0]->lent && net->child[1]->borrowed == &net->child[0]->param[0]);
    }
    gs_layer_free(net);
}

/* ---- its gradient ---- */

/* By finite differences: each element of the table affects the loss through both layers. */
static void gradients_of_both_uses_on(gs_device *d) {
    small s = open_small(d);
    run(&s, (gs_pass){.training = true, .fresh = true}, true);
    float *got = gradients(&s), *w = gs_test_malloc(s.model->saved * sizeof *w);
    assert_ok(gs_model_read_weights(s.model, w));
    const float step = 1 / 64.0f;
    for (int i = 0; i < TABLE; i++) {
        const float before = w[i];
        double loss[2];
        for (int side = 0; side < 2; side++) {
            w[i] = before + (side ? step : -step);
            assert_ok(gs_model_write_weights(s.model, w));
            loss[side] = (double)run(&s, (gs_pass){.training = true}, false);
        }
        w[i] = before;
        assert_near(got[i], (loss[1] - loss[0]) / (2 * (double)step), 2e-3, 2e-3);
    }
}
ON_EVERY_DEVICE(gradients_of_both_uses)

/* A fresh pass overwrites gradients with what an ordinary pass would add to zeros; a second pass adds the same
 * again. */
static void fresh_and_added_on(gs_device *d) {
    small s = open_small(d);
    assert_ok(gs_model_clear_gradients(s.model));
    run(&s, (gs_pass){.training = true}, true);
    float *added = gradients(&s);
    assert_ok(d->ops->fill(d, s.model->gradients, 7, s.model->params)); /* left by an earlier step */
    run(&s, (gs_pass){.training = true, .fresh = true}, true);
    float *fresh = gradients(&s);
    run(&s, (gs_pass){.training = true}, true);
    float *twice = gradients(&s);
    for (size_t i = 0; i < s.model->params; i++) {
        assert_near(fresh[i], (double)added[i], 1e-6, 1e-6);
        assert_near(twice[i], 2 * (double)added[i], 1e-5, 1e-5);
    }
}
ON_EVERY_DEVICE(fresh_and_added)

typedef struct told {
    gs_model *model;
    float *final;
    size_t last;
} told;

static gs_status take_final(void *context, size_t first) {
    told *t = context;
    gs_device *d = t->model->device;
    GS_TRY(d->ops->read(d, t->final + first, gs_at(t->model->gradients, first),
                        (t->last - first) * sizeof(float)));
    t->last = first;
    return GS_OK;
}

/* The table's gradient is final after the embedding's backward, not after the output layer's. */
static void final_after_both_on(gs_device *d) {
    small s = open_small(d);
    told t = {s.model, calloc(s.model->params, sizeof(float)), s.model->params};
    run(&s, (gs_pass){.training = true, .fresh = true, .final = take_final, .final_context = &t}, true);
    float *after = gradients(&s);
    assert_int_equal(t.last, 0);
    assert_memory_equal(after, t.final, s.model->params * sizeof *after);
    free(t.final);
}
ON_EVERY_DEVICE(final_after_both)

/* ---- training ---- */

static gs_dataset *make_set(void) {
    enum { SAMPLES = 48 };
    static float x[SAMPLES * LENGTH];
    static int32_t label[SAMPLES * LENGTH];
    gs_dataset *set;
    for (size_t i = 0; i < SAMPLES * LENGTH; i++) {
        label[i] = i % LENGTH > 0 ? (int32_t)x[i - 1] : 0;
        x[i] = (float)(test_hash(i, SALT_X) % VOCABULARY);
    }
    return gs_test_set(gs_dataset_from_token_labels("text", SAMPLES, SEQUENCE, x, LENGTH, label, &set), &set);
}

/* Several workers, buckets summed during backward, micro-batches, a clipped norm and per-tensor norms all give one
 * worker's weights, and with --exact the same bits. */
TEST(any_number_of_workers) {
    gs_dataset *set = make_set();
    gs_settings s =
        gs_test_options("--batch 12 --epochs 2 --threads 1 --optimizer lamb --clip 1 --lr 0.01 --model "
                        "'%s'",
                        MODEL);
    s.train_set = s.test_set = set;
    gs_test_ways(false, s,
                 WAYS(ON_2, ON_2 "--bucket 1", "--accumulate 3", "--exact",
                      /* pipeline stages: the first and the last hold the table */
                      ON_4 "--micro-batches 3 --layout dp2,pp2",
                      ON_4 "--micro-batches 3 --layout dp2,pp2,zero2",
                      ON_4 "--micro-batches 3 --layout dp2,pp2,zero3"));
    gs_test_ways(true, gs_test_with(s, "--exact"), WAYS(ON_2, ON_8));
}
