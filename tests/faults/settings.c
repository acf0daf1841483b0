#include "tests/faults/settings.h"

#include <stdlib.h>

#include "tests/faults/wraps.h"

/* Two whole batches and one of 5 samples are an epoch; or two whole ones, which 3 workers divide evenly. */
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

static void workers(gs_settings *s, int count) {
    static const char *const devices[] = {"cpu", "cpu,cpu", "cpu,cpu,cpu", "cpu,cpu,cpu,cpu"};
    s->devices = devices[count - 1];
}

static void of_tokens(gs_settings *s) {
    s->model = TIED;
    s->train_set = s->test_set = fault_tokens();
}

void settings_one(gs_settings *s) {
    (void)s;
}
void settings_two(gs_settings *s) {
    workers(s, 2);
}
void settings_three(gs_settings *s) {
    workers(s, 3);
}
void settings_four(gs_settings *s) {
    workers(s, 4);
}
void settings_two_epochs(gs_settings *s) {
    workers(s, 2);
    s->steps = 5;
}
void settings_images(gs_settings *s) {
    workers(s, 2);
    s->train_set = s->test_set = fault_images();
    s->steps = 2;
}
void settings_zero1(gs_settings *s) {
    workers(s, 2);
    s->zero = 1;
}
void settings_tied_pipeline(gs_settings *s) {
    workers(s, 2);
    of_tokens(s);
    s->pipeline = 2;
    s->pipeline_cut = "flops"; /* to measure, layers run where there is no worker yet */
    s->micro_batches = 4;
}
void settings_two_rounded(gs_settings *s) {
    workers(s, 2);
}
void settings_two_dropout(gs_settings *s) {
    workers(s, 2);
    s->model = DROPOUT;
}
void settings_accumulate_dropout(gs_settings *s) {
    s->model = DROPOUT;
    s->accumulate = 2;
}
void settings_two_norm(gs_settings *s) {
    workers(s, 2);
    s->model = NORM;
}
void settings_two_tied(gs_settings *s) {
    workers(s, 2);
    of_tokens(s);
}
void settings_accumulate(gs_settings *s) {
    s->accumulate = 4;
}
void settings_accumulate_two(gs_settings *s) {
    workers(s, 2);
    s->accumulate = 2;
}
void settings_accumulate_three(gs_settings *s) {
    workers(s, 2);
    s->accumulate = 3;
}
void settings_pieces(gs_settings *s) {
    s->micro_batch = 48;
}
void settings_smoothed(gs_settings *s) {
    workers(s, 2);
    s->label_smoothing = 0.1f;
}
void settings_clip_two(gs_settings *s) {
    workers(s, 2);
    s->clip = 0.1f;
}
void settings_clip_three(gs_settings *s) {
    workers(s, 3);
    s->clip = 0.1f;
}
void settings_clip_zero(gs_settings *s) {
    workers(s, 2);
    s->clip = 0.1f;
    s->zero = 2;
}
void settings_clip_f16(gs_settings *s) {
    workers(s, 2);
    s->clip = 0.1f;
    s->precision = GS_PRECISION_F16;
}
void settings_f16(gs_settings *s) {
    workers(s, 2);
    s->precision = GS_PRECISION_F16;
}
static void scheduled(gs_settings *s) {
    s->steps = 6;
    s->epochs = 4;
    if (!gs_lr_schedule_read("cosine", &s->schedule)) gs_bug("no schedule");
}
void settings_scheduled_accumulate(gs_settings *s) {
    scheduled(s);
    s->accumulate = 2;
}
void settings_scheduled_two(gs_settings *s) {
    workers(s, 2);
    scheduled(s);
}
void settings_adam(gs_settings *s) {
    s->exact = true;
    workers(s, 2);
    s->optimizer = &gs_adam;
}
void settings_adamw(gs_settings *s) {
    s->exact = true;
    workers(s, 2);
    s->optimizer = &gs_adamw;
    s->weight_decay = 1;
}
void settings_gpt(gs_settings *s) {
    of_tokens(s);
    s->model = "gpt 16";
    s->batch = 16;
    s->steps = 2;
    s->optimizer = &gs_adamw;
}
void settings_resnet(gs_settings *s) {
    settings_images(s);
    s->exact = true;
    s->batch_norm =
        (gs_batch_norm_groups){GS_BATCH_NORM_GHOST, 2}; /* else leaves have threads of their own */
    s->model = "resnet20";
    s->batch = 16;
    s->steps = 1;
    s->optimizer = &gs_adamw;
}
void settings_pool(gs_settings *s) {
    s->exact = true;
    settings_images(s);
    s->model = "conv 4 3x3 pad 1, relu, max_pool 2, flatten, linear 10";
}
void settings_decay(gs_settings *s) {
    workers(s, 2);
    s->weight_decay = 0.1f;
}
void settings_decay_three(gs_settings *s) {
    workers(s, 3);
    s->weight_decay = 0.1f;
}
void settings_lamb_zero(gs_settings *s) {
    s->exact = true;
    workers(s, 2);
    s->optimizer = &gs_lamb;
    s->zero = 1;
}
