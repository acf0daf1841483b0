#include "tests/support/training.h"
#include "cli/cli.h"
#include "tests/support/launched.h"
#include "tests/support/operators.h"

#include <math.h>

/* No kinks (test_train.c says why), dropout whose mask must follow the sample, and uneven batches: 6000 samples in
 * batches of 333. Step 19 has 6 samples, fewer than there are virtual shards; step 20 starts epoch 2. */
static const char MODEL[] =
    "conv 4 3x3 stride 2 pad 1, tanh, avg_pool 2, flatten, dropout 0.25, linear 16, tanh, linear 10";
enum { BATCH = 333 };

/* Under a slow checker, runs use a tenth of the samples, in batches of a tenth of the size. The number of steps is the
 * same, and step 19 again has 6 samples. A run that needs all samples sets --batch 333. */
static bool tenth(void) {
    const char *value = getenv("GRADSUM_TEST_TENTH");
    return value && strcmp(value, "1") == 0;
}

/* Allows only rounding errors: after these 20 steps the weights (up to 1) differed by at most 9e-8, while a sample
 * missing in one step changes them by 1e-4. */
static const double TOLERANCE = 1e-6;

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

/* Loads the runs' default data set only once. */
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
    /* other workers wait while one on OpenCL compiles its kernels: 15 s of CPU time with PoCL 5.0 and no cache */
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
        fail_msg("%s: the bits differ; the weights differ by up to %g", what, gs_test_difference(a, b));
}

void assert_trains_to(const gs_result *wanted, const gs_settings *s, const char *what) {
    const gs_result r = gs_test_train(s);
    assert_same_bits(wanted, &r, what);
}

void assert_same_within_rounding(const gs_result *a, const gs_result *b, const char *what) {
    double d = gs_test_difference(a, b);
    if (!(d <= TOLERANCE)) fail_msg("%s: weights differ by %g, wanted at most %g", what, d, TOLERANCE);
}

gs_settings gs_test_base(const char *options) {
    const char *at = strchr(options, '@');
    if (!at) return gs_test_settings("cpu %s", options);
    return gs_test_settings("cpu %.*s%s%s", (int)(at - options), options, gs_test_text_file(), at + 1);
}

void gs_test_ways(bool same_bits, gs_settings first, const char *const *ways) {
    const gs_result one = gs_test_train(&first);
    for (; *ways; ways++) {
        const gs_settings s = gs_test_with(first, "%s", *ways);
        const gs_result r = gs_test_train(&s);
        const double near = same_bits ? 0 : 1e-5;
        assert_int_equal(r.params, one.params);
        (same_bits ? assert_same_bits : assert_same_within_rounding)(&one, &r, *ways);
        gs_test_near(r.train_loss, one.train_loss, s.exact ? near : 1e-5, 0, *ways, __FILE__, __LINE__);
        gs_test_near(r.test_loss, one.test_loss, near, 0, *ways, __FILE__, __LINE__);
        assert_true(r.test_accuracy == one.test_accuracy);
        if (s.zero) assert_int_equal(r.zero.stage, s.zero);
    }
}

void gs_test_exact(gs_settings s) {
    gs_test_ways(false, s, WAYS("--exact"));
    gs_test_ways(true, gs_test_with(s, "--exact"), WAYS(ON_2, ON_4, ON_8));
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
                    fail_msg("%s: worker %d uses %.0f bytes of %s in place %d, but the plan was %.0f", what,
                             i, took, gs_memory_word((gs_memory_kind)k), p, said);
            }
}
