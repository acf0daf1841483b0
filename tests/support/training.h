/* Training runs whose weights are compared; tests of the strategies share them. */
#pragma once

#include "tests/support/program.h"
#include "predict/memory.h"

/* A network with dropout, whose mask must follow the sample, and uneven batches: 6000 samples in batches of 333. Step
 * 19 has 6 samples, fewer than there are virtual shards; step 20 starts epoch 2. */
enum { GS_TEST_STEPS = 20 };
gs_settings gs_test_settings(const char *devices_and_options, ...) GS_PRINTF(1, 2); /* "cpu,cpu --zero 1" */

/* These settings, changed by options of `gradsum train`: gs_test_with(s, "--zero 1 --steps 4"). Quote a word that
 * contains spaces with '...'. */
gs_settings gs_test_with(gs_settings, const char *options, ...) GS_PRINTF(2, 3);
gs_settings gs_test_options(const char *options, ...) GS_PRINTF(1, 2); /* the defaults with these options */

/* Trains, and checks that all steps ran, unless a signal interrupted the run. The result is kept (gs_test_keep). */
gs_result gs_test_train(const gs_settings *);

/* Such a run must fail with `code` and a message that contains `part`. */
#define assert_train_fails(code, part, settings)                                                             \
    do {                                                                                                     \
        gs_result gs_test_result = {0};                                                                      \
        assert_fails(code, part, gs_train((settings), NULL, &gs_test_result));                               \
        gs_result_free(&gs_test_result);                                                                     \
    } while (0)

/* Checks --exact: 1, 2, 4 and 8 workers compute the same bits and losses, equal to plain training's up to rounding. */
void gs_test_exact(gs_settings s);

/* Runs with these settings alone, and with each of the option lists `ways`, must give the same weights and losses, up
 * to rounding or in every bit. The macros' options follow "cpu" in gs_test_settings; @ stands for a text file. */
void gs_test_ways(bool same_bits, gs_settings, const char *const *ways);
gs_settings gs_test_base(const char *options);
#define WAYS(...)                                                                                            \
    (const char *const[]) {                                                                                  \
        __VA_ARGS__, NULL                                                                                    \
    }
#define assert_ways_are_near(options, ...) gs_test_ways(false, gs_test_base(options), WAYS(__VA_ARGS__))
#define assert_ways_have_the_bits(options, ...) gs_test_ways(true, gs_test_base(options), WAYS(__VA_ARGS__))
#define ON_2 "--devices cpu,cpu "
#define ON_3 "--devices cpu,cpu,cpu "
#define ON_4 "--devices cpu,cpu,cpu,cpu "
#define ON_6 "--devices cpu,cpu,cpu,cpu,cpu,cpu "
#define ON_8 "--devices cpu,cpu,cpu,cpu,cpu,cpu,cpu,cpu "

double gs_test_difference(const gs_result *, const gs_result *); /* the largest difference of any weight */
void assert_same_bits(const gs_result *, const gs_result *, const char *what);
void assert_trains_to(const gs_result *, const gs_settings *, const char *what); /* the same bits */
void assert_same_within_rounding(const gs_result *, const gs_result *, const char *what);

/* The run must have used exactly the planned memory of each kind, to the byte. */
void assert_same_memory(const gs_memory_plan *, const gs_result *, const char *what);
gs_result gs_test_train_as_planned(const gs_settings *, const char *what);

/* The SHA-256 of the weights, as printed by a run of the program. */
const char *gs_test_sha256(const char *arguments, ...) GS_PRINTF(1, 2);

/* A set of `count` samples with random labels: one per token if `tokens`, else one per sample. The test owns it. */
gs_dataset *gs_test_made_set(gs_shape, int classes, size_t count, bool tokens);

/* Evaluates; the result is kept. */
gs_result gs_test_eval(const gs_settings *);

/* The path of a new text file: 3,000 characters, 40 of them distinct. */
const char *gs_test_text_file(void);
