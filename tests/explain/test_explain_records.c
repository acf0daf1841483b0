/* `gradsum explain` rejects damaged or modified records of --digest. */
#include "tests/support/files.h"
#include "tests/support/training.h"

#include <sys/stat.h>

#include "explain/digests.h"

static void write_record(const char *folder, const char *text) {
    mkdir(folder, 0700);
    const char *path = gs_test_format("%s/rank-0.digest", folder);
    write_text(path, text);
}

/* Each one is rejected with a message that names the file and the line. */
TEST(damaged_records_are_refused) {
    static const struct {
        const char *text, *part;
    } damaged[] = {
        {"", "is no record of gradsum train --digest"},
        {"hello\n", "is no record of gradsum train --digest"},
        {"gradsum digest 4 rank 0 of 0\n", "is no record"},
        {"gradsum digest 3 rank 0 of 1\n", "is a digest of version 3; wanted version 4"},
        {"gradsum digest 5 rank 0 of 1\n", "is a digest of version 5; wanted version 4"},
        {"gradsum digest 4 rank 0 of 1000\n", "is of 1000 workers; wanted at most 64"},
        {"gradsum digest 4 rank 3 of 4\n", "is of rank 3 of 4; wanted rank 0"},
        {"gradsum digest 4 rank 0 of 1\n", "ends before its first step"},
        {"gradsum digest 4 rank 0 of 1\nstart\n", "line 2 comes before any layer"},
        {"gradsum digest 4 rank 0 of 1\nlayer 1 linear 0\n", "line 2 is not 'layer NUMBER OPERATOR NAME'"},
        {"gradsum digest 4 rank 0 of 1\nlayer 0 linear 0\033[31m\n", "line 2 is not 'layer"},
        {"gradsum digest 4 rank 0 of 1\nlayer 0 linear\xff 0\n", "line 2 is not 'layer"},
        {"gradsum digest 4 rank 0 of 1\nlayer 0 linear 0\nparam 0 0 4 0 0 0.\033w\n", "line 3 is not 'param"},
        {"gradsum digest 4 rank 0 of 1\nlayer 0 linear 0\nparam 0 0 4 0 9 0.w\n", "line 3 is not 'param"},
        {"gradsum digest 4 rank 0 of 1\nwhat\n", "line 2 begins with a word"},
    };
    gs_digests run;
    for (size_t i = 0; i < sizeof damaged / sizeof *damaged; i++) {
        const char *folder = gs_test_folder();
        write_record(folder, damaged[i].text);
        assert_fails(GS_E_FORMAT, damaged[i].part, gs_digests_read(folder, &run));
    }
    static const char head[] =
        "gradsum digest 4 rank 0 of 1\nlayer 0 linear 0\nparam 0 0 4 0 0 0.w\nset 8\nstart\n";
    static const struct {
        const char *text, *part;
    } steps[] = {
        {"", "holds no whole step"},
        {"y 1 0 0 4 1 1 1 1 1 1 0\n", "holds no whole step"},
        {"y 1 0 0 4 1 1 1 1 1\n", "line 6 is not 'QUANTITY STEP NUMBER PART'"},
        {"z 1 0 0 4 1 1 1 1 1 1 0\n", "line 6 is not 'QUANTITY STEP NUMBER PART'"},
        {"y 1 7 0 4 1 1 1 1 1 1 0\n", "line 6 names a layer, parameter or part that there is not"},
        {"y 1 0 99 4 1 1 1 1 1 1 0\n", "line 6 names a layer, parameter or part that there is not"},
        {"end 1\n", "line 6 ends a step that has no score"},
        {"score 1 1 1 1 1 1 1 1 1 1 1\nend 2\n", "line 7 is not 'end STEP ROWS'"},
        {"y 1 0 0 4 1 1 1 1 1 1 0\nscore 1 1 1 1 1 1 1 1 1 1 1\nend 1 2\n",
         "line 8 counts other rows than there are"},
        {"score 1 1 1 1 1 1 1 1 1 1 1\nend 1 0x\n", "line 7 is not 'end STEP ROWS'"},
        {"score 1 1 1 1 1 1 1 1 1 1 1\nend 1 x\n", "line 7 is not 'end STEP ROWS'"},
        {"score 1 1 1 1 1 1 1 1 1 1 1\nend 1x\n", "line 7 is not 'end STEP ROWS'"},
        {"score 1 2\n", "line 6 is not 'score STEP' and ten numbers"},
        {"y 2 0 0 4 1 1 1 1 1 1 0\nscore 1 1 1 1 1 1 1 1 1 1 1\n",
         "line 7 ends a step with rows of another one"},
        {"score 1 1 1 1 1 1 1 1 1 1 1\nend 1\nscore 3 1 1 1 1 1 1 1 1 1 1\n",
         "line 8 is of a step that is not"},
    };
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        const char *folder = gs_test_folder();
        const char *text = gs_test_format("%s%s", head, steps[i].text);
        write_record(folder, text);
        assert_fails(GS_E_FORMAT, steps[i].part, gs_digests_read(folder, &run));
    }
}

/* Checks that the record is rejected without the line that starts with `cut`. */
static void is_refused_without(const char *record, const char *cut, const char *part) {
    const char *folder = gs_test_folder(), *at = strstr(record, cut), *rest = at ? strchr(at, '\n') : NULL;
    gs_digests run;
    assert_non_null(rest);
    char *text = gs_test_malloc(strlen(record) + 1);
    sprintf(text, "%.*s%s", (int)(at - record), record, rest + 1);
    write_record(folder, text);
    assert_fails(GS_E_FORMAT, part, gs_digests_read(folder, &run));
}

/* Missing rows cannot be compared, and must not look like agreement. */
TEST(records_that_were_changed_are_refused) {
    static const char count[] = "counts other rows than there are: the file was changed";
    char *record;
    size_t bytes;
    gs_digests run;
    const char *folder = gs_test_format("%s/one", gs_test_folder());
    const char *path = gs_test_format("%s/rank-0.digest", folder);
    assert_prints(0, "sha256", "train --model \"flatten, linear 10\" --steps 2 --threads 1 --digest %s",
                  folder);
    assert_ok(gs_file_read(path, 1 << 20, &record, &bytes));
    is_refused_without(record, "updated 1 0 0", count);
    is_refused_without(record, "sum 2 1 0", count);
    is_refused_without(record, "weight 2 1 0", count);
    is_refused_without(record, "end 1 ", "ends a step with rows of another one");
    is_refused_without(record, "score 2 ", "ends a step that has no score");
    assert_ok(gs_digests_read(folder, &run));
    assert_int_equal(run.steps, 2);
    gs_digests_free(&run);
    free(record);
}

/* An incomplete step, which a killed run was still writing, is ignored. */
TEST(a_step_that_is_not_whole_is_left_out) {
    const char *folder = gs_test_folder();
    gs_digests run;
    write_record(folder, "gradsum digest 4 rank 0 of 1\nlayer 0 linear 0\nparam 0 0 4 0 0 0.w\nset 8\nstart\n"
                         "y 1 0 0 4 1 2 3 4 5 6 0\nscore 1 1 1 1 1 1 1 1 1 1 1\nend 1\ny 2 0 0 4 1 2 3");
    assert_ok(gs_digests_read(folder, &run));
    assert_int_equal(run.steps, 1);
    assert_near(gs_digests_find(&run, 0, 1, GS_DIGEST_y, 0, 0)->along[3], 6, 0, 0);
    assert_null(gs_digests_find(&run, 0, 1, GS_DIGEST_y, 0, 1));
    gs_digests_free(&run);
}
