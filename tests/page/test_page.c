/* Pages are assembled as written, self-contained, and complete or absent. tests/browser/step.py checks them in a
 * browser. */
#include "tests/support/files.h"
#include "tests/support/program.h"

#include <math.h>
#include <sys/stat.h>
#include "page/page.h"
#include "sync/sync.h"

TEST(parts_take_the_place_of_marks) {
    cJSON *json = cJSON_CreateObject();
    cJSON_AddStringToObject(json, "a", "</script><!-- {{b}}");
    const gs_page page = {.title = "<b> & \"'{{b}}\xff",
                          .style = {"a > b { c: '&' }", "d { }"},
                          .body = "<p>{{title}} &amp; {x} {{</p>",
                          .script = {"if (1 < 2 && '\xc3\xa9') ;", "f()"}};
    const char *path = in_folder(gs_test_folder(), "page.html");
    assert_ok(gs_page_write(path, &page, json));
    size_t length;
    char *text = gs_test_text(path, &length);
    assert_has(text, "<title>&lt;b&gt; &amp; &quot;&#39;{{b}}\\xff</title>",
               "a > b { c: '&' }d { }\n</style>");
    assert_has(text, "<p>{{title}} &amp; {x} {{</p>\n", "if (1 < 2 && '\xc3\xa9') ;f()\n</script>");
    assert_has(text, ">{\"a\":\"\\u003c/script>\\u003c!-- {{b}}\"}</script>", "</html>\n");
    cJSON_Delete(json);
}

TEST(a_bad_target_is_explained) {
    const gs_page none = {.title = "", .body = ""};
    const char *folder = gs_test_folder();
    const cJSON json = {.type = cJSON_Object};
    assert_fails(GS_E_FILE, "Is a directory", gs_page_write(folder, &none, &json));
    assert_fails(GS_E_FILE, "No such file", gs_page_write(in_folder(folder, "no/page.html"), &none, &json));
    assert_fails(GS_E_FILE, "not a regular file", gs_page_write("/dev/null", &none, &json));
    assert_prints(1, "Is a directory", "step -o %s", folder);
    assert_prints(1, "cannot write", "step -o %s/no/page.html", folder);
    write_times(in_folder(folder, "text"), "some text\n", 1);
    assert_prints(2, "text is there already, and holds no page", "step -o %s/text", folder);
    assert_prints(2, "text is there already, and holds no weights", "train --save %s/text", folder);
    for (int i = 0; i < 2; i++) assert_prints(0, "", "step -o %s/page.html", folder);
}

/* A file size limit acts like a full disk: no fragment is left, and an older page stays. */
TEST(a_full_disk_leaves_the_older_page) {
    const char *folder = gs_test_folder();
    write_times(in_folder(folder, "page.html"), "<!doctype html>older", 1);
    char *output = gs_test_shell_output(1, "trap '' XFSZ; ulimit -f 8; cd %s && %s/gradsum step -o page.html",
                                        folder, GS_BUILD_DIR);
    assert_has(output, "cannot write", "File too large");
    output = gs_test_shell_output(0, "cd %s && ls && cat page.html", folder);
    assert_string_equal(output, "page.html\n<!doctype html>older");
}

/* Writes a page and returns its text; *data is the data that its script reads. */
static char *page(const char *options, cJSON **data) {
    const char *path = in_folder(gs_test_folder(), "step.html");
    gs_test_output(0, "step %s -o %s", options, path);
    return gs_test_page(path, data);
}

/* The page contains nothing that a browser would fetch; the name of SVG's namespace is not an address. */
TEST(the_page_needs_no_network) {
    static const char *const calls[] = {"https:", "src=",           "@import", "url(",
                                        "fetch(", "XMLHttpRequest", "import("};
    cJSON *data;
    char *text = page("--workers 16", &data);
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (strstr(text, calls[i])) fail_msg("the page contains '%s'", calls[i]);
    for (const char *at = text; (at = strstr(at, "http:")); at++)
        assert_memory_equal(at, "http://www.w3.org/2000/svg", 26);
    for (const char *at = text; (at = strstr(at, "href=")); at++)
        assert_memory_equal(at, "href=\"data:,\"", 13);
    assert_null(strstr(text, "{{"));
}

/* The sample counts are summed too, as elements of the last chunk. Each worker's values before the sum, and the sums
 * after it, match what `gradsum train` reports for its first step. */
TEST(the_gradients_are_those_of_a_real_step) {
    cJSON *data, *line = NULL;
    page("--workers 3 --batch 32 --sync tree", &data);
    double loss = 0, samples = 0;
    const cJSON *w;
    cJSON_ArrayForEach(w, gs_test_field(data, "workers")) {
        samples += cJSON_GetArrayItem(w, 0)->valuedouble;
        loss += cJSON_GetArrayItem(w, 1)->valuedouble;
    }
    assert_int_equal(gs_test_field(data, "floats")->valueint, 7850 + GS_STATS);
    assert_near(samples, 32, 0, 0);
    char *output = gs_test_output(0, "train --model softmax --batch 32 --steps 1 --json");
    for (char *l = strtok(output, "\n"); l; l = strtok(NULL, "\n"))
        if (strstr(l, "train_loss") && !line) line = cJSON_Parse(l);
    assert_non_null(line);
    assert_near(loss / samples, gs_test_field(line, "train_loss")->valuedouble, 0,
                1e-3); /* the page keeps 4 digits */
    cJSON_Delete(line);
}

/* For all schemes, the messages on the page match the counts, and at the end all workers hold the same row. */
TEST(every_scheme_is_in_it) {
    const gs_sync_scheme *counted_by_formula[32];
    int count = 0;
    for (const gs_sync_scheme *const *s = gs_sync_schemes(); *s; s++)
        if ((*s)->cost) counted_by_formula[count++] = *s;
    assert_true(count >= 6);
    for (int workers = 2; workers <= 7; workers += 5) {
        cJSON *data;
        const char *options =
            gs_test_format("--model 'flatten, linear 10' --sync sharded_ps --workers %d", workers);
        page(options, &data);
        const cJSON *schemes = gs_test_field(data, "schemes"), *s, *m;
        int rows = cJSON_GetArraySize(gs_test_field(data, "rows")), i = 0;
        assert_string_equal(gs_test_field(data, "show")->valuestring, "sharded_ps");
        assert_int_equal(cJSON_GetArraySize(schemes), count);
        cJSON_ArrayForEach(s, schemes) {
            int counted = 0, chunks = cJSON_GetArraySize(gs_test_field(s, "bounds")) - 1;
            uint32_t all = (1u << workers) - 1, set[16][16] = {0};
            assert_string_equal(gs_test_field(s, "name")->valuestring, counted_by_formula[i++]->name);
            assert_true(cJSON_Compare(gs_test_field(s, "counted"), gs_test_field(s, "formula"), true));
            cJSON_ArrayForEach(m, gs_test_field(s, "counted")) counted += cJSON_GetArrayItem(m, 1)->valueint;
            assert_int_equal(cJSON_GetArraySize(gs_test_field(s, "messages")), counted);
            cJSON_ArrayForEach(m, gs_test_field(s, "changes")) {
                int worker = cJSON_GetArrayItem(m, 1)->valueint, chunk = cJSON_GetArrayItem(m, 2)->valueint;
                int row = cJSON_GetArrayItem(m, 4)->valueint;
                assert_true(worker < workers && chunk < chunks && row >= 0 && row < rows);
                set[worker][chunk] = (uint32_t)cJSON_GetArrayItem(m, 3)->valueint;
            }
            for (int r = 0; r < workers; r++)
                for (int c = 0; c < chunks; c++) assert_int_equal(set[r][c], all);
        }
    }
}

TEST(wrong_use_is_explained) {
    assert_prints(2, "-o shows: ps, sharded_ps, ", "step --sync allreduce -o x.html");
    assert_prints(2, "one worker has nothing to sum", "step --workers 1 -o x.html");
    assert_prints(2, "--size is for the terminal", "step --size 8 -o x.html");
    assert_prints(2, "--wire is for the terminal", "step --wire f16 -o x.html");
    assert_prints(2, "--model is for a page: -o FILE", "step --model mlp");
    assert_prints(2, "cannot be divided among 4 workers", "step --batch 3 -o %s/x.html", gs_test_folder());
    assert_prints(2, "6000 samples", "step --batch 6001 -o %s/x.html", gs_test_folder());
    assert_prints(2, "a page takes at most 10000000",
                  "step --model 'flatten, linear 20000, linear 10' -o %s/x.html", gs_test_folder());
}
