/* What labs stand on: the hooks by which a scheme or an operator is replaced, and the list of hand-ins. What the grader
 * finds is tested by tests/labs.sh, which needs the labs' programs.
 */
#include "lessons/grade/command.h"
#include "lessons/grade/hand_ins.h"
#include "tests/training.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- schemes ---- */

static gs_status fill_with_7(gs_sync *s, float *data, size_t count) {
    (void)s;
    for (size_t i = 0; i < count; i++) data[i] = 7;
    return GS_OK;
}

static const gs_sync_scheme mine = {.name = "ring", .what = "7 everywhere", .sum = fill_with_7};
static const gs_sync_scheme second = {.name = "ring", .what = "again", .sum = fill_with_7};

static void a_scheme_is_replaced_by_name(void **state) {
    (void)state;
    const gs_sync_scheme *found;
    int place = 0;
    while (gs_sync_schemes()[place] != &gs_sync_ring) place++;
    assert_ok(gs_sync_replace("ring", &mine));
    assert_ok(gs_sync_find("ring", &found));
    assert_ptr_equal(found, &mine);
    assert_ptr_equal(gs_sync_schemes()[place], &mine);
    assert_ok(gs_sync_replace("ring", &second)); /* also what is replaced already */
    assert_ptr_equal(gs_sync_schemes()[place], &second);
    assert_ok(gs_sync_find("tree", &found));
    assert_ptr_equal(found, &gs_sync_tree);
    assert_ok(gs_sync_replace("ring", NULL));
    assert_ptr_equal(gs_sync_schemes()[place], &gs_sync_ring);
}

static void only_a_scheme_of_the_same_name_replaces(void **state) {
    (void)state;
    assert_fails(GS_E_USAGE, "the scheme 'ring' cannot replace 'tree'", gs_sync_replace("tree", &mine));
    assert_fails(GS_E_USAGE, "'rnig'; choose one of:",
                 gs_sync_replace("rnig", &(const gs_sync_scheme){.name = "rnig", .sum = fill_with_7}));
    assert_fails(GS_E_USAGE, "'rnig'; choose one of:", gs_sync_replace("rnig", NULL));
    const gs_sync_scheme *found;
    assert_ok(gs_sync_find("tree", &found));
    assert_ptr_equal(found, &gs_sync_tree);
}

static atomic_int sums;

static gs_status counted_ring(gs_sync *s, float *data, size_t count) {
    sums++;
    return gs_sync_ring.sum(s, data, count);
}

/* A replaced scheme sums the gradients of a real training run, and the run does not change. */
static void training_sums_by_the_replaced_scheme(void **state) {
    (void)state;
    static const gs_sync_scheme counted = {.name = "ring", .what = "a ring that counts", .sum = counted_ring};
    gs_settings settings = gs_test_settings("cpu,cpu");
    settings.sync = "ring";
    gs_result before = gs_test_train(&settings);
    sums = 0;
    assert_ok(gs_sync_replace("ring", &counted));
    gs_result after = gs_test_train(&settings);
    assert_ok(gs_sync_replace("ring", NULL));
    assert_in_range(sums, 2 * GS_TEST_STEPS,
                    2 * GS_TEST_STEPS + 8); /* each worker; and once at each epoch's end */
    assert_same_bits(&before, &after, "a replaced ring");
    gs_result_free(&before);
    gs_result_free(&after);
}

static void schemes_are_timed_by_size(void **state) {
    (void)state;
    gs_test_program_prints(0, "\nring   ", "schemes -n 3 --seconds 0.1");
    gs_test_program_prints(0, "\"scheme\":\"tree\",\"over\":\"gloo\",\"ranks\":2,\"bytes\":16777216,",
                           "schemes -n 2 --over gloo --seconds 0.1 --json");
    gs_test_program_prints(2, "unknown --over 'tcp'; choose one of: threads, shm, gloo",
                           "schemes --over tcp");
    gs_test_program_prints(2, "-n: '1' is not a whole number from 2 to 16", "schemes -n 1");
}

/* ---- operators ---- */

static gs_status relu_of_7(gs_device *d, gs_mem y, gs_mem x, size_t count) {
    (void)x;
    return d->ops->fill(d, y, 7, count);
}

static void put_relu(gs_backend *b) {
    b->relu_forward = relu_of_7;
}

static void put_nothing(gs_backend *b) {
    (void)b;
}

static float relu_of(gs_device *d, float value) {
    gs_mem x;
    float y = 0;
    assert_ok(d->ops->alloc(d, sizeof value, &x));
    assert_ok(d->ops->write(d, x, &value, sizeof value));
    assert_ok(d->ops->relu_forward(d, x, x, 1));
    assert_ok(d->ops->read(d, &y, x, sizeof y));
    d->ops->free(d, x);
    return y;
}

static float relu_of_new_device(float value) {
    gs_device *d;
    assert_ok(gs_device_open("cpu", 1, &d));
    float y = relu_of(d, value);
    gs_device_close(d);
    return y;
}

static void an_operator_is_replaced_for_devices_opened_later(void **state) {
    (void)state;
    gs_device *before;
    assert_ok(gs_device_open("cpu", 1, &before));
    gs_backend_replace(put_relu);
    assert_true(relu_of_new_device(-3) == 7);
    assert_true(relu_of(before, -3) == 0);
    gs_backend_replace(put_nothing); /* begins from the library's own table */
    assert_true(relu_of_new_device(-3) == 0);
    gs_backend_replace(put_relu);
    gs_backend_replace(NULL);
    assert_true(relu_of_new_device(-3) == 0);
    gs_device_close(before);
}

/* ---- hand-ins ---- */

static void write_file(const char *folder, const char *name, size_t bytes) {
    char path[700];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    for (size_t i = 0; i < bytes; i++) fputc(' ', f);
    fclose(f);
}

static void make_folder(const char *folder, const char *name) {
    char path[700];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(mkdir(path, 0700), 0);
}

static void make_link(const char *to, const char *folder, const char *name) {
    char path[700];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(symlink(to, path), 0);
}

static void assert_hand_in(const gs_hand_in *h, const char *student, const char *lab, const char *problem) {
    if (strcmp(h->student, student) != 0 || strcmp(h->lab, lab) != 0 || !strstr(h->problem, problem) ||
        !*problem != !*h->problem)
        fail_msg("%s, lab '%s': '%s'; wanted %s, lab '%s': '%s'", h->student, h->lab, h->problem, student,
                 lab, problem);
}

static void hand_ins_are_found_in_order(void **state) {
    (void)state;
    const char *folder = gs_test_folder();
    make_folder(folder, "bob");
    make_folder(folder, "bob/07");
    write_file(folder, "bob/07/lab.c", 9);
    write_file(folder, "bob/07/notes.txt", 9);
    write_file(folder, "bob/lab-04.cl", 9);
    make_folder(folder, "alice");
    write_file(folder, "alice/lab-06.c", 9);
    make_folder(folder, "alice/11");
    make_link("lab.c", folder, "alice/11/lab.c"); /* to itself */
    make_folder(folder, "carol");
    make_link("../bob/07", folder, "carol/07");
    make_link(".", folder, "carol/08");
    make_folder(folder, "carol/09");
    make_folder(folder, "carol/10");
    make_folder(folder, "carol/10/lab.c");
    make_folder(folder, "dave");
    make_link("bob", folder, "eve");
    write_file(folder, "list.csv", 3);
    gs_hand_ins all = {0};
    assert_ok(gs_hand_ins_find(folder, &all));
    static const struct {
        const char *student, *lab, *problem;
    } wanted[] = {
        {"alice", "11", "is a link, not a file"},
        {"alice", "06", ""},
        {"bob", "07", ""},
        {"bob", "04", ""},
        {"carol", "07", "07 is a link, not a folder"},
        {"carol", "08", "08 is a link, not a folder"},
        {"carol", "09", "no lab.c in the folder 09"},
        {"carol", "10", "is not a file"},
        {"dave", "", "nothing here: wanted NN/lab.c or lab-NN.c"},
        {"eve", "", "is a link, not a folder"},
    };
    int count = sizeof wanted / sizeof *wanted;
    for (int i = 0; i < all.count && i < count; i++)
        assert_hand_in(&all.list[i], wanted[i].student, wanted[i].lab, wanted[i].problem);
    assert_int_equal(all.count, count);
    gs_hand_ins_free(&all);
}

static void a_folder_of_labs_is_one_student(void **state) {
    (void)state;
    char folder[600];
    snprintf(folder, sizeof folder, "%s/", gs_test_folder());
    write_file(folder, "lab-07.c", 9);
    gs_hand_ins all = {0};
    assert_ok(gs_hand_ins_find(folder, &all));
    assert_int_equal(all.count, 1);
    folder[strlen(folder) - 1] = '\0';
    assert_hand_in(&all.list[0], strrchr(folder, '/') + 1, "07", "");
    gs_hand_ins_free(&all);
}

static void without_hand_ins_it_says_so(void **state) {
    (void)state;
    gs_hand_ins all = {0};
    assert_fails(GS_E_FILE, "holds no hand-ins", gs_hand_ins_find(gs_test_folder(), &all));
    assert_fails(GS_E_FILE, "cannot read the folder /nowhere", gs_hand_ins_find("/nowhere", &all));
    gs_hand_ins_free(&all);
    gs_test_program_prints(2, "a folder of hand-ins is required", "grade");
    gs_test_program_prints(1, "cannot read the folder /nowhere", "grade /nowhere");
    gs_test_program_prints(1, "holds no hand-ins", "grade %s", gs_test_folder());
    gs_test_program_prints(1, "cannot read the folder", "grade %s", gs_test_source("README.md"));
}

static void a_lab_that_is_not_there(void **state) {
    (void)state;
    char folder[600];
    snprintf(folder, sizeof folder, "%s/", gs_test_folder());
    write_file(folder, "lab-07.c", 9);
    gs_test_program_prints(2, "--labs 77: unknown lab '77'", "grade %s --labs 77", folder);
    gs_test_program_prints(2, "unknown lab '7'", "grade %s --labs 06,7", folder);
    gs_test_program_prints(2, "unknown lab '*'", "grade %s --labs '*'", folder);
}

static void only_a_small_file_is_copied(void **state) {
    (void)state;
    char folder[600], from[700], to[700];
    snprintf(folder, sizeof folder, "%s", gs_test_folder());
    snprintf(to, sizeof to, "%s/copy", folder);
    snprintf(from, sizeof from, "%s/lab.c", folder);
    write_file(folder, "lab.c", GS_HAND_IN_MOST);
    assert_ok(gs_hand_in_copy(from, to));
    write_file(folder, "lab.c", GS_HAND_IN_MOST + 1);
    assert_fails(GS_E_FILE, "it has 1048577 bytes; a lab has at most 1048576", gs_hand_in_copy(from, to));
    assert_int_equal(truncate(from, (off_t)1 << 40), 0); /* a terabyte of nothing */
    assert_fails(GS_E_FILE, "it has 1099511627776 bytes", gs_hand_in_copy(from, to));
    assert_int_equal(remove(from), 0);
    assert_fails(GS_E_FILE, "No such file", gs_hand_in_copy(from, to));
    assert_int_equal(mkfifo(from, 0600), 0);
    assert_fails(GS_E_FILE, "is not a file", gs_hand_in_copy(from, to)); /* and does not wait */
    assert_int_equal(remove(from), 0);
    make_link("copy", folder, "lab.c");
    assert_fails(GS_E_FILE, "cannot read", gs_hand_in_copy(from, to));
    assert_fails(GS_E_FILE, "is not a file", gs_hand_in_copy(folder, to));
}

/* An old EINTR in errno says nothing of a read that has come to the end. */
static void what_a_command_prints(void **state) {
    (void)state;
    char output[8];
    bool worked = false;
    alarm(20); /* ends the test where it goes on for ever */
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

GS_TESTS(lab, cmocka_unit_test(what_a_command_prints), cmocka_unit_test(a_scheme_is_replaced_by_name),
         cmocka_unit_test(only_a_scheme_of_the_same_name_replaces),
         cmocka_unit_test(training_sums_by_the_replaced_scheme), cmocka_unit_test(schemes_are_timed_by_size),
         cmocka_unit_test(an_operator_is_replaced_for_devices_opened_later),
         cmocka_unit_test(hand_ins_are_found_in_order), cmocka_unit_test(a_folder_of_labs_is_one_student),
         cmocka_unit_test(without_hand_ins_it_says_so), cmocka_unit_test(a_lab_that_is_not_there),
         cmocka_unit_test(only_a_small_file_is_copied))
