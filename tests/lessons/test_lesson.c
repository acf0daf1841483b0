/* Predictions (lessons/predict): the boxes, the answers, the results, the saved predictions, and gradsum lesson. */
#include "lessons/predict/boxes.h"
#include "lessons/predict/kept.h"
#include "lessons/predict/outcome.h"
#include "tests/support/files.h"
#include "tests/support/program.h"

#include "io/file.h"

#include <glob.h>

/* ---- the boxes of the lessons ---- */

/* Merges blanks; removes the > of Markdown quotations and the backslashes at a command's line ends. */
static char *as_words(const char *text) {
    char *words = gs_test_malloc(strlen(text) + 1), *to = words;
    bool begins = true, blank = false;
    for (; *text; text++) {
        bool skip =
            *text == ' ' || *text == '\n' || (begins && *text == '>') || (*text == '\\' && text[1] == '\n');
        begins = *text == '\n' || (begins && skip);
        if (skip) {
            blank = true;
            continue;
        }
        if (blank && to > words) *to++ = ' ';
        blank = false;
        *to++ = *text;
    }
    *to = '\0';
    return words;
}

/* A command as a reader would type it. */
static void append_typed(char *text, size_t size, const char *command) {
    char typed[600];
    const char *blank = strchr(command, ' ');
    if (strncmp(command, "gradsum ", 8) == 0)
        snprintf(typed, sizeof typed, " build/%s", command);
    else
        snprintf(typed, sizeof typed, " make %.*s && %s",
                 blank ? (int)(blank - command) : (int)strlen(command), command, command);
    if (!strstr(text, typed)) strncat(text, typed, size - strlen(text) - 1);
}

/* Checks the boxes of one lesson; returns their number. */
static int check_boxes(int number) {
    gs_boxes b;
    assert_ok(gs_boxes_read(gs_test_source("."), number, &b));
    const char *path = gs_test_format("%s/README.md", b.folder);
    char *words = as_words(gs_test_text(gs_test_source(path), NULL));
    for (int i = 0; i < b.count; i++) {
        const gs_box *box = &b.list[i];
        char want[4000];
        snprintf(want, sizeof want, "**Predict before you run** (%s). %s", box->id, box->question);
        if (box->first) append_typed(want, sizeof want, box->first);
        for (int k = 0; k < box->run_count; k++) append_typed(want, sizeof want, box->runs[k].command);
        if (!strstr(words, want)) fail_msg("%s has no box with these words: %s", path, want);
        assert_int_equal(atoi(box->id), number);
    }
    int boxes = 0;
    for (const char *at = words; (at = strstr(at, "**Predict before you run** (")); at++) boxes++;
    if (boxes != b.count) fail_msg("%s has %d boxes, its predict.json has %d", path, boxes, b.count);
    gs_boxes_free(&b);
    return boxes;
}

TEST(a_readme_and_its_questions_agree) {
    glob_t found = {0};
    int boxes = 0;
    const char *pattern = gs_test_source("lessons/[0-9][0-9]-*");
    assert_int_equal(glob(pattern, 0, NULL, &found), 0);
    for (size_t i = 0; i < found.gl_pathc; i++)
        boxes += check_boxes(atoi(strrchr(found.gl_pathv[i], '/') + 1));
    globfree(&found);
    assert_true(boxes >= 32);
}

/* Makes a source tree with one lesson. */
static const char *made_tree(const char *predict) {
    char path[PATH_MAX + 60];
    const char *tree = gs_test_folder();
    snprintf(path, sizeof path, "%s/lessons/07-made", tree);
    assert_true(gs_file_make_folders(path));
    snprintf(path, sizeof path, "%s/lessons/07-made/README.md", tree);
    write_text(path, "# Lesson 7: made\n");
    snprintf(path, sizeof path, "%s/lessons/07-made/predict.json", tree);
    write_text(path, predict);
    return tree;
}

#define RUN "\"runs\": [{\"command\": \"x\", \"find\": \"([0-9]+)\"}]"
#define BEGIN "[{\"id\": \"7a\", \"question\": \"?\", \"because\": \".\", "

TEST(wrong_questions_are_named) {
    static const char *const wrong[][2] = {
        {"{}", "not a JSON array"},
        {"[{\"id\": \"7a\"}]", "is missing"},
        {BEGIN "\"as\": \"guess\", " RUN "}]", "is not number, ratio"},
        {BEGIN "\"as\": \"ratio\", " RUN "}]", "the runs do not fit"},
        {BEGIN "\"as\": \"number\", \"choices\": [\"a\"], " RUN "}]", "the choices do not fit"},
        {BEGIN "\"as\": \"same\", \"choices\": [\"yes\"], " RUN "}]", "the choices do not fit"},
        {BEGIN "\"as\": \"number\", \"runs\": [{\"command\": \"x\", \"find\": \"(\"}]}]",
         "an expression with a group"},
        {BEGIN "\"as\": \"number\", \"runs\": [{\"command\": \"x\", \"find\": \"x\"}]}]",
         "an expression with a group"},
        {BEGIN "\"as\": \"number\", " RUN "}, " /* the same member a second time */
               "{\"id\": \"7a\", \"question\": \"?\", \"because\": \".\", \"as\": \"number\", " RUN "}]",
         "two boxes are called 7a"},
    };
    gs_boxes b;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_fails(GS_E_FORMAT, wrong[i][1], gs_boxes_read(made_tree(wrong[i][0]), 7, &b));
    assert_ok(gs_boxes_read(made_tree(BEGIN "\"as\": \"number\", " RUN "}]"), 7, &b));
    assert_int_equal(b.count, 1);
    assert_string_equal(b.title, "Lesson 7: made");
    assert_non_null(gs_boxes_find(&b, "7A"));
    gs_boxes_free(&b);
    assert_fails(GS_E_USAGE, "no lesson 8", gs_boxes_read(made_tree("[]"), 8, &b));
    assert_fails(GS_E_USAGE, "no lesson -1", gs_boxes_read(made_tree("[]"), -1, &b));
}

/* ---- answers ---- */

TEST(answers_are_numbers_or_choices) {
    const gs_box number = {.id = "7a", .unit = "MB"},
                 word = {.id = "7b", .unit = "", .choices = {"ring", "both alike"}, .choice_count = 2};
    char answer[40];
    static const char *const numbers[][2] = {
        {"6", "6"},   {" 6 \n", "6"},         {"1,250", "1250"}, {"2.50", "2.5"}, {"6 MB", "6"},
        {"6mb", "6"}, {"2143288", "2143288"}, {"1e3", "1000"},   {"-1", "-1"}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        assert_ok(gs_box_answer(&number, numbers[i][0], answer, sizeof answer));
        assert_string_equal(answer, numbers[i][1]);
    }
    static const char *const none[] = {"", "six", "6 kB", "nan", "inf", "6 7", "1e999", "--6", "\x1b[2J"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        assert_fails(GS_E_USAGE, "is not a number of MB",
                     gs_box_answer(&number, none[i], answer, sizeof answer));
    assert_ok(gs_box_answer(&word, "Both alike\n", answer, sizeof answer));
    assert_string_equal(answer, "both alike");
    assert_fails(GS_E_USAGE, "wanted ring or both alike", gs_box_answer(&word, "r", answer, sizeof answer));
}

/* ---- outcomes ---- */

static void check_outcome(const gs_box *box, const char *first, const char *second, const char *want) {
    char outcome[40];
    const char *outputs[GS_BOX_RUNS] = {first, second};
    assert_ok(gs_outcome_find(box, outputs, outcome, sizeof outcome));
    assert_string_equal(outcome, want);
}

TEST(outcomes_are_found) {
    gs_box box = {.id = "7a",
                  .scale = 1,
                  .near = 0.1,
                  .unit = "",
                  .choices = {"less", "alike", "more"},
                  .choice_count = 3,
                  .runs = {{"x", "^sent +([0-9,.e-]+)"}, {"y", "^sent +([0-9,.e-]+)"}},
                  .run_count = 1};
    check_outcome(&box, "not sent 1\nsent  2,143,288 bytes\n", NULL, "2143288");
    box.scale = 1e-6;
    check_outcome(&box, "sent 2,143,288", NULL, "2.14");
    box.scale = 1;
    box.run_count = 2;
    box.as = GS_BOX_RATIO;
    check_outcome(&box, "sent 8.71e-04", "sent 3.484e-03", "4");
    box.as = GS_BOX_ORDER;
    check_outcome(&box, "sent 100", "sent 89", "less");
    check_outcome(&box, "sent 100", "sent 109", "alike");
    check_outcome(&box, "sent 100", "sent 111", "more");
    box.as = GS_BOX_SAME;
    check_outcome(&box, "sent 1", "sent 1.0", "alike");
    check_outcome(&box, "sent 1", "sent 1", "less");
    const char *nothing[GS_BOX_RUNS] = {"sent 1", "received 1"}, *zero[GS_BOX_RUNS] = {"sent 0", "sent 1"};
    char outcome[40];
    assert_fails(GS_E_FORMAT, "the output of 'y' has nothing like",
                 gs_outcome_find(&box, nothing, outcome, 40));
    box.as = GS_BOX_RATIO;
    assert_fails(GS_E_FORMAT, "'x' gave 0", gs_outcome_find(&box, zero, outcome, 40));
}

TEST(a_prediction_is_compared) {
    const gs_box exact = {.unit = "rounds"}, close = {.unit = "%", .near = 0.1}, times = {.unit = "times"},
                 word = {.unit = "", .choices = {"yes", "no"}, .choice_count = 2};
    const struct {
        const gs_box *box;
        const char *prediction, *outcome, *said;
        bool right;
    } cases[] = {
        {&exact, "6", "6", "You were right.", true},
        {&exact, "5", "6", "Your prediction is too low by 1 rounds.", false},
        {&exact, "12", "6", "Your prediction is 2 times the outcome.", false},
        {&exact, "0", "6", "Your prediction is too low by 6 rounds.", false},
        {&close, "84", "81", "You were right, within 4 %.", true},
        {&close, "90", "81", "Your prediction is too high by 9 percentage points.", false},
        {&times, "1.5", "2", "Your prediction is too low by 0.5.", false},
        {&times, "2", "9", "The outcome is 4.5 times your prediction.", false},
        {&word, "yes", "yes", "You were right.", true},
        {&word, "no", "yes", "You expected another answer.", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char said[200];
        gs_outcome_compare(cases[i].box, cases[i].prediction, cases[i].outcome, said, sizeof said);
        assert_string_equal(said, cases[i].said);
        assert_int_equal(gs_outcome_right(cases[i].box, cases[i].prediction, cases[i].outcome),
                         cases[i].right);
    }
}

/* ---- saved predictions ---- */

TEST(predictions_are_kept) {
    char path[PATH_MAX];
    gs_kept k = {.prediction = "6"}, got;
    setenv("XDG_DATA_HOME", gs_test_folder(), 1);
    assert_ok(gs_kept_get("07", "7a", &got));
    assert_string_equal(got.prediction, "");
    assert_ok(gs_kept_put("07", "7a", &k));
    assert_int_equal(strlen(k.when), 20);
    snprintf(k.outcome, sizeof k.outcome, "8");
    assert_ok(gs_kept_put("07", "7b", &k));
    assert_ok(gs_kept_get("07", "7a", &got)); /* the old prediction remains */
    assert_string_equal(got.prediction, "6");
    assert_string_equal(got.outcome, "");
    assert_ok(gs_kept_get("07", "7b", &got));
    assert_string_equal(got.outcome, "8");
    assert_string_equal(got.when, k.when);
    assert_ok(gs_kept_get("06", "7b", &got));
    assert_string_equal(got.prediction, "");

    assert_ok(gs_kept_path("07", path, sizeof path));
    write_text(path, "{\"7a\": {\"predi");
    assert_fails(GS_E_FORMAT, "gradsum lesson 7 --forget", gs_kept_get("07", "7a", &got));
    assert_fails(GS_E_FORMAT, "is damaged", gs_kept_put("07", "7a", &k));
    check_holds(path, "{\"7a\": {\"predi"); /* the reader's file stays as it was */
    assert_ok(gs_kept_forget("07"));
    assert_ok(gs_kept_forget("07"));
    assert_ok(gs_kept_get("07", "7a", &got));
    unsetenv("XDG_DATA_HOME");
}

/* ---- the command ---- */

TEST(the_command_predicts_runs_and_compares) {
    setenv("XDG_DATA_HOME", gs_test_folder(), 1);
    assert_prints(0, "0a=VALUE answers without one", "lesson 0 </dev/null");
    assert_prints(0, "0a=VALUE answers without one", "lesson 0 <&-");
    assert_prints(2, "0a: 'many' is not a number of steps", "lesson 0 --answer 0a=many");
    assert_prints(2, "lesson 0 has no question '9'", "lesson 0 --answer 0a=47,9=1");
    assert_prints(2, "--answer is given twice", "lesson 0 --answer 0a=47 --answer=0b=no");
    assert_prints(0, "0 of 3 predicted, 0 right", "lesson 0 --show"); /* one is invalid: none is saved */
    char *output = gs_test_output(0, "lesson 0 --answer 0a=48");
    assert_has(output, "done     47 steps", "\n0a   predicted  48 steps\n     outcome    47 steps\n",
               "too high by 1 steps. 6,000 / 128 is 46.9");
    assert_prints(2, "0a: you have seen the outcome", "lesson 0 --answer 0a=47");
    assert_prints(0, "1 of 3 predicted, 0 right", "lesson 0 --show");

    output = gs_test_output(0, "lesson 0 --export");
    cJSON *o = gs_test_parse(output);
    const cJSON *answer = cJSON_GetArrayItem(gs_test_field(o, "answers"), 0);
    assert_string_equal(gs_test_field(answer, "prediction")->valuestring, "48");
    assert_string_equal(gs_test_field(answer, "outcome")->valuestring, "47");
    assert_true(cJSON_IsFalse(gs_test_field(answer, "right")));
    assert_prints(0, "", "lesson 0 --forget");
    assert_prints(0, "0 of 3 predicted", "lesson 0 --show");
    unsetenv("XDG_DATA_HOME");
}

TEST(a_word_may_have_spaces_in_quotes) {
    const gs_box box = {.id = "7a",
                        .unit = "",
                        .scale = 1,
                        .runs = {{"printf %s; 'a  b' c '' 7", "^a  b;c;;([0-9]+);$"}},
                        .run_count = 1};
    gs_ran ran = {0};
    char outcome[40];
    assert_ok(gs_outcome_run(&box, ".", "gradsum", &ran, outcome, sizeof outcome));
    assert_string_equal(outcome, "7");
    gs_ran_free(&ran);
}

TEST(it_asks_in_a_terminal) {
    setenv("XDG_DATA_HOME", gs_test_folder(), 1);
    /* an invalid answer is asked for again; an empty one leaves the question open; then the input ends */
    char *output = gs_test_shell_output(
        0, "printf 'many\\n401,920\\n\\n' | script -qec '%s/gradsum lesson 2' /dev/null", GS_BUILD_DIR);
    assert_has(output, "'many' is not a number of parameters", "You were right.");
    assert_prints(0, "1 of 3 predicted, 1 right", "lesson 2 --show");
    unsetenv("XDG_DATA_HOME");
}

TEST(wrong_words_are_named) {
    assert_prints(2, "there is no lesson 99", "lesson 99");
    assert_prints(2, "'x' is not the number of a lesson", "lesson x");
    assert_prints(2, "got 2 words", "lesson 1 2");
    assert_prints(2, "exclude each other", "lesson 1 --show --forget");
    assert_prints(2, "the number of a lesson is required", "lesson --forget");
    assert_prints(0, "0  0 of 3 predicted   Lesson 0: start", "lesson");
    char *output =
        gs_test_shell_output(1, "env -u HOME -u XDG_DATA_HOME %s/gradsum lesson 0 --show", GS_BUILD_DIR);
    assert_has(output, "neither XDG_DATA_HOME nor HOME is set");
}
