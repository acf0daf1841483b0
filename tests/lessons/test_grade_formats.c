/* The formats of gradsum grade, for marks whose names and notes contain forbidden characters. */
#include "lessons/grade/format.h"
#include "tests/support/files.h"
#include "tests/support/program.h"

/* A mark with this text wherever a student can choose one. */
static cJSON *bad_marks(const char *text) {
    cJSON *marks =
        gs_test_parse("[{\"student\": \"\", \"lab\": \"07\", \"title\": \"t\", \"points\": 3, \"of\": 10,"
                      "\"problem\": \"\", \"messages\": \"\", \"remark\": \"\", \"tasks\": ["
                      "{\"task\": \"7.1\", \"what\": \"one\", \"points\": 3, \"of\": 3, \"note\": \"\"},"
                      "{\"task\": \"7.2\", \"what\": \"two\", \"points\": 0, \"of\": 7, \"note\": \"\"}]}]");
    cJSON_ReplaceItemInObject(marks->child, "student", cJSON_CreateString(text));
    cJSON_ReplaceItemInObject(marks->child, "messages", cJSON_CreateString(text));
    cJSON *second = cJSON_GetArrayItem(cJSON_GetObjectItem(marks->child, "tasks"), 1);
    cJSON_ReplaceItemInObject(second, "note", cJSON_CreateString(text));
    gs_mark_clean(marks);
    return marks;
}

/* Such a mark, as format `f` writes it. */
static char *written(const gs_format *f, const char *text) {
    const gs_labs labs = {.has = {[7] = true}};
    char *output;
    size_t size;
    FILE *out = open_memstream(&output, &size);
    cJSON *marks = bad_marks(text);
    if (f->begin) f->begin(out, &labs);
    f->student(out, &labs, marks);
    if (f->end) f->end(out);
    fclose(out);
    return gs_test_own(output, free);
}

static void assert_written(const gs_format *f, const char *text, const char *part) {
    char *output = written(f, text);
    if (!strstr(output, part)) fail_msg("%s of '%s': no '%s' in:\n%s", f->name, text, part, output);
}

TEST(a_name_is_no_formula) {
    const gs_format *const both[] = {&gs_format_csv, &gs_format_moodle};
    for (size_t i = 0; i < sizeof both / sizeof *both; i++) {
        assert_written(both[i], "=1+1", "\n'=1+1,");
        assert_written(both[i], "+1", "\n'+1,");
        assert_written(both[i], "-rf", "\n'-rf,");
        assert_written(both[i], "@SUM(A1)", "\n'@SUM(A1),");
        assert_written(both[i], "\t=1", "\n'\t=1,");
        assert_written(both[i], " =1", "\n' =1,");
        assert_written(both[i], "=HYPERLINK(\"x\",\"y\")", "\n\"'=HYPERLINK(\"\"x\"\",\"\"y\"\")\",");
        assert_written(both[i], "a-b", "\na-b,");
        assert_written(both[i], "a, \"b\"", "\n\"a, \"\"b\"\"\",");
        assert_written(both[i], "a\nb", "\n\"a b\",");
    }
    char *output;
    size_t size;
    FILE *out = open_memstream(&output, &size);
    gs_csv_field(out, "\r=1", true); /* gs_mark_clean removes this from all marks */
    fclose(out);
    assert_string_equal(gs_test_own(output, free), "\"' =1\"\n");
}

TEST(csv_and_moodle_have_these_columns) {
    assert_written(&gs_format_csv, "x<y",
                   "student,lab,tasks,points,of,note\nx<y,07,7.1=3 7.2=0,3,10,7.2: x<y\n");
    assert_written(&gs_format_moodle, "x<y&z",
                   "identifier,lab 07,lab 07 feedback\nx<y&z,3,7.2: x&lt;y&amp;z\n");
    assert_written(&gs_format_moodle, "Jane _ Doe_123_assignsubmission_file", "\nParticipant 123,3,");
    char note[40];
    gs_mark_note(gs_test_parse("{\"problem\": \"it fails\", \"messages\": \"lab.c:1: error\"}"), note,
                 sizeof note);
    assert_string_equal(note, "it fails: lab.c:1: error");
    const char *hand_in = in_folder(gs_test_folder(), "lab-07.c");
    write_text(hand_in, "int main");
    assert_prints(2, "lab-07.c is there already, and holds no marks", "grade --trust $(dirname %s) -o %s",
                  hand_in, hand_in);
}

/* Names and notes that try to break a format. tests/lessons/hand_ins.sh parses some of them. */
static const char *const BAD[] = {"]]>&<\"'",     "a\x01\x1b[31mb", "\xff\xc3", "\xef\xbf\xbe\xef\xbf\xbf",
                                  "\xe2\x80\xae", "x\ty\nz"};

TEST(json_stays_json) {
    const gs_format *const both[] = {&gs_format_json, &gs_format_gradescope};
    for (size_t k = 0; k < 2 * (sizeof BAD / sizeof *BAD); k++) {
        char *output = written(both[k % 2], BAD[k / 2]);
        const char *end;
        cJSON *o = cJSON_ParseWithOpts(output, &end, false);
        assert_non_null(o);
        assert_string_equal(end, "\n");
        for (const unsigned char *c = (const unsigned char *)output; *c; c++) /* only bytes of valid UTF-8 */
            assert_true(*c == '\n' || *c == '\t' || (*c >= 0x20 && *c != 0xff && *c != 0x7f));
        cJSON_Delete(o);
    }
}

TEST(gradescope_gets_its_fields) {
    char *output = written(&gs_format_gradescope, "two\nlines");
    cJSON *o = gs_test_parse(output);
    assert_float_equal(gs_test_field(o, "score")->valuedouble, 3, 0);
    assert_float_equal(gs_test_field(gs_test_field(o, "extra_data"), "max_score")->valuedouble, 10, 0);
    assert_string_equal(gs_test_field(o, "visibility")->valuestring, "visible");
    assert_string_equal(gs_test_field(o, "output")->valuestring, "lab 07: 3/10\ntwo\nlines\n");
    const cJSON *tests = gs_test_field(o, "tests"), *second = cJSON_GetArrayItem(tests, 1);
    assert_int_equal(cJSON_GetArraySize(tests), 2);
    assert_string_equal(gs_test_field(cJSON_GetArrayItem(tests, 0), "status")->valuestring, "passed");
    assert_string_equal(gs_test_field(second, "name")->valuestring, "lab 07: two");
    assert_string_equal(gs_test_field(second, "number")->valuestring, "7.2");
    assert_float_equal(gs_test_field(second, "score")->valuedouble, 0, 0);
    assert_float_equal(gs_test_field(second, "max_score")->valuedouble, 7, 0);
    assert_string_equal(gs_test_field(second, "output")->valuestring, "two\nlines");
    assert_string_equal(gs_test_field(second, "visibility")->valuestring, "visible");
    assert_string_equal(gs_test_field(second, "status")->valuestring, "failed");
}

TEST(xml_has_only_characters_of_xml) {
    assert_written(&gs_format_junit, "a<b", "<testcase classname=\"a&lt;b.07\" name=\"7.1 one\"/>\n");
    assert_written(&gs_format_junit, "]]>&\"'", "message=\"0/7: ]]&gt;&amp;&quot;&apos;\"/>");
    assert_written(&gs_format_junit, "a\nb", "<system-err>a&#10;b</system-err>");
    assert_written(&gs_format_junit, "a\tb", "tests=\"2\" failures=\"1\" errors=\"0\">");
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++) {
        char *output = written(&gs_format_junit, BAD[i]);
        for (const char *c = output; *c; c++) {
            bool control = (unsigned char)*c < 0x20 && *c != '\n';
            if (control || strncmp(c, "\xef\xbf\xbe", 3) == 0 || strncmp(c, "\xef\xbf\xbf", 3) == 0)
                fail_msg("%02x in %s", (unsigned char)*c, output);
        }
    }
}

/* A note that is too long is truncated between two characters. */
TEST(a_long_note_stays_utf_8) {
    char text[9000] = "", note[4000];
    for (size_t i = 0; i + 4 < sizeof text; i += 3) memcpy(text + i, "\xe2\x82\xac", 3); /* the euro sign */
    cJSON *marks = bad_marks(text);
    for (size_t less = 0; less < 3; less++) { /* cuts at each offset in the character */
        gs_mark_note(marks->child, note, sizeof note - less);
        assert_memory_equal(note + strlen(note) - 3, "\xe2\x82\xac", 3);
    }
}
