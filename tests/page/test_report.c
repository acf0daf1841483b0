/* Pages of training logs: what they contain, how long logs are thinned, what is rejected. tests/browser/report.py
 * checks them in a browser. */
#include "tests/support/files.h"
#include "tests/support/made_log.h"

#include <math.h>

TEST(what_is_no_log_is_refused) {
    char folder[300], many[1200] = "";
    snprintf(folder, sizeof folder, "%s", gs_made_log());
    assert_prints(1, "no/log: No such file", "report %s/no/log -o %s/x.html", folder, folder);
    assert_prints(1, "is not a folder", "report %s/run.json -o %s/x.html", folder, folder);
    assert_prints(1, "is not a training log: it has neither", "report %s -o %s/x.html", gs_test_folder(),
                  folder);
    assert_prints(2, "a log is required", "report -o x.html");
    assert_prints(2, "-o FILE is required", "report %s", folder);
    for (int i = 0; i < 65; i++) strcat(many, " .");
    assert_prints(2, "65 logs; a page takes at most 64", "report %s -o x.html", many);
    assert_prints(1, "Is a directory", "report %s -o %s", folder, folder);
    assert_prints(1, "cannot write", "report %s -o %s/no/page.html", folder, folder);
    assert_prints(1, "not a regular file", "report %s -o /dev/full", folder);
    GS_MADE_TEXT(folder, "run.json", "{\"format\":\"another\",\"version\":1}");
    assert_prints(1, "its \"format\" is another, not gradsum-run", "report %s -o %s/x.html", folder, folder);
    GS_MADE_TEXT(folder, "run.json", "{\"format\":\"gradsum-run\",\"version\":2}");
    assert_prints(1, "version 2 of the format; this gradsum reads version 1", "report %s -o %s/x.html",
                  folder, folder);
}

/* A page never replaces a file of its log, whatever that file is called, nor any other file that is not a page. */
TEST(a_page_replaces_no_file_of_its_log) {
    const char *folder = gs_made_log();
    assert_prints(2, "and the name says .json", "report %s/ -o %s/./run.json", folder, folder);
    assert_prints(2, "metrics.jsonl is there already, and holds no page", "report %s/ -o %s/./metrics.jsonl",
                  folder, folder);
    GS_MADE_TEXT(folder, "events.out.tfevents.1.here", "curves");
    char *output =
        gs_test_shell_output(2,
                             "cd %s && ln events.out.tfevents.1.here another.html && "
                             "%s/gradsum report . -o another.html; S=$?; cat another.html; exit $S",
                             folder, GS_BUILD_DIR);
    assert_has(output, "another.html is there already, and holds no page", "curves");
    assert_shell_prints(2, "holds no page",
                        "cd %s && ln -s metrics.jsonl page.html && %s/gradsum report . -o page.html", folder,
                        GS_BUILD_DIR);
}

TEST(a_full_disk_leaves_the_older_page) {
    const char *folder = gs_made_log();
    GS_MADE_TEXT(folder, "page.html", "<!doctype html>older");
    char *output = gs_test_shell_output(
        1, "trap '' XFSZ; ulimit -f 8; cd %s && %s/gradsum report . -o page.html", folder, GS_BUILD_DIR);
    assert_has(output, "cannot write", "File too large");
    output = gs_test_shell_output(0, "cd %s && ls *.tmp 2>&1; cat page.html", folder);
    assert_has(output, "No such file", "older");
}

/* ---- pages ---- */

/* Runs a command that writes PAGE; returns the page's text, and the data that its script reads. */
#define PAGE "page.html"
static char *page_of(const char *folder, const char *command, cJSON **data, char **output) {
    char *said =
        gs_test_shell_output(0, "cd %s && TMPDIR=%s %s/gradsum %s", folder, folder, GS_BUILD_DIR, command);
    if (output) *output = said;
    return gs_test_page(in_folder(folder, PAGE), data);
}

static double number_at(const cJSON *array, int i) {
    return cJSON_GetArrayItem(array, i)->valuedouble;
}

TEST(the_page_has_what_is_in_the_log) {
    cJSON *data;
    const char *text = page_of(gs_made_log(), "report . -o " PAGE, &data, NULL);
    const cJSON *run = cJSON_GetArrayItem(gs_test_field(data, "runs"), 0),
                *steps = gs_test_field(run, "steps"), *worker;
    assert_string_equal(gs_test_field(gs_test_field(run, "about"), "model")->valuestring, "mlp");
    assert_near(number_at(gs_test_field(steps, "loss"), 0), 2.5, 0, 0);
    assert_true(cJSON_IsNull(cJSON_GetArrayItem(gs_test_field(steps, "loss"), 1)));
    assert_near(gs_test_field(run, "samples_per_s")->valuedouble, 200, 0, 0);
    assert_near(number_at(gs_test_field(run, "share"), 3), 0.25, 0, 0);
    worker = cJSON_GetArrayItem(gs_test_field(run, "workers"), 0);
    assert_int_equal(gs_test_field(worker, "worker")->valueint, 1);
    assert_near(number_at(gs_test_field(worker, "share"), 3), 1, 0, 0);
    assert_has(text, "[\"X\",1,0,20,5,\"forward\",\"forward 0.linear\",null,4]");
}

/* The page contains nothing that a browser would fetch: its only addresses are in the licence of Chart.js. */
TEST(the_page_needs_no_network) {
    static const char *const calls[] = {"src=", "@import", "url(", "fetch(", "XMLHttpRequest", "import("};
    cJSON *data;
    char *text = page_of(gs_made_log(), "report . -o " PAGE, &data, NULL);
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (strstr(text, calls[i])) fail_msg("the page contains '%s'", calls[i]);
    for (const char *at = text; (at = strstr(at, "https:")); at++)
        assert_true(strncmp(at, "https://www.chartjs.org", 23) == 0 ||
                    strncmp(at, "https://github.com/kurkle/color", 31) == 0);
    for (const char *at = text; (at = strstr(at, "http:")); at++)
        assert_memory_equal(at, "http://www.w3.org/2000/svg", 26);
    assert_has(text, "Permission is hereby granted");
    assert_null(strstr(text, "{{"));
}

TEST(harm_stays_text) {
    static const char bad[] =
        "{\"format\":\"gradsum-run\",\"version\":1,\"model\":\"</script><img src=x onerror=y><!--\","
        "\"devices\":[null,\"</SCRIPT>\",[[[[[[1]]]]]]],\"</script>\":1}";
    const char *folder = gs_made_log();
    cJSON *data;
    GS_MADE_TEXT(folder, "run.json", bad);
    GS_MADE_TEXT(folder, "trace.json", "[{\"ph\":\"X\",\"ts\":1,\"dur\":1,\"name\":\"</script>\"}]");
    char *text = page_of(folder, "report . -o " PAGE, &data, NULL);
    assert_null(strstr(text, "<img"));
    const cJSON *run = cJSON_GetArrayItem(gs_test_field(data, "runs"), 0);
    assert_string_equal(gs_test_field(gs_test_field(run, "about"), "model")->valuestring,
                        "</script><img src=x onerror=y><!--");
    const cJSON *event = cJSON_GetArrayItem(gs_test_field(gs_test_field(run, "trace"), "events"), 0);
    assert_string_equal(cJSON_GetArrayItem(event, 6)->valuestring, "</script>");
    int scripts = 0, ends = 0;
    for (const char *at = text; (at = strcasestr(at, "<script")); at++) scripts++;
    for (const char *at = text; (at = strcasestr(at, "</script")); at++) ends++;
    assert_int_equal(scripts, ends);
}

/* The page contains all of run.json. A run.json that is too large is left out, and the page says so. Texts that are not
 * valid UTF-8 are made valid. */
TEST(a_huge_run_json_is_left_out) {
    enum { LARGE = 5 << 20 };
    static const char bytes[] = "{\"format\":\"gradsum-run\",\"version\":1,\"model\":\"\x80\x80\"}";
    char *json = gs_test_malloc(LARGE);
    const char *folder = gs_made_log();
    cJSON *data;
    memset(json, ' ', LARGE);
    memcpy(json, bytes, sizeof bytes - 1);
    gs_made_file(folder, "run.json", json, LARGE);
    page_of(folder, "report . -o " PAGE, &data, NULL);
    const cJSON *run = cJSON_GetArrayItem(gs_test_field(data, "runs"), 0);
    assert_int_equal(cJSON_GetArraySize(gs_test_field(run, "about")), 0);
    assert_has(cJSON_GetArrayItem(gs_test_field(run, "notes"), 0)->valuestring,
               "run.json is too large, above 4 MB");
    gs_made_file(folder, "run.json", json, LARGE / 2);
    page_of(folder, "report . -o " PAGE, &data, NULL);
    run = cJSON_GetArrayItem(gs_test_field(data, "runs"), 0);
    assert_string_equal(gs_test_field(gs_test_field(run, "about"), "model")->valuestring, "\\x80\\x80");
}

static void write_long(const char *folder, int steps) {
    const char *path = gs_test_format("%s/metrics.jsonl", folder);
    FILE *f = gs_test_open(path, "w");
    for (int s = 1; s <= steps; s++)
        fprintf(f,
                "{\"kind\":\"step\",\"step\":%d,\"time\":%.9f,\"loss\":%.9f,\"accuracy\":%.9f,\"lr\":0.05,"
                "\"samples_per_s\":%.4f}\n",
                s, s * 0.0123456789, s == 7777 ? 99.5 : 1 + sin(s), 0.5 + 0.4 * cos(s), 12345.678 + s);
    fclose(f);
}

/* When 10,000 steps are thinned, a single step's peak is kept, and the means are right. */
TEST(much_is_thinned_and_extremes_stay) {
    const char *folder = gs_made_log();
    cJSON *data;
    write_long(folder, 10000);
    page_of(folder, "report . -o " PAGE, &data, NULL);
    const cJSON *steps = gs_test_field(cJSON_GetArrayItem(gs_test_field(data, "runs"), 0), "steps"), *item;
    int points = cJSON_GetArraySize(gs_test_field(steps, "loss"));
    double most = 0, sum = 0;
    assert_int_equal(points, 400);
    assert_int_equal(gs_test_field(steps, "rows")->valueint, 10000);
    assert_int_equal(gs_test_field(steps, "each")->valueint, 25);
    cJSON_ArrayForEach(item, gs_test_field(steps, "loss_max")) most = fmax(most, item->valuedouble);
    cJSON_ArrayForEach(item, gs_test_field(steps, "step")) sum += item->valuedouble;
    assert_near(most, 99.5, 0, 0);
    assert_near(sum / points, 5000.5, 0, 1e-9);
    assert_near(number_at(gs_test_field(steps, "step"), 399), 9988, 0, 0); /* the mean of 9976 .. 10000 */
}

TEST(the_largest_page_is_small) {
    const char *folder = gs_made_log();
    char command[300] = "report";
    cJSON *data;
    write_long(folder, 1000);
    char *events = gs_test_malloc(64 * 5000), *output;
    size_t used = (size_t)sprintf(events, "[");
    for (int i = 0; i < 4000; i++)
        used += (size_t)sprintf(events + used,
                                "%s{\"ph\":\"X\",\"pid\":%d,\"ts\":%d.25,\"dur\":7,\"name\":\"e\"}",
                                i ? "," : "", i % 8, 1000000 + 9 * i);
    sprintf(events + used, "]");
    GS_MADE_TEXT(folder, "trace.json", events);
    for (int i = 0; i < 64; i++) strcat(command, " .");
    strcat(command, " -o " PAGE);
    page_of(folder, command, &data, &output);
    assert_has(output, "64 runs");
    const cJSON *last = gs_test_field(cJSON_GetArrayItem(gs_test_field(data, "runs"), 63), "trace");
    assert_int_equal(cJSON_GetArraySize(gs_test_field(last, "events")), 250);
    assert_int_equal(gs_test_field(last, "all")->valueint, 4000);

    for (char *x = events; (x = strstr(x, "\"X\"")); x++) x[1] = 'C'; /* into memory samples */
    GS_MADE_TEXT(folder, "trace.json", events);
    page_of(folder, command, &data, NULL);
    last = gs_test_field(cJSON_GetArrayItem(gs_test_field(data, "runs"), 63), "trace");
    assert_int_equal(cJSON_GetArraySize(gs_test_field(last, "events")), 250);
}

/* ---- pages of training, comparing and sweeping ---- */

TEST(a_real_log_becomes_a_page) {
    const char *folder = gs_test_folder();
    cJSON *data;
    gs_test_output(
        0, "train --model softmax --devices cpu,cpu --sync ring --threads 1 --steps 9 --log %s/log", folder);
    const char *text = page_of(folder, "report log/ -o " PAGE, &data, NULL);
    const cJSON *run = cJSON_GetArrayItem(gs_test_field(data, "runs"), 0);
    assert_string_equal(gs_test_field(run, "name")->valuestring, "log");
    const cJSON *note;
    cJSON_ArrayForEach(note, gs_test_field(run, "notes")) {
        assert_non_null(strstr(note->valuestring, "machine was busy"));
    }
    assert_int_equal(cJSON_GetArraySize(gs_test_field(gs_test_field(run, "steps"), "loss")), 9);
    assert_int_equal(gs_test_count(text, "[\"s\","), 4 * 2 * 2); /* steps, workers, rounds */
    assert_int_equal(gs_test_count(text, "[\"f\","), 4 * 2 * 2);
}

TEST(a_sweep_becomes_a_page) {
    const char *folder = gs_test_folder();
    cJSON *data;
    page_of(folder, "sweep --model softmax --batch 128,3000 --epochs 1 --target 70 -o " PAGE, &data, NULL);
    const cJSON *rows = gs_test_field(gs_test_field(data, "sweep"), "runs");
    assert_int_equal(cJSON_GetArraySize(rows), 2);
    assert_int_equal(gs_test_field(cJSON_GetArrayItem(rows, 0), "reached")->valueint, 1);
    assert_true(
        gs_test_field(gs_test_field(cJSON_GetArrayItem(rows, 0), "steps_to_target"), "median")->valueint > 0);
    assert_int_equal(gs_test_field(cJSON_GetArrayItem(rows, 1), "reached")->valueint, 0);
    const cJSON *curves = gs_test_field(cJSON_GetArrayItem(gs_test_field(data, "runs"), 0), "epochs");
    assert_int_equal(cJSON_GetArraySize(gs_test_field(curves, "test_accuracy")),
                     4); /* evaluations of the test set */
    page_of(folder, "sweep --model softmax --batch 128,3000 --epochs 1 --target 70 --seeds 3 -o " PAGE, &data,
            NULL);
    assert_int_equal(gs_test_field(gs_test_field(data, "sweep"), "seeds")->valueint, 3);
    const cJSON *row = cJSON_GetArrayItem(gs_test_field(gs_test_field(data, "sweep"), "runs"), 0),
                *steps = gs_test_field(row, "steps_to_target");
    assert_int_equal(cJSON_GetArraySize(gs_test_field(gs_test_field(data, "sweep"), "runs")), 2);
    assert_int_equal(gs_test_field(row, "runs")->valueint, 3);
    assert_int_equal(gs_test_field(row, "reached")->valueint, 3);
    assert_true(gs_test_field(steps, "least")->valuedouble <= gs_test_field(steps, "median")->valuedouble);
    assert_true(gs_test_field(steps, "most")->valuedouble >= gs_test_field(steps, "median")->valuedouble);
    assert_int_equal(cJSON_GetArraySize(gs_test_field(data, "runs")), 2); /* one curve for each batch size */
    assert_non_null(
        strstr(gs_test_field(cJSON_GetArrayItem(gs_test_field(data, "runs"), 0), "name")->valuestring,
               "batch 128, seed "));
    assert_prints(1, "cannot write", "sweep --batch 32 -o %s/no/x.html", folder);
}
