/* Where gradsum finds its files: in the build tree, next to it, or installed. */
#include "tests/support/files.h"
#include "tests/support/program.h"

#include <limits.h>
#include <unistd.h>

/* With GS_TEST_PROBE, for copies, this program prints where it finds that file, or why it does not, and exits. */
__attribute__((constructor)) static void probe(void) {
    const char *relative = getenv("GS_TEST_PROBE");
    if (!relative) return;
    char path[PATH_MAX];
    bool found = gs_file_of_gradsum(relative, path, sizeof path) == GS_OK;
    printf("%s", found ? path : gs_message());
    fflush(stdout);
    _exit(0);
}

/* Runs a copy of this program in folder/bin; returns what it found. */
static const char *found_from(const char *folder, const char *bin, const char *relative) {
    static char answer[2000];
    char self[PATH_MAX], command[3 * PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    assert_true(length > 0);
    self[length] = '\0';
    snprintf(command, sizeof command,
             "mkdir -p '%s/%s' && cp '%s' '%s/%s/program' && GS_TEST_PROBE='%s' '%s/%s/program'", folder, bin,
             self, folder, bin, relative, folder, bin);
    FILE *f = popen(command, "r");
    assert_non_null(f);
    answer[fread(answer, 1, sizeof answer - 1, f)] = '\0';
    assert_int_equal(pclose(f), 0);
    return answer;
}

static void make_folders(const char *folder, const char *const *names) {
    for (; *names; names++) {
        const char *command = gs_test_format("mkdir -p '%s/%s'", folder, *names);
        assert_int_equal(system(command), 0);
    }
}

TEST(found_in_the_build_tree) {
    const char *folder = gs_test_folder();
    make_folders(folder, (const char *[]){"src", "own-file", NULL});
    write_text(in_folder(folder, "src/gradsum.h"), "");
    assert_string_equal(found_from(folder, "build", "own-file"), in_folder(folder, "own-file"));
    assert_string_equal(found_from(folder, "build/debug/bin", "own-file"), in_folder(folder, "own-file"));
    assert_string_equal(found_from(folder, "build/asan/lessons/07", "own-file"),
                        in_folder(folder, "own-file"));
    assert_non_null(strstr(found_from(folder, "build/1/2/3/4/too/deep", "own-file"),
                           "cannot find gradsum's own 'own-file'"));
}

/* Tests `make B=DIR` with DIR outside the tree. A dangling link, or one to another tree, is ignored. */
TEST(found_by_the_link_of_a_build_elsewhere) {
    const char *folder = gs_test_folder();
    make_folders(folder,
                 (const char *[]){"tree/src", "tree/own-file", "other/own-file", "a/07", "b", "c", NULL});
    write_text(in_folder(folder, "tree/src/gradsum.h"), "");
    assert_int_equal(symlink(in_folder(folder, "tree"), in_folder(folder, "a/source-tree")), 0);
    assert_int_equal(symlink(in_folder(folder, "gone"), in_folder(folder, "b/source-tree")), 0);
    assert_int_equal(symlink(in_folder(folder, "other"), in_folder(folder, "c/source-tree")), 0);
    assert_string_equal(found_from(folder, "a", "own-file"), in_folder(folder, "a/source-tree/own-file"));
    assert_string_equal(found_from(folder, "a/07", "own-file"), in_folder(folder, "a/source-tree/own-file"));
    assert_non_null(strstr(found_from(folder, "b", "own-file"), "cannot find gradsum's own 'own-file'"));
    assert_non_null(strstr(found_from(folder, "c", "own-file"), "cannot find gradsum's own 'own-file'"));
}

TEST(found_when_installed) {
    const char *folder = gs_test_folder();
    make_folders(folder, (const char *[]){"usr/share/gradsum/own-file", NULL});
    assert_string_equal(found_from(folder, "usr/bin", "own-file"),
                        in_folder(folder, "usr/share/gradsum/own-file"));
}

TEST(other_folders_are_not_ours) {
    const char *folder = gs_test_folder();
    make_folders(folder, (const char *[]){"usr/own-file", "own-file", "usr/share/own-file", NULL});
    const char *answer = found_from(folder, "usr/bin", "own-file");
    assert_has(answer, "cannot find gradsum's own 'own-file'; looked for ",
               in_folder(folder, "usr/src/gradsum.h"), in_folder(folder, "usr/share/gradsum/own-file"),
               "/share/gradsum/own-file");
}

TEST(small_buffer) {
    char path[4];
    assert_fails(GS_E_FILE, "cannot find gradsum's own 'datasets'",
                 gs_file_of_gradsum("datasets", path, sizeof path));
}
