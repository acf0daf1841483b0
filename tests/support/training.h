/* Runs of training whose weights are compared: what the tests of the ways to make a step share. */
#pragma once

#include "tests/support/program.h"
#include "predict/memory.h"

/* A network with dropout, whose mask must follow the sample, and a batch size that nothing divides: 6000 samples in
 * batches of 333. Step 19 has 6 samples (fewer than virtual shards), step 20 begins epoch 2. */
enum { GS_TEST_STEPS = 20 };
gs_settings gs_test_settings(const char *devices_and_options, ...) GS_PRINTF(1, 2); /* "cpu,cpu --zero 1" */

/* These settings, changed as the options of `gradsum train` change them: gs_test_with(s, "--zero 1 --steps 4"). A word
 * with spaces is in '...'. */
gs_settings gs_test_with(gs_settings, const char *options, ...) GS_PRINTF(2, 3);
gs_settings gs_test_options(const char *options, ...) GS_PRINTF(1, 2); /* the defaults, so changed */

/* Train, and all steps were made, unless a signal has interrupted it. The result is kept (gs_test_keep). */
gs_result gs_test_train(const gs_settings *);

/* Such a run fails with `code`, and its message contains `part`. */
#define assert_train_fails(code, part, settings)                                                             \
    do {                                                                                                     \
        gs_result gs_test_result = {0};                                                                      \
        assert_fails(code, part, gs_train((settings), NULL, &gs_test_result));                               \
        gs_result_free(&gs_test_result);                                                                     \
    } while (0)

/* --exact: 1, 2, 4 and 8 workers compute the same bits and losses, and up to rounding what plain training computes. */
void gs_test_exact(gs_settings s);

/* Ways to come to the same weights and losses: these settings, and with each of the options `ways`. Up to rounding, or
 * with the same bits. The macros take options that follow "cpu" in gs_test_settings; @ stands for a text file. */
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

double gs_test_difference(const gs_result *, const gs_result *); /* the largest of any weight */
void assert_same_bits(const gs_result *, const gs_result *, const char *what);
void assert_trains_to(const gs_result *, const gs_settings *, const char *what); /* these bits */
void assert_same_within_rounding(const gs_result *, const gs_result *, const char *what);

/* What the run took is what was planned, to the byte of each kind. */
void assert_same_memory(const gs_memory_plan *, const gs_result *, const char *what);
gs_result gs_test_train_as_planned(const gs_settings *, const char *what);

/* The SHA-256 of the weights that a run of the program prints. */
const char *gs_test_sha256(const char *arguments, ...) GS_PRINTF(1, 2);

/* A set of so many samples with labels at random, for each token one if these are `tokens`. The test owns it. */
gs_dataset *gs_test_made_set(gs_shape, int classes, size_t count, bool tokens);

/* Evaluated; the result is kept. */
gs_result gs_test_eval(const gs_settings *);

/* The path of a new file: a text of 3,000 characters, of 40 kinds. */
const char *gs_test_text_file(void);
