/* A text as a data set: compares its windows with Python's; and invalid files. */
#include <unistd.h>
#include <zlib.h>
#include "data/text_set.h"
#include "tests/support/files.h"
#include "tests/support/program.h"
#include "tests/support/some_text.h"

/* ---- windows ---- */

TEST(parts_and_windows) {
    static const int first[] = {1, 3, 6, 11, 18, 25, 15, 6, 21, 15, 0}; /* from Python, like the next ones */
    static const int tested[] = {25, 8, 6, 6, 8, 0, 18, 4, 14, 3, 26};
    const char *where = text_file();
    gs_dataset *train = load_text(where, GS_TRAIN, SMALL), *test = load_text(where, GS_TEST, SMALL);
    assert_int_equal(train->text->vocabulary.size, KINDS);
    assert_int_equal(train->classes, KINDS);
    assert_int_equal(train->text->count, LENGTH - TEST);
    assert_int_equal(test->text->count, TEST);
    assert_int_equal(train->count, (LENGTH - TEST - CONTEXT) / CONTEXT);
    assert_int_equal(test->count, (TEST - 1) / CONTEXT);
    assert_true(gs_shape_same(train->shape, (gs_shape){1, 1, 1, CONTEXT}));
    assert_int_equal(gs_dataset_target_bytes(train), CONTEXT * sizeof(int32_t));
    long sum = 0;
    for (size_t i = 0; i < LENGTH; i++)
        sum += (long)i * (i < LENGTH - TEST ? train->text->token[i] : test->text->token[i - LENGTH + TEST]);
    assert_int_equal(sum, 3217998);

    float x[2][CONTEXT];
    int32_t y[2][CONTEXT];
    gs_dataset_gather(train, NULL, 0, 1, x, y);
    for (int k = 0; k < CONTEXT; k++) assert_int_equal(x[0][k], first[k]);
    for (int k = 0; k < CONTEXT; k++) assert_int_equal(y[0][k], first[k + 1]);
    gs_dataset_gather(test, NULL, 0, 1, x, y);
    for (int k = 0; k < CONTEXT; k++) assert_int_equal(x[0][k], tested[k]);
    for (int k = 0; k < CONTEXT; k++) assert_int_equal(y[0][k], tested[k + 1]);
    /* window 5 starts at token 50; windows can be gathered in any order */
    const uint32_t order[] = {5, 2};
    gs_dataset_gather(train, order, 0, 2, x, y);
    for (int k = 0; k < CONTEXT; k++) assert_int_equal(x[0][k], train->text->token[50 + k]);
    for (int k = 0; k < CONTEXT; k++) assert_int_equal(y[1][k], train->text->token[21 + k]);
}

/* Compares the shifts with Philox in Python; with every shift, the last window still has its last label. */
TEST(shifts_follow_from_seed_and_epoch) {
    static const int of_64[] = {41, 45, 7, 53}, of_10[] = {6, 7, 1, 8};
    gs_dataset *set = load_text(text_file(), GS_TRAIN, SMALL);
    gs_text long_windows = {.context = 64};
    bool seen[CONTEXT] = {false};
    for (int e = 0; e < 4; e++) {
        assert_int_equal(gs_text_shift(&long_windows, 1, (uint64_t)e + 1), of_64[e]);
        assert_int_equal(gs_text_shift(set->text, 1, (uint64_t)e + 1), of_10[e]);
    }
    assert_int_equal(gs_text_shift(&long_windows, 7, 1), 39);
    for (uint64_t e = 1; e <= 100; e++) {
        const int shift = gs_text_shift(set->text, 3, e);
        float x[CONTEXT];
        int32_t y[CONTEXT];
        const uint32_t last = (uint32_t)set->count - 1;
        seen[shift] = true;
        gs_augment_gather(NULL, set, 3, e, &last, 1, x, y);
        const uint16_t *token = set->text->token + last * CONTEXT + (size_t)shift;
        for (int k = 0; k < CONTEXT; k++) assert_true((int)x[k] == token[k] && y[k] == token[k + 1]);
    }
    for (int s = 0; s < CONTEXT; s++) assert_true(seen[s]);
}

TEST(zipped_or_not) {
    const char *plain = text_file();
    const char *zipped = gs_test_format("%s.gz", plain);
    assert_int_equal(gs_test_shell(NULL, "gzip -k %s", plain + 5), 0);
    gs_dataset *a = load_text(plain, GS_TRAIN, SMALL), *b = load_text(zipped, GS_TRAIN, SMALL);
    assert_int_equal(a->text->count, b->text->count);
    assert_memory_equal(a->text->token, b->text->token, a->text->count * sizeof(uint16_t));
    const gs_text_options bytes = {.tokens = GS_TOKENS_BYTES, .context = 5};
    a = load_text(plain, GS_TRAIN, bytes);
    assert_int_equal(a->text->count, BYTES - BYTES / 10);
    assert_int_equal(a->classes, 256);
    char text[4 * LENGTH + 1];
    make_text(text);
    for (size_t i = 0; i < a->text->count; i++) assert_int_equal(a->text->token[i], (unsigned char)text[i]);
}

TEST(the_jargon_file) {
    gs_dataset *set;
    if (access("/usr/share/doc/jargon-text/jargon.txt.gz", F_OK) != 0) {
        assert_fails(GS_E_FILE, "jargon is not installed", gs_dataset_load("jargon", GS_TRAIN, &set));
        assert_non_null(strstr(gs_message(), "apt-get install jargon-text"));
        skip_because("the package jargon-text is not installed");
    }
    assert_ok(gs_dataset_load("jargon", GS_TRAIN, &set));
    assert_int_equal(set->text->context, 64);
    /* another version of the package would give other tokens */
    if (set->text->count == 1456882) {
        assert_int_equal(set->classes, 155);
        assert_int_equal(set->count, 22762);
        assert_int_equal(crc32_z(0, (void *)set->text->token, set->text->count * 2), 0xe7b2c3b);
    }
    gs_dataset_free(set);
}

/* ---- invalid files ---- */

static gs_status load_file(const char *path, int context) {
    gs_dataset *set;
    const gs_text_options options = {.tokens = GS_TOKENS_CHARS, .context = context};
    const char *where = gs_test_format("text:%s", path);
    const gs_status status = gs_dataset_load_with(where, GS_TRAIN, GS_LABELS_FINE, &options, NULL, &set);
    if (status == GS_OK) gs_dataset_free(set);
    return status;
}

TEST(files_that_are_no_text) {
    char *text;
    size_t bytes;
    const char *path = gs_test_format("%s", text_file() + 5);
    assert_fails(GS_E_USAGE, "'text:' names no file; wanted text:FILE", load_file("", 5));
    assert_fails(GS_E_FILE, "No such file", load_file("/nowhere/x", 5));
    assert_fails(GS_E_FILE, "Is a directory", load_file(gs_test_folder(), 5));
    assert_ok(load_file(path, 69)); /* the last tenth has 70 characters */
    assert_fails(GS_E_FORMAT,
                 "some.txt has 700 characters, and the last tenth, for testing, 70; a window of --context 70 "
                 "needs 71, its last label included: wanted a longer text or a smaller --context",
                 load_file(path, 70));
    const char *zipped = in_folder(gs_test_folder(), "x.gz");
    assert_int_equal(gs_test_shell(NULL, "gzip -c %s > %s", path, zipped), 0);
    assert_ok(load_file(zipped, 5));
    const char *twice = in_folder(gs_test_folder(), "twice.gz");
    gs_test_shell(NULL, "head -c 99 %s | gzip | tail -c +2 | cat %s - > %s", path, zipped, twice);
    assert_fails(GS_E_FORMAT, "damaged gzip stream: other bytes follow after", load_file(twice, 5));
    assert_int_equal(truncate(zipped, 100), 0);
    assert_fails(GS_E_FORMAT, "damaged gzip stream: unexpected end of file", load_file(zipped, 5));

    write_file(path, "", 0);
    assert_fails(GS_E_FORMAT, "some.txt is empty", load_file(path, 5));
    write_file(path, "\x7f\x45LF\2\1\1\0\0", 9);
    assert_fails(GS_E_FORMAT, "byte 8 (line 1) is 0, which no text has; --tokens bytes takes any file",
                 load_file(path, 5));
    write_file(path, "\x89PNG", 4);
    assert_fails(GS_E_FORMAT, "byte 1 (line 1) is 0x89, which begins no whole character of UTF-8",
                 load_file(path, 5));
    assert_int_equal(truncate(path, (off_t)3 << 30), 0); /* a sparse file */
    assert_fails(GS_E_FILE, "some.txt has 3221225472 bytes; at most 1073741824 can be read",
                 load_file(path, 5));
    assert_int_equal(truncate(path, 200000), 0);
    const char *zeros = in_folder(gs_test_folder(), "zeros.gz");
    assert_int_equal(gs_test_shell(NULL, "gzip -c %s > %s", path, zeros), 0);
    assert_ok(gs_file_unzip(zeros, 200000, &text, &bytes));
    assert_int_equal(bytes, 200000);
    free(text);
    assert_fails(GS_E_FORMAT, "zeros.gz has more than 199999 bytes when unzipped",
                 gs_file_unzip(zeros, 199999, &text, &bytes));
    assert_null(text);
    assert_fails(GS_E_FORMAT, "has more than 10 bytes when unzipped",
                 gs_file_unzip(zeros, 10, &text, &bytes));
    assert_fails(GS_E_FILE, "some.txt has 200000 bytes; at most 199999 can be read",
                 gs_file_unzip(path, 199999, &text, &bytes));
}
