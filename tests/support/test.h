/* Tests: one program, using cmocka. A test is a function that starts like this:
 *
 *     TEST(known_answers) {
 *
 * The tests in a file form a group, named after the file without test_: those in core/test_philox.c form philox.
 * `build/gradsum-test` runs all groups, `build/gradsum-test philox` this group, `build/gradsum-test core/` a folder's
 * groups, `build/gradsum-test '*known*'` the tests whose names match.
 */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>
#include "comm/create.h"
#include "core/version.h"
#include "io/file.h"
#include "model/safetensors.h"
#include "persist/state_file.h"
#include "predict/memory.h"
#include "train/strategy.h"

#define TEST(name) TEST_AROUND(name, NULL, NULL)

/* Also with cmocka's setup and teardown (int setup(void **state), or NULL); TEST_IN puts the test into another
 * group. */
#define TEST_AROUND(name, setup, teardown) GS_TEST_OF(NULL, name, setup, teardown)
#define TEST_IN(group, name) GS_TEST_OF(#group, name, NULL, NULL)

#define GS_TEST_OF(group, name, setup, end)                                                                  \
    static void name(void **state);                                                                          \
    __attribute__((constructor)) static void gs_test_register_##name(void) {                                 \
        gs_test_register(__FILE__, group, __LINE__, (struct CMUnitTest){#name, name, setup, end, NULL});     \
    }                                                                                                        \
    static void name(__attribute__((unused)) void **state)

/* Tests that call one function with different arguments. */
#define GS_TESTS(group, ...)                                                                                 \
    __attribute__((constructor)) static void gs_register_##group(void) {                                     \
        const struct CMUnitTest tests[] = {__VA_ARGS__};                                                     \
        for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)                                            \
            gs_test_register(__FILE__, #group, __LINE__, tests[i]);                                          \
    }

/* The teardown of each test. */
int gs_test_end(void **state);

/* group NULL: the file's group. Tests in a group run in line order. */
void gs_test_register(const char *file, const char *group, int line, struct CMUnitTest test);

/* The call must succeed; if not, the failure shows its message. */
#define assert_ok(call)                                                                                      \
    do {                                                                                                     \
        gs_status gs_test_status = (call);                                                                   \
        if (gs_test_status != GS_OK) fail_msg("%s: %s", #call, gs_message());                                \
    } while (0)

/* The call must fail with `code` and a message that contains `part`. */
#define assert_fails(code, part, call)                                                                       \
    do {                                                                                                     \
        gs_status gs_test_status = (call);                                                                   \
        if (gs_test_status != (code) || !strstr(gs_message(), part))                                         \
            fail_msg("%s: wanted %s with '%s', got %s: %s", #call, #code, part,                              \
                     gs_status_name(gs_test_status), gs_test_status ? gs_message() : "");                    \
    } while (0)

/* gs_test_own makes the test own a thing: `end` is called with the thing when the test ends. The other two allocate
 * memory that the test owns. Any thread may call all three. */
void *gs_test_own(void *thing, void (*end)(void *thing));
void *gs_test_malloc(size_t bytes);
void *gs_test_calloc(size_t count, size_t bytes);

/* Free early what the test owns: this thing, or everything since a call of gs_test_mark. */
void gs_test_free(void *thing);
const void *gs_test_mark(void);
void gs_test_free_since(const void *mark);

/* A model with this config: gs_test_model(d, .text = "lenet", .in = image). d NULL: only a plan. The test owns it. */
#define gs_test_model(d, ...) gs_test_model_of((d), &(gs_model_config){__VA_ARGS__})
gs_model *gs_test_model_of(gs_device *d, const gs_model_config *config);
gs_layer *gs_test_net(const char *text); /* not yet planned */

/* Data sets that the test owns: one that a call `made`, and one that gs_dataset_load loads. */
gs_dataset *gs_test_set(gs_status made, gs_dataset **);
gs_dataset *gs_test_load(const char *where, gs_split);

static inline gs_model *gs_test_plan(const char *text, gs_shape in) {
    return gs_test_model(NULL, .text = text, .in = in);
}

/* Creating such a model must fail, as in assert_fails. */
#define assert_no_model(code, part, d, ...)                                                                  \
    do {                                                                                                     \
        gs_model *gs_test_none;                                                                              \
        assert_fails(code, part, gs_model_create((d), &(gs_model_config){__VA_ARGS__}, &gs_test_none));      \
        assert_null(gs_test_none);                                                                           \
    } while (0)

/* |got - want| <= absolute + relative * |want| */
#define assert_near(got, want, absolute, relative)                                                           \
    gs_test_near((got), (want), (absolute), (relative), #got, __FILE__, __LINE__)
void gs_test_near(double got, double want, double absolute, double relative, const char *what,
                  const char *file, int line);

/* The text must contain each of these parts. */
#define assert_has(text, ...)                                                                                \
    gs_test_has((text), (const char *const[]){__VA_ARGS__, NULL}, __FILE__, __LINE__)
void gs_test_has(const char *text, const char *const *part, const char *file, int line);

/* How often the text contains this part; and the number that follows the part, which must exist. */
int gs_test_count(const char *text, const char *part);
double gs_test_number_after(const char *text, const char *part);

/* Skip this test and say what is missing. */
#define skip_because(...) (gs_test_say_skipped(__VA_ARGS__), _skip(__FILE__, __LINE__))
void gs_test_say_skipped(const char *format, ...) GS_PRINTF(1, 2);

/* For timeouts that are short because they must expire. A busy machine may delay a live rank that long, so a failure
 * may be false: `wrong` is then called again with four times the timeout, up to minutes. It returns NULL if all is
 * right, otherwise what is wrong; its last answer fails the test. */
void gs_test_patiently(double first, const char *(*wrong)(double timeout, void *context), void *context);

/* A text that gs_test_patiently's `wrong` may return; the next call overwrites it. */
const char *gs_test_wrong(const char *format, ...) GS_PRINTF(1, 2);

static inline uint32_t bits_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float float_of(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Standard error is captured between these calls, for code that is meant to fail with a message. Do not assert in
 * between: a failed assertion would leave it captured. The second call returns what was written; the text is kept. */
void gs_test_catch_stderr(void);
char *gs_test_caught(void);

/* Keeps memory from malloc until all tests have ended: do not free it. Any thread may call these functions. */
void *gs_test_keep(void *memory);
char *gs_test_format(const char *format, ...) GS_PRINTF(1, 2); /* a kept text */

/* Opens a file; if that fails, the test fails. */
FILE *gs_test_open(const char *path, const char *mode);

/* A new folder. It is removed with its contents when the program ends. */
const char *gs_test_folder(void);

/* The path of a file in the source tree: "tests/golden/linear.txt". */
const char *gs_test_source(const char *relative);
