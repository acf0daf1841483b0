#include "core/text.h"
#include "data/idx.h"
#include "io/cache.h"
#include "io/npy.h"
#include "tests/support/files.h"
#include "tests/support/program.h"

#include <errno.h>
#include <limits.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- text from files on a terminal ---- */

TEST(control_characters_become_text) {
    static const char *const cases[][2] = {
        {"caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80", "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"},
        {"\033[2J\a\r\n\t\177", "\\x1b[2J\\x07\\x0d\\n\\t\\x7f"},
        {"\xc2\x9b"
         "1m",
         "\\xc2\\x9b1m"},
        {"\xe2\x80\xaegpj", "\\xe2\\x80\\xaegpj"},
        {"\xff\xc3", "\\xff\\xc3"},
        {"\xc0\x9b \xed\xa0\x80", "\\xc0\\x9b \\xed\\xa0\\x80"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_string_equal(gs_printable(cases[i][0]), cases[i][1]);
    char text[8];
    assert_string_equal(gs_printable_into(text, sizeof text, "abcdef\xc3\xa9", ""), "abcdef");
    gs_fail(GS_E_FILE, "a\nb\tc\033[1m");
    assert_string_equal(gs_message(), "a\nb\tc\\x1b[1m");
}

/* ---- reading files ---- */

/* Opening a FIFO would block until its other end is opened. Every reader rejects anything but a regular file first. */
TEST(pipes_do_not_keep_us_waiting) {
    const char *folder = gs_test_folder(), *pipe = in_folder(folder, "pipe"),
               *file = in_folder(folder, "file");
    int fd;
    uint64_t size;
    char *text;
    size_t bytes;
    void *data;
    gs_weights_info saved;
    assert_int_equal(mkfifo(pipe, 0600), 0);
    alarm(200); /* ends the test if a reader blocks */
    assert_fails(GS_E_FILE, "pipe: it is not a regular file", gs_file_open(pipe, &fd, &size));
    assert_int_equal(errno, EINVAL);
    assert_fails(GS_E_FILE, "/dev/tty", gs_file_open("/dev/tty", &fd, &size));
    assert_fails(GS_E_FILE, "Is a directory", gs_file_open(folder, &fd, &size));
    assert_fails(GS_E_FILE, "No such file", gs_file_open(file, &fd, &size));
    assert_int_equal(errno, ENOENT);
    write_text(file, "four");
    assert_ok(gs_file_open(file, &fd, &size));
    assert_int_equal(size, 4);
    assert_int_equal(close(fd), 0);
    assert_fails(GS_E_FILE, "has 4 bytes; at most 3 can be read", gs_file_read(file, 3, &text, &bytes));
    assert_ok(gs_file_read(file, 4, &text, &bytes));
    assert_string_equal(text, "four");
    free(text);

    assert_fails(GS_E_FILE, "it is not a regular file", gs_safetensors_read_info(pipe, &saved));
    setenv("GRADSUM_CACHE", folder, 1);
    assert_false(gs_cache_read("pipe", &data, &bytes));
    unsetenv("GRADSUM_CACHE");
    alarm(0);
    assert_shell_prints(1, "it is not a regular file",
                        "cd %s && for NAME in memory training; do mkfifo $NAME.cl; done; GRADSUM_KERNELS=. "
                        "timeout 200 %s/gradsum train --device cl --model softmax --steps 1",
                        folder, GS_BUILD_DIR);
    assert_prints(1, "pipe: it is not a regular file", "train --load %s", pipe);
}

/* ---- files written whole or not at all ---- */

TEST(writes_and_replaces) {
    const char *folder = gs_test_folder(), *path = in_folder(folder, "a");
    write_text(path, "first");
    check_holds(path, "first");
    gs_file_writer w;
    assert_ok(gs_file_writer_open(path, &w));
    fputs("second", w.file);
    fflush(w.file);
    check_holds(path, "first"); /* the old content remains until commit */
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

TEST(two_writers_of_one_file) {
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

TEST(relative_path) {
    char before[PATH_MAX];
    assert_non_null(getcwd(before, sizeof before));
    const char *folder = gs_test_folder();
    assert_int_equal(chdir(folder), 0);
    write_text("a", "here");
    assert_int_equal(chdir(before), 0);
    check_holds(in_folder(folder, "a"), "here");
}

TEST(mode_follows_the_umask) {
    const char *path = in_folder(gs_test_folder(), "a");
    const mode_t masks[] = {022, 077, 002};
    for (size_t i = 0; i < sizeof masks / sizeof *masks; i++) {
        struct stat s;
        mode_t before = umask(masks[i]);
        write_text(path, "x");
        umask(before);
        assert_int_equal(stat(path, &s), 0);
        assert_int_equal(s.st_mode & 0777, 0666 & ~masks[i]);
        assert_int_equal(unlink(path), 0); /* a replaced file keeps its mode: test_write.c */
    }
}

TEST(links_stay_links) {
    const char *folder = gs_test_folder();
    struct stat s;
    write_text(in_folder(folder, "real"), "old");
    assert_int_equal(symlink("real", in_folder(folder, "link")), 0);
    write_text(in_folder(folder, "link"), "changed");
    check_holds(in_folder(folder, "real"), "changed");
    assert_int_equal(lstat(in_folder(folder, "link"), &s), 0);
    assert_true(S_ISLNK(s.st_mode));
}

TEST(targets_that_cannot_be) {
    const char *folder = gs_test_folder();
    gs_file_writer w;
    assert_fails(GS_E_FILE, "cannot write a file whose name is empty", gs_file_writer_open("", &w));
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
    gs_file_writer_discard(&w); /* discard is harmless after a failed open */
    assert_int_equal(entries(folder), 2);

    /* the folder disappears, or the target becomes a folder, while the file is being written */
    assert_ok(gs_file_writer_open(in_folder(folder, "late"), &w));
    assert_int_equal(mkdir(in_folder(folder, "late"), 0700), 0);
    assert_fails(GS_E_FILE, "/late: Is a directory", gs_file_writer_commit(&w));
    assert_int_equal(entries(folder), 3);
}

TEST(read_only_targets) {
    const char *folder = gs_test_folder();
    write_text(in_folder(folder, "a"), "kept");
    assert_int_equal(chmod(in_folder(folder, "a"), 0444), 0);
    bool root = geteuid() == 0;
    const char *above = gs_test_format("%s/..", folder);
    assert_int_equal(chmod(folder, root ? 0777 : 0700), 0);
    if (root) assert_int_equal(chmod(above, 0711), 0);
    if (root && seteuid(65534) != 0) /* root may write everything, so drop its rights briefly */
        skip_because("root may write everything, and cannot become another user here");

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

/* A file size limit simulates a full disk. Large data bypass stdio's buffer and fail at fwrite; small data wait in the
 * buffer and fail at commit. If the caller ignores a failed write, commit reports it. */
TEST(full_disk) {
    const char *folder = gs_test_folder(), *path = in_folder(folder, "a");
    write_text(path, "kept");
    enum { FLOATS = 4096 };
    float *big = gs_test_calloc(FLOATS, sizeof *big);

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

    for (int i = 0; i < 3; i++) {
        assert_int_equal(st[i], GS_E_FILE);
        assert_non_null(strstr(message[i], "/a: File too large"));
    }
    check_holds(path, "kept");
    assert_int_equal(entries(folder), 1);
}

/* commit detects an earlier write error that the caller ignored. */
TEST(unnoticed_failure) {
    const char *folder = gs_test_folder(), *path = in_folder(folder, "a");
    write_text(path, "kept");
    gs_file_writer w;
    assert_ok(gs_file_writer_open(path, &w));
    assert_int_equal(fgetc(w.file), EOF); /* the stream is write-only: this sets its error flag */
    assert_fails(GS_E_FILE, "/a: Input/output error", gs_file_writer_commit(&w));
    check_holds(path, "kept");
    assert_int_equal(entries(folder), 1);
}

/* ---- SHA-256, npy ---- */

/* FIPS 180-2, appendix B. */
TEST(sha256_known_answers) {
    char hex[65];
    gs_sha256("", 0, hex);
    assert_string_equal(hex, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    gs_sha256("abc", 3, hex);
    assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    gs_sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56, hex);
    assert_string_equal(hex, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

TEST(npy_bytes) {
    const char *path = in_folder(gs_test_folder(), "a.npy");
    const float data[6] = {1, -2, 3.5f, 0, 1e-30f, 6};
    assert_ok(gs_npy_save(path, data, 2, 3));
    unsigned char file[200];
    assert_int_equal(read_raw(path, file, sizeof file), 128 + sizeof data);
    const char start[] =
        "\x93NUMPY\x01\x00\x76\x00{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), } ";
    assert_memory_equal(file, start, sizeof start - 1);
    for (size_t i = sizeof start - 1; i < 127; i++) assert_int_equal(file[i], ' ');
    assert_int_equal(file[127], '\n');
    assert_memory_equal(file + 128, data, sizeof data);

    assert_ok(gs_npy_save(path, data, 0, 10));
    assert_fails(GS_E_FILE, "/no/a.npy: No such file", gs_npy_save("/no/a.npy", data, 1, 1));
}

/* ---- files that are not what their names say ---- */

static const char POINTER[] =
    "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22\n"
    "size 548105171\n",
                  PAGE[] = "\n<!DOCTYPE html>\n<html lang=\"en\"><head><title>404</title></head></html>\n",
                  TORCH[] = "PK\3\4\0\0\10\10\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\12\0\30\0w/data.pklFB",
                  NPZ[] = "PK\3\4\55\0\0\0\0\0\0\0\41\0\257\106\224\147\0\0\0\0\0\0\0\0\5\0\24\0x.npy\1",
                  OLD[] = "\x80\2\x8a\nl\xfc\x9c\x46\xf9 j\xa8P\x19.\x80\2M\xe9\3.";

typedef gs_status reader(const char *path);

static gs_status read_weights(const char *path) {
    gs_weights_info saved;
    const gs_status status = gs_safetensors_read_info(path, &saved);
    gs_weights_info_free(&saved);
    return status;
}

static gs_status read_npy(const char *path) {
    gs_npy a;
    return gs_npy_load(path, &a);
}

static gs_status read_idx(const char *path) {
    gs_idx a;
    return gs_idx_load(path, 3, &a);
}

static gs_status read_a_text(const char *path) {
    gs_dataset *d;
    const char *where = gs_test_format("text:%s", path);
    return gs_dataset_load(where, GS_TRAIN, &d);
}

/* Every reader reports what the file really is and where to get the right one. */
TEST(files_that_are_others) {
    const struct {
        const char *bytes, *what;
        size_t count;
    } files[] = {
        {POINTER, "is a Git LFS pointer, not ", sizeof POINTER - 1},
        {PAGE, "is an HTML page, not ", sizeof PAGE - 1},
        {TORCH, "is a PyTorch checkpoint, a zip archive of pickles; wanted ", sizeof TORCH - 1},
        {NPZ, "is an archive of NumPy (.npz); wanted ", sizeof NPZ - 1},
        {OLD, "is a pickle of Python; wanted ", sizeof OLD - 1},
    };
    const struct {
        const char *name, *wanted;
        reader *read;
    } readers[] = {
        {"w.safetensors", "a safetensors file", read_weights},
        {"a.npy", "one array, as numpy.save writes it", read_npy},
        {"train-images-idx3-ubyte.gz", "an IDX file", read_idx},
        {"t.txt", "text", read_a_text},
    };
    const char *folder = gs_test_folder();
    for (size_t r = 0; r < sizeof readers / sizeof *readers; r++)
        for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
            const char *path = in_folder(folder, readers[r].name);
            write_raw(path, files[i].bytes, files[i].count);
            assert_fails(GS_E_FORMAT, files[i].what, readers[r].read(path));
            assert_non_null(strstr(gs_message(), readers[r].wanted));
            assert_non_null(strstr(gs_message(), readers[r].name));
            if (i == 0) assert_non_null(strstr(gs_message(), "git lfs pull"));
        }
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        gs_bpe *b;
        write_raw(in_folder(folder, "vocab.json"), files[i].bytes, files[i].count);
        write_text(in_folder(folder, "merges.txt"), "a b\n");
        assert_fails(GS_E_FORMAT, files[i].what, gs_bpe_load(folder, &b));
        assert_non_null(strstr(gs_message(), "vocab.json"));
    }
}

TEST(a_page_to_train_on) {
    const char *path = in_folder(gs_test_folder(), "page.html");
    write_times(path, PAGE, 40);
    const char *where = gs_test_format("text:%s", path);
    gs_test_load(where, GS_TRAIN);
}
