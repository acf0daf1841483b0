#include "tests/support/training.h"
#include "cli/cli.h"
#include "tests/support/launched.h"
#include "tests/support/operators.h"

#include <math.h>

/* As in test_train.c: no kinks, dropout whose mask must follow the sample, and batches that nothing divides. 6000
 * samples in batches of 333: step 19 has 6 samples (fewer than virtual shards), step 20 begins epoch 2. */
static const char MODEL[] =
    "conv 4 3x3 stride 2 pad 1, tanh, avg_pool 2, flatten, dropout 0.25, linear 16, tanh, linear 10";
enum { BATCH = 333 };

/* Under a slow checker: a tenth of the samples, in batches of a tenth. There are as many steps, and step 19 has 6
 * samples then too. A run that needs all says so: --batch 333. */
static bool tenth(void) {
    const char *value = getenv("GRADSUM_TEST_TENTH");
    return value && strcmp(value, "1") == 0;
}

static const double TOLERANCE = 1e-6; /* rounding only: see test_train.c */

static gs_settings changed(gs_settings s, const char *options, va_list args) {
    enum { WORDS = 100 };
    char *text, *argv[WORDS + 1] = {"train"};
    int argc = 1, others;
    bool help;
    if (vasprintf(&text, options, args) < 0) gs_bug("no memory for a test");
    for (char *at = gs_test_keep(text); *(at += strspn(at, " ")) && argc < WORDS; argc++) {
        const bool quoted = *at == '\'';
        argv[argc] = at += quoted;
        at += strcspn(at, quoted ? "'" : " ");
        if (*at) *at++ = '\0';
    }
    static const gs_option more[] = {GS_RUN_OPTION("confusion", NULL), GS_RUN_OPTION("log", NULL), {0}};
    assert_ok(gs_options_parse(gs_run_options(&s, ~0, more), argc, argv, &others, &help));
    assert_int_equal(others, 0);
    return s;
}

gs_settings gs_test_settings(const char *devices_and_options, ...) {
    gs_settings s = gs_settings_default();
    s.model = MODEL;
    s.batch = tenth() ? BATCH / 10 : BATCH;
    s.steps = GS_TEST_STEPS;
    s.weight_decay = 1e-3f;
    s.threads = 1;
    const char *text = gs_test_format("--devices %s", devices_and_options);
    va_list args;
    va_start(args, devices_and_options);
    s = changed(s, text, args);
    va_end(args);
    return s;
}

gs_settings gs_test_with(gs_settings s, const char *options, ...) {
    va_list args;
    va_start(args, options);
    s = changed(s, options, args);
    va_end(args);
    return s;
}

gs_settings gs_test_options(const char *options, ...) {
    va_list args;
    va_start(args, options);
    const gs_settings s = changed(gs_settings_default(), options, args);
    va_end(args);
    return s;
}

/* The data that runs have by default, unpacked once for all. */
static void keep_data(gs_settings *s) {
    static gs_dataset *set[2], few[2];
    for (gs_split i = GS_TRAIN; i <= GS_TEST && !set[i]; i++) {
        assert_ok(gs_dataset_load("fashion-mnist-small", i, &set[i]));
        few[i] = *set[i];
        few[i].count /= 10;
    }
    const bool is_few = tenth() && s->batch == BATCH / 10;
    s->train_set = is_few ? &few[GS_TRAIN] : set[GS_TRAIN];
    s->test_set = is_few ? &few[GS_TEST] : set[GS_TEST];
}

gs_result gs_test_train(const gs_settings *settings) {
    gs_settings s = *settings;
    gs_result *r = gs_test_keep(calloc(1, sizeof *r));
    if (s.data == gs_settings_default().data && !s.train_set) keep_data(&s);
    /* The others wait while a worker on OpenCL compiles its kernels: 15 s of CPU time with PoCL 5.0 and no cache. */
    if (strstr(s.devices, "cl")) s.timeout = fmax(s.timeout, 300);
    assert_ok(gs_train(&s, NULL, r));
    if (s.steps && !r->interrupted) assert_int_equal(r->steps, s.steps);
    return *r;
}

gs_result gs_test_eval(const gs_settings *s) {
    gs_result *r = gs_test_keep(calloc(1, sizeof *r));
    assert_ok(gs_eval(s, NULL, r));
    return *r;
}

gs_dataset *gs_test_made_set(gs_shape shape, int classes, size_t count, bool tokens) {
    gs_dataset *set;
    const size_t floats = count * gs_shape_size(shape), each = tokens ? (size_t)shape.t : 1;
    float *x = gs_test_calloc(floats, sizeof *x);
    int32_t *labels = gs_test_calloc(count * each, sizeof *labels);
    for (size_t i = 0; i < floats; i++)
        x[i] = tokens ? (float)(test_hash(i, 1) % (unsigned)classes) : test_value(i, 2);
    for (size_t i = 0; i < count * each; i++) labels[i] = (int32_t)(test_hash(i, 3) % (unsigned)classes);
    return gs_test_set(tokens ? gs_dataset_from_token_labels("made", count, shape, x, (int)each, labels, &set)
                              : gs_dataset_from_labels("made", count, shape, x, labels, &set),
                       &set);
}

static gs_settings divided(gs_settings s, const gs_test_division *d) {
    s.devices = d->devices;
    s.layout = d->layout;
    s.tensor = d->tensor;
    s.zero = d->zero;
    s.pipeline_cut = d->layout && strstr(d->layout, "pp") ? "flops" : NULL;
    return s;
}

void gs_test_goes_on(const gs_settings *s, int step, const gs_test_change *runs, int count) {
    const char *path = gs_test_format("%s/divided.safetensors", gs_test_folder());
    const gs_result never_stopped = gs_test_train(s);
    for (int i = 0; i < count; i++) {
        gs_settings part = divided(*s, &runs[i].first);
        part.steps = (uint64_t)step;
        part.save = path;
        part.save_state = true;
        gs_test_train(&part);
        part = divided(*s, &runs[i].then);
        part.resume = path;
        assert_trains_to(&never_stopped, &part, runs[i].then.layout ? runs[i].then.layout : part.devices);
    }
}

double gs_test_difference(const gs_result *a, const gs_result *b) {
    double largest = 0;
    for (size_t i = 0; i < a->params; i++) {
        double d = fabs((double)a->weights[i] - (double)b->weights[i]);
        if (!(d <= largest)) largest = d;
    }
    return largest;
}

void assert_same_bits(const gs_result *a, const gs_result *b, const char *what) {
    if (memcmp(a->weights, b->weights, a->params * sizeof(float)) != 0)
        fail_msg("%s: other bits; the weights differ by up to %g", what, gs_test_difference(a, b));
}

void assert_trains_to(const gs_result *wanted, const gs_settings *s, const char *what) {
    const gs_result r = gs_test_train(s);
    assert_same_bits(wanted, &r, what);
}

void assert_same_within_rounding(const gs_result *a, const gs_result *b, const char *what) {
    double d = gs_test_difference(a, b);
    if (!(d <= TOLERANCE)) fail_msg("%s: weights differ by %g, wanted at most %g", what, d, TOLERANCE);
}

void gs_test_exact(gs_settings s) {
    static const char *const counts[] = {"cpu", "cpu,cpu", "cpu,cpu,cpu,cpu",
                                         "cpu,cpu,cpu,cpu,cpu,cpu,cpu,cpu"};
    s.devices = counts[0];
    const gs_result plain = gs_test_train(&s);
    s.exact = true;
    const gs_result first = gs_test_train(&s);
    assert_same_within_rounding(&plain, &first, "--exact against plain training");
    for (int i = 1; i < 4; i++) {
        s.devices = counts[i];
        const gs_result r = gs_test_train(&s);
        assert_same_bits(&first, &r, counts[i]);
        assert_true(r.train_loss == first.train_loss && r.test_loss == first.test_loss);
    }
}

const char *gs_test_sha256(const char *arguments, ...) {
    char text[2048], *hash = gs_test_keep(calloc(1, 65));
    va_list args;
    va_start(args, arguments);
    vsnprintf(text, sizeof text, arguments, args);
    va_end(args);
    gs_test_hash_of(gs_test_output(0, "%s", text), hash);
    return hash;
}

const char *gs_test_text_file(void) {
    static char path[600];
    snprintf(path, sizeof path, "%s/training.txt", gs_test_folder());
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    for (int i = 0; i < 3000; i++)
        fputc("0123456789abcdefghijklmnopqrstuvwxyz .,\n"[(i * i + i / 7) % 40], f);
    assert_int_equal(fclose(f), 0);
    return path;
}

gs_result gs_test_train_as_planned(const gs_settings *s, const char *what) {
    gs_memory_plan plan;
    assert_ok(gs_memory_plan_create(s, &plan));
    const gs_result r = gs_test_train(s);
    assert_same_memory(&plan, &r, what);
    gs_memory_plan_free(&plan);
    return r;
}

void assert_same_memory(const gs_memory_plan *plan, const gs_result *r, const char *what) {
    for (int i = 0; i < plan->workers; i++)
        for (int p = 0; p < GS_MEMORY_PLACES; p++)
            for (int k = 0; k < GS_MEMORY_KINDS; k++) {
                const double said = plan->worker[i].use[p].bytes[k], took = r->worker[i].memory[p].bytes[k];
                if (fabs(said - took) > 0.5)
                    fail_msg("%s: worker %d takes %.0f bytes of %s in place %d, and the plan was %.0f", what,
                             i, took, gs_memory_word((gs_memory_kind)k), p, said);
            }
}
