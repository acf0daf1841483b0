#include "tests/faults/settings.h"

#include <stdlib.h>
#include "core/philox.h"
#include "tests/faults/wraps.h"

/* An epoch has two full batches and one of 5 samples, or (EVEN) two full ones that divide evenly among 3 workers. */
enum { BATCH = 64, SAMPLES = 2 * BATCH + 5, EVEN = 63, SIDE = 6, TOKENS = 8, VOCABULARY = 16 };

static const char
    PLAIN[] = "flatten, linear 24, tanh, linear 16, tanh, linear 12, tanh, linear 10",
    DROPOUT[] = "flatten, linear 24, tanh, dropout 0.25, linear 10",
    NORM[] = "flatten, linear 16, batch_norm, tanh, linear 10",
    TIED[] =
        "embedding 16 8, positions, residual (layer_norm, linear 24, attention 2 causal), layer_norm, tied";

static gs_dataset *numbers, *even, *tokens, *images;

static float drawn(uint64_t i) {
    uint32_t word[4];
    gs_philox(7, 0, i, word);
    return gs_uniform(word[0]);
}

/* The first `count` of the samples. */
static gs_dataset *make_numbers(const char *name, size_t count) {
    enum { EACH = SIDE * SIDE };
    static float x[SAMPLES * EACH];
    static int32_t label[SAMPLES];
    gs_dataset *set;
    for (uint64_t i = 0; i < SAMPLES; i++) label[i] = (int32_t)(10 * drawn(i));
    for (uint64_t i = 0; i < SAMPLES * EACH; i++)
        x[i] = 2 * drawn(1000 + i) - 1 + 0.3f * (float)((i % EACH) % 10 == (uint64_t)label[i / EACH]);
    if (gs_dataset_from_labels(name, count, (gs_shape){1, SIDE, SIDE, 0}, x, label, &set) != GS_OK)
        gs_bug("%s", gs_message());
    return set;
}

const gs_dataset *fault_numbers(void) {
    if (!numbers) numbers = make_numbers("numbers", SAMPLES);
    return numbers;
}

void fault_make_even(gs_settings *s) {
    if (!even) even = make_numbers("even numbers", 2 * EVEN);
    s->train_set = s->test_set = even;
    s->batch = EVEN;
}

const gs_dataset *fault_tokens(void) {
    static float x[SAMPLES * TOKENS];
    static int32_t label[SAMPLES * TOKENS];
    if (tokens) return tokens;
    for (uint64_t i = 0; i < SAMPLES * TOKENS; i++) {
        x[i] = (float)(int)(VOCABULARY * drawn(i));
        label[i] = (int32_t)(VOCABULARY * drawn(100000 + i));
    }
    if (gs_dataset_from_token_labels("tokens", SAMPLES, (gs_shape){1, 1, 1, TOKENS}, x, TOKENS, label,
                                     &tokens) != GS_OK)
        gs_bug("%s", gs_message());
    return tokens;
}

const gs_dataset *fault_images(void) {
    if (!images && gs_dataset_load("fashion-mnist-small", GS_TEST, &images) != GS_OK)
        gs_bug("%s", gs_message());
    return images;
}

void fault_sets_free(void) {
    gs_dataset_free(numbers);
    gs_dataset_free(even);
    gs_dataset_free(tokens);
    gs_dataset_free(images);
}

static void hook(gs_worker *w) {
    if (is_on(ROUNDED_WEIGHTS)) fault_round_weights(w);
}

gs_settings fault_settings(void) {
    gs_settings s = gs_settings_default();
    s.train_set = s.test_set = fault_numbers();
    s.model = PLAIN;
    s.batch = BATCH;
    s.steps = 4;
    s.threads = 1;
    s.bind = false;
    s.test_hook = hook;
    return s;
}

void fault_apply(const fault_run *r, gs_settings *s) {
    static const char *const devices[] = {"cpu", "cpu,cpu", "cpu,cpu,cpu",
                                          "cpu,cpu,cpu,cpu", [7] = "cpu,cpu,cpu,cpu,cpu,cpu,cpu,cpu"};
    if (r->base) fault_apply(r->base, s);
    if (r->workers) s->devices = devices[r->workers - 1];
    if (r->set) s->train_set = s->test_set = r->set();
    if (r->ghost) s->batch_norm = (gs_batch_norm_groups){GS_BATCH_NORM_GHOST, r->ghost};
    if (r->cosine && !gs_lr_schedule_read("cosine", &s->schedule)) gs_bug("no schedule");
#define APPLY(field)                                                                                         \
    if (r->field) s->field = r->field
    APPLY(model);
    APPLY(sync);
    APPLY(pipeline_cut);
    APPLY(pipeline_schedule);
    APPLY(zero);
    APPLY(pipeline);
    APPLY(micro_batches);
    APPLY(accumulate);
    APPLY(bucket);
    APPLY(tensor);
    APPLY(epochs);
    APPLY(recompute);
    APPLY(sequence);
    APPLY(exact);
    APPLY(batch);
    APPLY(micro_batch);
    APPLY(steps);
    APPLY(seed);
    APPLY(clip);
    APPLY(weight_decay);
    APPLY(label_smoothing);
    APPLY(offload);
    APPLY(wire);
    APPLY(precision);
    APPLY(optimizer);
}

const fault_run settings_one = {0}, settings_two = {.workers = 2}, settings_three = {.workers = 3},
                settings_four = {.workers = 4}, settings_two_epochs = {.workers = 2, .steps = 5},
                settings_images = {.workers = 2, .set = fault_images, .steps = 2},
                settings_zero1 = {.workers = 2, .zero = 1},
                /* the cut is given, because measuring one would run layers before there is a worker */
    settings_tied_pipeline = {.base = &settings_two_tied,
                              .pipeline = 2,
                              .pipeline_cut = "flops",
                              .micro_batches = 4},
                settings_two_dropout = {.workers = 2, .model = DROPOUT},
                settings_accumulate_dropout = {.model = DROPOUT, .accumulate = 2},
                settings_two_relu = {.workers = 2, .model = "flatten, linear 24, relu, linear 10"},
                settings_two_norm = {.workers = 2, .model = NORM},
                settings_two_tied = {.workers = 2, .model = TIED, .set = fault_tokens},
                settings_accumulate = {.accumulate = 4},
                settings_accumulate_two = {.workers = 2, .accumulate = 2},
                settings_accumulate_three = {.workers = 2, .accumulate = 3},
                settings_pieces = {.micro_batch = 48},
                settings_smoothed = {.workers = 2, .label_smoothing = 0.1f},
                settings_clip_two = {.workers = 2, .clip = 0.1f},
                settings_clip_three = {.workers = 3, .clip = 0.1f},
                settings_clip_zero = {.workers = 2, .clip = 0.1f, .zero = 2},
                settings_clip_f16 = {.workers = 2, .clip = 0.1f, .precision = GS_PRECISION_F16},
                settings_f16 = {.workers = 2, .precision = GS_PRECISION_F16},
                settings_scheduled_accumulate = {.steps = 6, .epochs = 4, .cosine = true, .accumulate = 2},
                settings_scheduled_two = {.workers = 2, .steps = 6, .epochs = 4, .cosine = true},
                settings_adam = {.workers = 2, .exact = true, .optimizer = &gs_adam},
                settings_adamw = {.workers = 2, .exact = true, .optimizer = &gs_adamw, .weight_decay = 1},
                settings_gpt = {.model = "gpt 16",
                                .set = fault_tokens,
                                .batch = 16,
                                .steps = 2,
                                .optimizer = &gs_adamw},
                /* without ghost groups, each leaf's layers would run in a separate thread */
    settings_resnet = {.base = &settings_images,
                       .exact = true,
                       .ghost = 2,
                       .model = "resnet20",
                       .batch = 16,
                       .steps = 1,
                       .optimizer = &gs_adamw},
                settings_pool = {.base = &settings_images,
                                 .exact = true,
                                 .model = "conv 4 3x3 pad 1, relu, max_pool 2, flatten, linear 10"},
                settings_decay = {.workers = 2, .weight_decay = 0.1f},
                settings_decay_three = {.workers = 3, .weight_decay = 0.1f},
                settings_lamb_zero = {.workers = 2, .exact = true, .optimizer = &gs_lamb, .zero = 1};
