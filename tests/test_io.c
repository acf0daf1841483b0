#include "tests/test.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *in_folder(const char *folder, const char *name) {
    static char path[4][600];
    static int turn;
    turn = (turn + 1) % 4;
    snprintf(path[turn], sizeof *path, "%s/%s", folder, name);
    return path[turn];
}

static void check_holds(const char *path, const char *text) {
    char found[100] = "";
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    found[fread(found, 1, sizeof found - 1, f)] = '\0';
    fclose(f);
    assert_string_equal(found, text);
}

static int entries(const char *folder) {
    int count = 0;
    DIR *d = opendir(folder);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));)
        count += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    closedir(d);
    return count;
}

static void write_text(const char *path, const char *text) {
    gs_file_writer w;
    assert_ok(gs_file_writer_open(path, &w));
    fputs(text, w.file);
    assert_ok(gs_file_writer_commit(&w));
    gs_file_writer_discard(&w); /* harmless after commit */
}

/* ---- files written whole or not at all ---- */

static void writes_and_replaces(void **state) {
    (void)state;
    const char *folder = gs_test_folder(), *path = in_folder(folder, "a");
    write_text(path, "first");
    check_holds(path, "first");
    gs_file_writer w;
    assert_ok(gs_file_writer_open(path, &w));
    fputs("second", w.file);
    fflush(w.file);
    check_holds(path, "first"); /* until commit */
    assert_int_equal(entries(folder), 2);
    assert_ok(gs_file_writer_commit(&w));
    check_holds(path, "second");
    assert_int_equal(entries(folder), 1);

    assert_ok(gs_file_writer_open(path, &w));
    fputs("third", w.file);
    gs_file_writer_discard(&w);
    gs_file_writer_discard(&w);
    check_holds(path, "second");
    assert_int_equal(entries(folder), 1);
}

static void two_writers_of_one_file(void **state) {
    (void)state;
    const char *folder = gs_test_folder(), *path = in_folder(folder, "a");
    gs_file_writer v, w;
    assert_ok(gs_file_writer_open(path, &v));
    assert_ok(gs_file_writer_open(path, &w));
    fputs("v", v.file);
    fputs("w", w.file);
    assert_ok(gs_file_writer_commit(&w));
    check_holds(path, "w");
    assert_ok(gs_file_writer_commit(&v));
    check_holds(path, "v");
    assert_int_equal(entries(folder), 1);
}

static void relative_path(void **state) {
    (void)state;
    char before[PATH_MAX];
    assert_non_null(getcwd(before, sizeof before));
    const char *folder = gs_test_folder();
    assert_int_equal(chdir(folder), 0);
    write_text("a", "here");
    assert_int_equal(chdir(before), 0);
    check_holds(in_folder(folder, "a"), "here");
}

static void mode_follows_the_umask(void **state) {
    (void)state;
    const char *path = in_folder(gs_test_folder(), "a");
    const mode_t masks[] = {022, 077, 002};
    for (int i = 0; i < 3; i++) {
        struct stat s;
        mode_t before = umask(masks[i]);
        write_text(path, "x");
        umask(before);
        assert_int_equal(stat(path, &s), 0);
        assert_int_equal(s.st_mode & 0777, 0666 & ~masks[i]);
    }
}

static void links_stay_links(void **state) {
    (void)state;
    const char *folder = gs_test_folder();
    struct stat s;
    write_text(in_folder(folder, "real"), "old");
    assert_int_equal(symlink("real", in_folder(folder, "link")), 0);
    write_text(in_folder(folder, "link"), "changed");
    check_holds(in_folder(folder, "real"), "changed");
    assert_int_equal(lstat(in_folder(folder, "link"), &s), 0);
    assert_true(S_ISLNK(s.st_mode));
}

static void targets_that_cannot_be(void **state) {
    (void)state;
    const char *folder = gs_test_folder();
    gs_file_writer w;
    assert_fails(GS_E_FILE, "cannot write a file without a name", gs_file_writer_open("", &w));
    assert_fails(GS_E_FILE, "/no/such/file: No such file or directory",
                 gs_file_writer_open(in_folder(folder, "no/such/file"), &w));
    assert_int_equal(mkdir(in_folder(folder, "sub"), 0700), 0);
    assert_fails(GS_E_FILE, "/sub: Is a directory", gs_file_writer_open(in_folder(folder, "sub"), &w));
    assert_fails(GS_E_FILE, "/new/: No such file or directory",
                 gs_file_writer_open(in_folder(folder, "new/"), &w));
    assert_fails(GS_E_FILE, "cannot write /dev/null: it is not a regular file",
                 gs_file_writer_open("/dev/null", &w));
    write_text(in_folder(folder, "file"), "x");
    assert_fails(GS_E_FILE, "/file/below: Not a directory",
                 gs_file_writer_open(in_folder(folder, "file/below"), &w));
    char name[300];
    memset(name, 'n', 255);
    name[255] = '\0';
    assert_fails(GS_E_FILE, "nnn: File name too long", gs_file_writer_open(in_folder(folder, name), &w));
    gs_file_writer_discard(&w); /* harmless after a failed open */
    assert_int_equal(entries(folder), 2);

    /* The folder goes away, or the target becomes a folder, while the file is being written. */
    assert_ok(gs_file_writer_open(in_folder(folder, "late"), &w));
    assert_int_equal(mkdir(in_folder(folder, "late"), 0700), 0);
    assert_fails(GS_E_FILE, "/late: Is a directory", gs_file_writer_commit(&w));
    assert_int_equal(entries(folder), 3);
}

static void read_only_targets(void **state) {
    (void)state;
    const char *folder = gs_test_folder();
    write_text(in_folder(folder, "a"), "kept");
    assert_int_equal(chmod(in_folder(folder, "a"), 0444), 0);
    bool root = geteuid() == 0;
    char above[600];
    snprintf(above, sizeof above, "%s/..", folder);
    assert_int_equal(chmod(folder, root ? 0777 : 0700), 0);
    if (root) assert_int_equal(chmod(above, 0711), 0);
    if (root && seteuid(65534) != 0) skip(); /* root may write everything: be nobody for a moment */

    gs_file_writer w;
    gs_status file = gs_file_writer_open(in_folder(folder, "a"), &w);
    bool file_message = strstr(gs_message(), "/a: Permission denied") != NULL;
    if (root) assert_int_equal(seteuid(0), 0);
    assert_int_equal(chmod(folder, root ? 0755 : 0500), 0);
    if (root) assert_int_equal(seteuid(65534), 0);
    gs_status below = gs_file_writer_open(in_folder(folder, "b"), &w);
    if (root) assert_int_equal(seteuid(0), 0);

    assert_int_equal(file, GS_E_FILE);
    assert_true(file_message);
    assert_fails(GS_E_FILE, "/b: Permission denied", below);
    assert_int_equal(chmod(folder, 0700), 0);
    assert_int_equal(entries(folder), 1);
    check_holds(in_folder(folder, "a"), "kept");
}

/* A limit on the size of files stands for a full disk. Large data goes past stdio's buffer, small data waits
 * in it: the one fails at fwrite, the other at commit. And a third whose failure nobody looks at: commit finds why. */
static void full_disk(void **state) {
    (void)state;
    const char *folder = gs_test_folder(), *path = in_folder(folder, "a");
    write_text(path, "kept");
    enum { FLOATS = 4096 };
    float *big = calloc(FLOATS, sizeof *big);
    assert_non_null(big);

    struct rlimit before, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = 100;
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    gs_status st[3];
    char message[3][300];
    for (int i = 0; i < 2; i++) {
        st[i] = gs_npy_save(path, big, i == 0 ? FLOATS : 1, 1);
        snprintf(message[i], sizeof *message, "%s", gs_message());
    }
    gs_file_writer w;
    st[2] = gs_file_writer_open(path, &w);
    if (st[2] == GS_OK) {
        fwrite(big, sizeof *big, FLOATS, w.file);
        fflush(w.file);
        errno = 0;
        st[2] = gs_file_writer_commit(&w);
    }
    snprintf(message[2], sizeof *message, "%s", gs_message());
    setrlimit(RLIMIT_FSIZE, &before);
    signal(SIGXFSZ, handler);
    free(big);

    for (int i = 0; i < 3; i++) {
        assert_int_equal(st[i], GS_E_FILE);
        assert_non_null(strstr(message[i], "/a: File too large"));
    }
    check_holds(path, "kept");
    assert_int_equal(entries(folder), 1);
}

/* A write that failed and that nobody looked at is found at commit. */
static void unnoticed_failure(void **state) {
    (void)state;
    const char *folder = gs_test_folder(), *path = in_folder(folder, "a");
    write_text(path, "kept");
    gs_file_writer w;
    assert_ok(gs_file_writer_open(path, &w));
    assert_int_equal(fgetc(w.file), EOF); /* the stream is for writing only: this sets its error flag */
    assert_fails(GS_E_FILE, "/a: Input/output error", gs_file_writer_commit(&w));
    check_holds(path, "kept");
    assert_int_equal(entries(folder), 1);
}

/* ---- gradsum's own files ---- */

/* This program, when it is run as a copy in another place: say where the file is, or why not, and end. */
__attribute__((constructor)) static void probe(void) {
    const char *relative = getenv("GS_TEST_PROBE");
    if (!relative) return;
    char path[PATH_MAX];
    bool found = gs_file_of_gradsum(relative, path, sizeof path) == GS_OK;
    printf("%s", found ? path : gs_message());
    fflush(stdout);
    _exit(0);
}

/* Run a copy of this program in folder/bin; what it found. */
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
    char command[2000];
    for (; *names; names++) {
        snprintf(command, sizeof command, "mkdir -p '%s/%s'", folder, *names);
        assert_int_equal(system(command), 0);
    }
}

static void found_in_the_build_tree(void **state) {
    (void)state;
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

static void found_when_installed(void **state) {
    (void)state;
    const char *folder = gs_test_folder();
    make_folders(folder, (const char *[]){"usr/share/gradsum/own-file", NULL});
    assert_string_equal(found_from(folder, "usr/bin", "own-file"),
                        in_folder(folder, "usr/share/gradsum/own-file"));
}

static void other_folders_are_not_ours(void **state) {
    (void)state;
    const char *folder = gs_test_folder();
    make_folders(folder, (const char *[]){"usr/own-file", "own-file", "usr/share/own-file", NULL});
    const char *answer = found_from(folder, "usr/bin", "own-file");
    assert_non_null(strstr(answer, "cannot find gradsum's own 'own-file'; looked for "));
    assert_non_null(strstr(answer, in_folder(folder, "usr/src/gradsum.h")));
    assert_non_null(strstr(answer, in_folder(folder, "usr/share/gradsum/own-file")));
    assert_non_null(strstr(answer, "/share/gradsum/own-file"));
}

static void small_buffer(void **state) {
    (void)state;
    char path[4];
    assert_fails(GS_E_FILE, "longer than 4 bytes", gs_file_of_gradsum("datasets", path, sizeof path));
}

/* ---- SHA-256, npy ---- */

/* FIPS 180-2, appendix B. */
static void sha256_known_answers(void **state) {
    (void)state;
    char hex[65];
    gs_sha256("", 0, hex);
    assert_string_equal(hex, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    gs_sha256("abc", 3, hex);
    assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    gs_sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56, hex);
    assert_string_equal(hex, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

static void npy_bytes(void **state) {
    (void)state;
    const char *path = in_folder(gs_test_folder(), "a.npy");
    const float data[6] = {1, -2, 3.5f, 0, 1e-30f, 6};
    assert_ok(gs_npy_save(path, data, 2, 3));
    unsigned char file[200];
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    assert_int_equal(fread(file, 1, sizeof file, f), 128 + sizeof data);
    fclose(f);
    const char start[] =
        "\x93NUMPY\x01\x00\x76\x00{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), } ";
    assert_memory_equal(file, start, sizeof start - 1);
    for (size_t i = sizeof start - 1; i < 127; i++) assert_int_equal(file[i], ' ');
    assert_int_equal(file[127], '\n');
    assert_memory_equal(file + 128, data, sizeof data);

    assert_ok(gs_npy_save(path, data, 0, 10));
    assert_fails(GS_E_FILE, "/no/a.npy: No such file", gs_npy_save("/no/a.npy", data, 1, 1));
}

GS_TESTS(io, cmocka_unit_test(writes_and_replaces), cmocka_unit_test(two_writers_of_one_file),
         cmocka_unit_test(relative_path), cmocka_unit_test(mode_follows_the_umask),
         cmocka_unit_test(links_stay_links), cmocka_unit_test(targets_that_cannot_be),
         cmocka_unit_test(read_only_targets), cmocka_unit_test(full_disk),
         cmocka_unit_test(unnoticed_failure), cmocka_unit_test(found_in_the_build_tree),
         cmocka_unit_test(found_when_installed), cmocka_unit_test(other_folders_are_not_ours),
         cmocka_unit_test(small_buffer), cmocka_unit_test(sha256_known_answers), cmocka_unit_test(npy_bytes))
