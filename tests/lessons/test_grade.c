/* gradsum grade without the labs' programs: which files were handed in, and which labs are graded. Formats are tested
 * in test_grade_formats.c, whole runs in tests/lessons/labs.sh.
 */
#include "lessons/grade/command.h"
#include "lessons/grade/exact_run.h"
#include "lessons/grade/exact_run.h"
#include "lessons/grade/format.h"
#include "lessons/grade/hand_ins.h"
#include "tests/support/files.h"
#include "tests/support/training.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- hand-ins ---- */

static void write_file(const char *folder, const char *name, size_t bytes) {
    const char *path = gs_test_format("%s/%s", folder, name);
    FILE *f = gs_test_open(path, "wb");
    for (size_t i = 0; i < bytes; i++) fputc(' ', f);
    fclose(f);
}

static void make_folder(const char *folder, const char *name) {
    const char *path = gs_test_format("%s/%s", folder, name);
    assert_int_equal(mkdir(path, 0700), 0);
}

static void make_link(const char *to, const char *folder, const char *name) {
    const char *path = gs_test_format("%s/%s", folder, name);
    assert_int_equal(symlink(to, path), 0);
}

static void free_hand_ins(void *all) {
    gs_hand_ins_free(all);
    free(all);
}

/* Checks that the folder contains this many hand-ins; the test owns them. */
static gs_hand_ins *hand_ins_in(const char *folder, int count) {
    gs_hand_ins *all = gs_test_own(calloc(1, sizeof *all), free_hand_ins);
    assert_ok(gs_hand_ins_find(folder, all));
    assert_int_equal(all->count, count);
    return all;
}

static void assert_hand_in(const gs_hand_in *h, const char *student, const char *lab, const char *problem) {
    if (strcmp(h->student, student) != 0 || strcmp(h->lab, lab) != 0 || !strstr(h->problem, problem) ||
        !*problem != !*h->problem)
        fail_msg("%s, lab '%s': '%s'; wanted %s, lab '%s': '%s'", h->student, h->lab, h->problem, student,
                 lab, problem);
}

TEST(hand_ins_are_found_in_order) {
    const char *folder = gs_test_folder();
    make_folder(folder, "bob");
    make_folder(folder, "bob/07");
    write_file(folder, "bob/07/lab.c", 9);
    write_file(folder, "bob/07/notes.txt", 9);
    write_file(folder, "bob/lab-04.cl", 9);
    make_folder(folder, "alice");
    write_file(folder, "alice/lab-06.c", 9);
    make_folder(folder, "alice/11");
    make_link("lab.c", folder, "alice/11/lab.c"); /* a link to itself */
    make_folder(folder, "carol");
    make_link("../bob/07", folder, "carol/07");
    make_link(".", folder, "carol/08");
    make_folder(folder, "carol/09");
    make_folder(folder, "carol/10");
    make_folder(folder, "carol/10/lab.c");
    make_folder(folder, "dave");
    make_link("bob", folder, "eve");
    write_file(folder, "list.csv", 3);
    const gs_hand_ins *all = hand_ins_in(folder, 10);
    static const struct {
        const char *student, *lab, *problem;
    } wanted[] = {
        {"alice", "11", "11/lab.c is a link, not a file"},
        {"alice", "06", ""},
        {"bob", "07", ""},
        {"bob", "04", ""},
        {"carol", "07", "07 is a link, not a folder"},
        {"carol", "08", "08 is a link, not a folder"},
        {"carol", "09", "no lab.c in the folder 09"},
        {"carol", "10", "10/lab.c is not a file"},
        {"dave", "", ""},
        {"eve", "", "the folder is a link, not a folder"},
    };
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        assert_hand_in(&all->list[i], wanted[i].student, wanted[i].lab, wanted[i].problem);
}

TEST(a_folder_of_labs_is_one_student) {
    char folder[600];
    snprintf(folder, sizeof folder, "%s/", gs_test_folder());
    write_file(folder, "lab-07.c", 9);
    const gs_hand_ins *all = hand_ins_in(folder, 1);
    folder[strlen(folder) - 1] = '\0';
    assert_hand_in(&all->list[0], strrchr(folder, '/') + 1, "07", "");
}

TEST(without_hand_ins_it_says_so) {
    gs_hand_ins all = {0};
    assert_fails(GS_E_FILE, "holds no hand-ins", gs_hand_ins_find(gs_test_folder(), &all));
    assert_fails(GS_E_FILE, "cannot read the folder /nowhere", gs_hand_ins_find("/nowhere", &all));
    gs_hand_ins_free(&all);
    assert_prints(2, "a folder of hand-ins is required", "grade");
    assert_prints(1, "cannot read the folder /nowhere", "grade /nowhere");
    assert_prints(1, "holds no hand-ins", "grade %s", gs_test_folder());
    assert_prints(1, "cannot read the folder", "grade %s", gs_test_source("README.md"));
}

TEST(a_lab_that_is_not_there) {
    const char *folder = gs_test_format("%s/", gs_test_folder());
    write_file(folder, "lab-07.c", 9);
    assert_prints(2, "--labs 77: unknown lab '77'", "grade %s --labs 77", folder);
    assert_prints(2, "unknown lab '*'", "grade %s --labs '*'", folder);
}

static gs_labs labs_of(const char *list) {
    gs_labs labs = {0};
    for (; *list; list += 2) labs.has[10 * (list[0] - '0') + list[1] - '0'] = true;
    return labs;
}

TEST(labs_are_numbers_between_commas_or_spaces) {
    static const char *const texts[][2] = {
        {"06", "06"},      {"6", "06"},   {"07,06", "0607"},    {"6, 7", "0607"},  {" 6 7 ", "0607"},
        {"07,07,7", "07"}, {"06,", "06"}, {",,06,,10", "0610"}, {"10,11", "1011"}, {"11,10,1", "011011"}};
    const gs_labs known = labs_of("0106071011");
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        gs_labs labs, wanted = labs_of(texts[i][1]);
        assert_ok(gs_labs_parse(texts[i][0], &known, &labs));
        if (memcmp(&labs, &wanted, sizeof labs) != 0)
            fail_msg("--labs '%s' is not %s", texts[i][0], texts[i][1]);
    }
    gs_labs labs;
    assert_fails(GS_E_USAGE, "--labs 1011: unknown lab '1011'", gs_labs_parse("1011", &known, &labs));
    assert_fails(GS_E_USAGE, "unknown lab '006'", gs_labs_parse("006", &known, &labs));
    assert_fails(GS_E_USAGE, "unknown lab '8'", gs_labs_parse("6,8", &known, &labs));
    assert_fails(GS_E_USAGE, "unknown lab '-6'", gs_labs_parse("-6", &known, &labs));
    assert_fails(GS_E_USAGE, "unknown lab '6;7'", gs_labs_parse("6;7", &known, &labs));
    assert_fails(GS_E_USAGE, "names no lab", gs_labs_parse(" , ,", &known, &labs));
}

TEST(the_labs_of_this_tree) {
    gs_labs labs = gs_labs_of_tree(gs_test_source("."));
    assert_int_equal(gs_labs_next(&labs, 0), 0);
    assert_int_equal(gs_labs_next(&labs, 7), 7);
    assert_int_equal(gs_labs_next(&labs, 90), -1);
}

TEST(only_a_small_file_is_copied) {
    const char *folder = gs_test_folder();
    const char *to = gs_test_format("%s/copy", folder);
    const char *from = gs_test_format("%s/lab.c", folder);
    write_file(folder, "lab.c", GS_HAND_IN_MOST);
    assert_ok(gs_hand_in_copy(from, to));
    write_file(folder, "lab.c", GS_HAND_IN_MOST + 1);
    assert_fails(GS_E_FILE, "it has 1048577 bytes; a lab has at most 1048576", gs_hand_in_copy(from, to));
    assert_int_equal(truncate(from, (off_t)1 << 40), 0); /* a sparse file of a terabyte */
    assert_fails(GS_E_FILE, "it has 1099511627776 bytes", gs_hand_in_copy(from, to));
    assert_int_equal(remove(from), 0);
    assert_fails(GS_E_FILE, "No such file", gs_hand_in_copy(from, to));
    assert_int_equal(mkfifo(from, 0600), 0);
    assert_fails(GS_E_FILE, "is not a file", gs_hand_in_copy(from, to)); /* and does not block */
    assert_int_equal(remove(from), 0);
    make_link("copy", folder, "lab.c");
    assert_fails(GS_E_FILE, "cannot read", gs_hand_in_copy(from, to));
    assert_fails(GS_E_FILE, "is not a file", gs_hand_in_copy(folder, to));
}

/* A full disk is the teacher's problem: no student gets 0 points for it. */
TEST(a_full_disk) {
    const char *folder = gs_test_folder();
    const char *from = gs_test_format("%s/lab.c", folder);
    write_file(folder, "lab.c", 9);
    assert_fails(GS_E_MEMORY, "cannot write the copy /dev/full: No space left",
                 gs_hand_in_copy(from, "/dev/full"));
    assert_ok(gs_hand_in_room(folder, 1));
    assert_fails(GS_E_FILE, "MB; grading needs 1099511627776 MB", gs_hand_in_room(folder, (uint64_t)1 << 60));
    assert_fails(GS_E_FILE, "cannot use the folder /no/folder: No such file",
                 gs_hand_in_room("/no/folder", 1));
}

TEST(a_lab_that_is_there_twice) {
    const char *folder = gs_test_folder();
    make_folder(folder, "alice");
    make_folder(folder, "alice/07");
    write_file(folder, "alice/07/lab.c", 9);
    write_file(folder, "alice/lab-06.c", 9);
    write_file(folder, "alice/lab-07.c", 9);
    make_folder(folder, "bob");
    write_file(folder, "bob/lab-07.c", 9);
    const gs_hand_ins *all = hand_ins_in(folder, 3);
    assert_int_equal(all->students, 2);
    assert_hand_in(&all->list[0], "alice", "07", "handed in more than once, the last time as lab-07.c");
    assert_hand_in(&all->list[1], "alice", "06", "");
    assert_hand_in(&all->list[2], "bob", "07", "");
}

static void assert_is(const gs_hand_in *h, const char *student, const char *name, const char *others) {
    if (strcmp(h->student, student) != 0 || !strstr(h->path, name) || strcmp(h->others, others) != 0 ||
        *h->problem)
        fail_msg("%s: %s, '%s', beside '%s'; wanted %s: %s", h->student, h->path, h->problem, h->others,
                 student, name);
}

TEST(names_that_course_systems_give) {
    const char *folder = gs_test_folder();
    static const char *const folders[] = {"Ann Lee_123_assignsubmission_file",
                                          "bob",
                                          "bob/zip",
                                          "bob/zip/lab-07",
                                          "carl",
                                          "dora",
                                          "dora/07",
                                          "emil"};
    static const char *const files[] = {"Ann Lee_123_assignsubmission_file/lab-07.c",
                                        "bob/zip/lab-07/LAB.C",
                                        "bob/zip/._lab-07.c",
                                        "carl/lab-07.c",
                                        "carl/lab-07 (10).c",
                                        "carl/lab-07 (9).c",
                                        "dora/07/Lab 7.c",
                                        "emil/LAB-07.C",
                                        "emil/lab-06-final.c"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) make_folder(folder, folders[i]);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) write_file(folder, files[i], 9);
    const gs_hand_ins *all = hand_ins_in(folder, 5);
    assert_is(&all->list[0], "Ann Lee_123_assignsubmission_file", "file/lab-07.c", "");
    assert_is(&all->list[1], "bob", "bob/zip/lab-07/LAB.C", "");
    assert_is(&all->list[2], "carl", "lab-07 (10).c", "");
    assert_is(&all->list[3], "dora", "07/Lab 7.c", "");
    assert_is(&all->list[4], "emil", "LAB-07.C", "lab-06-final.c");
}

/* Two students with the same name; a second attempt of one of them; and a file that belongs to no lab. */
TEST(all_in_one_folder) {
    const char *folder = gs_test_folder();
    static const char *const files[] = {"doeJane_4711_1_lab-07.c", "doeJane_5000_3_lab-07.c",
                                        "doeJane_LATE_4711_2_lab-07-1.c", "roeRick_7_8_mine.c", "list.csv"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) write_file(folder, files[i], 9);
    const gs_hand_ins *all = hand_ins_in(folder, 3);
    assert_int_equal(all->students, 3);
    assert_is(&all->list[0], "doeJane", "doeJane_LATE_4711_2_lab-07-1.c", "");
    assert_is(&all->list[1], "doeJane", "doeJane_5000_3_lab-07.c", "");
    assert_is(&all->list[2], "roeRick", "", "roeRick_7_8_mine.c");
}

TEST(a_tree_is_a_hand_in_too) {
    const char *folder = gs_test_folder();
    static const char *const folders[] = {
        "alice",           "alice/lessons",        "alice/lessons/07-all-reduce",
        "alice/lessons/7", "alice/lessons/04-a-k", "alice/lessons/99"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) make_folder(folder, folders[i]);
    write_file(folder, "alice/lessons/07-all-reduce/lab.c", 9);
    write_file(folder, "alice/lessons/04-a-k/lab.c", 9);
    write_file(folder, "alice/lessons/04-a-k/lab.cl", 9);
    const gs_hand_ins *all = hand_ins_in(folder, 2);
    assert_hand_in(&all->list[0], "alice", "04", "");
    assert_non_null(strstr(all->list[0].path, "04-a-k/lab.cl"));
    assert_hand_in(&all->list[1], "alice", "07", "");
}

/* If this user may read everything, another user looks: inside the folder, because its parents are closed to others. */
TEST(what_may_not_be_read_is_in_the_list) {
    enum { NOBODY = 65534 };
    const char *folder = gs_test_folder();
    int before = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(chdir(folder), 0);
    make_folder(".", "alice");
    make_folder(".", "bob");
    write_file(".", "bob/lab-06.c", 9);
    write_file(".", "bob/lab-07.c", 9);
    assert_int_equal(chmod(".", 0755) | chmod("bob", 0755) | chmod("alice", 0) | chmod("bob/lab-06.c", 0), 0);
    bool root = geteuid() == 0;
    gs_hand_ins all = {0};
    if (root) assert_int_equal(seteuid(NOBODY), 0);
    gs_status status = gs_hand_ins_find(".", &all);
    if (root) assert_int_equal(seteuid(0), 0);
    chmod("alice", 0700); /* so that it can be removed */
    assert_int_equal(fchdir(before), 0);
    close(before);
    assert_ok(status);
    assert_int_equal(all.count, 3);
    assert_hand_in(&all.list[0], "alice", "", "the folder cannot be read: Permission denied");
    assert_hand_in(&all.list[1], "bob", "06", "lab-06.c cannot be read: Permission denied");
    assert_hand_in(&all.list[2], "bob", "07", "");
    gs_hand_ins_free(&all);
}

/* An old EINTR in errno must not cause another read at the end of the file. */
TEST(what_a_command_prints) {
    char output[8];
    bool worked = false;
    alarm(200); /* ends the test if the read repeats forever */
    errno = EINTR;
    assert_ok(gs_command_run("/", (const char *[]){"sh", "-c", "pwd; printf ab", NULL}, output, sizeof output,
                             &worked));
    assert_true(worked);
    assert_string_equal(output, "/\nab");
    assert_ok(gs_command_run("/", (const char *[]){"sh", "-c", "printf 123456789; exit 3", NULL}, output,
                             sizeof output, &worked));
    assert_false(worked);
    assert_string_equal(output, "1234567");
    alarm(0);
}

TEST(formats_have_names) {
    const char *folder = gs_test_folder();
    write_file(folder, "lab-07.c", 9);
    const gs_format *format;
    assert_ok(gs_format_find("junit", &format));
    assert_ptr_equal(format, &gs_format_junit);
    assert_prints(2, "choose one of: csv, gradescope, json, junit, moodle; did you mean moodle?",
                  "grade %s --format moodel", folder);
    assert_prints(2, "--json and --format csv are both given", "grade %s --json --format csv", folder);
    assert_prints(0, "CSV for Moodle's gradebook", "grade --help");
}

TEST(a_recorded_run_is_held_to_its_hash) {
    static const char *const cases[][2] = {
        {"{\"exact\": true, \"ended\": {\"weights_sha256\": \"00112233445566\"}}",
         "lab-08.json: the run ended with the weights 00112233; train --exact --model softmax ends with "},
        {"{\"exact\": false, \"ended\": {\"weights_sha256\": \"0\"}}", "the run was without --exact"},
        {"{\"exact\": true, \"ended\": {}}", "lab-08.json is not the run.json of a run that ended"},
        {"{", "lab-08.json is not valid JSON"}};
    const char *folder = in_folder(gs_test_folder(), "log"), *lab = in_folder(folder, "lab-08.c"),
               *record = in_folder(folder, "lab-08.json"), *wanted = in_folder(folder, "exact.txt");
    char text[1000];
    const char *hash = gs_test_sha256("train --model softmax --steps 2 --exact --log %s", folder);
    write_text(wanted, gs_test_format("%s --model softmax\n", hash));
    for (int i = 0; i < 3; i++) { /* no record; the run's own; nothing wanted */
        gs_exact_run_check(i < 2 ? wanted : "/nowhere", lab, text, sizeof text);
        assert_string_equal(text, "");
        if (i == 0) assert_int_equal(rename(in_folder(folder, "run.json"), record), 0);
    }
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_text(record, cases[i][0]);
        gs_exact_run_check(wanted, lab, text, sizeof text);
        assert_has(text, cases[i][1]);
    }
}
