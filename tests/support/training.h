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

/* `s` up to `step` with this division, and from its file to the end with the other: the bits of a run that never
 * stopped. A layout of NULL: tensor and zero tell it. */
typedef struct gs_test_division {
    const char *devices, *layout;
    int tensor, zero;
} gs_test_division;
typedef struct gs_test_change {
    gs_test_division first, then;
} gs_test_change;
void gs_test_goes_on(const gs_settings *s, int step, const gs_test_change *runs, int count);

/* --exact: 1, 2, 4 and 8 workers compute the same bits and losses, and up to rounding what plain training computes. */
void gs_test_exact(gs_settings s);

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
