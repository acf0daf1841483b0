/* The user's cache directory and the kernels in it: the cache is used, but never trusted. */
#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>
#include "cl/cl.h"
#include "io/cache.h"
#include "tests/support/files.h"
#include "tests/support/devices.h"
#include "tests/support/program.h"

/* Sets GRADSUM_CACHE or GRADSUM_KERNELS; the end of the test restores it. */
static void set_folder(const char *variable, const char *folder) {
    assert_int_equal(folder ? setenv(variable, folder, 1) : unsetenv(variable), 0);
}

static int forget_folders(void **state) {
    (void)state;
    set_folder("GRADSUM_CACHE", NULL);
    set_folder("GRADSUM_KERNELS", NULL);
    return 0;
}

static size_t read_file(const char *path, char *bytes, size_t room) {
    FILE *f = gs_test_open(path, "rb");
    size_t count = fread(bytes, 1, room, f);
    fclose(f);
    assert_true(count < room);
    return count;
}

/* ---- entries ---- */

static void check_entry(const char *name, const char *want) {
    void *data;
    size_t bytes;
    assert_true(gs_cache_read(name, &data, &bytes));
    assert_int_equal(bytes, strlen(want));
    assert_string_equal(data, want);
    free(data);
}

TEST_AROUND(an_entry_is_what_was_written, NULL, forget_folders) {
    char path[500], other[500];
    void *data;
    size_t bytes;
    const char *folder = gs_test_format("%s/not/yet/there", gs_test_folder());
    set_folder("GRADSUM_CACHE", folder);
    assert_false(gs_cache_read("a.bin", &data, &bytes));
    assert_true(gs_cache_write("a.bin", "one\ntwo\n", 8));
    check_entry("a.bin", "one\ntwo\n");
    assert_true(gs_cache_write("a.bin", "", 0)); /* replaced by an empty entry */
    check_entry("a.bin", "");

    assert_true(gs_cache_write("b.bin", "three", 5));
    assert_true(gs_cache_path("a.bin", path, sizeof path) && gs_cache_path("b.bin", other, sizeof other));
    assert_int_equal(rename(other, path), 0); /* an entry that was written under a different name */
    assert_false(gs_cache_read("a.bin", &data, &bytes));
    assert_null(data);
}

TEST_AROUND(a_damaged_entry_is_known, NULL, forget_folders) {
    char path[500], good[200], bad[201];
    void *data;
    size_t bytes;
    set_folder("GRADSUM_CACHE", gs_test_folder());
    assert_true(gs_cache_write("x", "the data", 8));
    assert_true(gs_cache_path("x", path, sizeof path));
    size_t size = read_file(path, good, sizeof good);
    for (size_t length = 0; length < size; length++) { /* cut off at any byte */
        write_raw(path, good, length);
        assert_false(gs_cache_read("x", &data, &bytes));
    }
    for (size_t i = 0; i < size; i++) { /* flip any bit of any byte */
        memcpy(bad, good, size);
        bad[i] = (char)(bad[i] ^ (1 << i % 8));
        write_raw(path, bad, size);
        assert_false(gs_cache_read("x", &data, &bytes));
    }
    memcpy(bad, good, size);
    bad[size] = '\0';
    write_raw(path, bad, size + 1); /* too long */
    assert_false(gs_cache_read("x", &data, &bytes));
    write_raw(path, good, size);
    check_entry("x", "the data");
}

TEST_AROUND(no_cache_is_no_failure, NULL, forget_folders) {
    void *data;
    size_t bytes;
    char path[100];
    const char *places[] = {"off", "/dev/null/cache", "/proc/cache"};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        set_folder("GRADSUM_CACHE", places[i]);
        assert_false(gs_cache_path("x", path, sizeof path));
        assert_false(gs_cache_write("x", "y", 1));
        assert_false(gs_cache_read("x", &data, &bytes));
        assert_int_equal(gs_cache_lock(), -1);
        gs_cache_unlock(-1);
    }
}

/* ---- kernels ---- */

/* The result of fill(7) on a newly opened device. */
static float filled(void) {
    gs_device *d;
    gs_mem m;
    float got;
    assert_ok(gs_device_open("cl", 0, &d));
    assert_ok(d->ops->alloc(d, sizeof got, &m));
    assert_ok(d->ops->fill(d, m, 7, 1));
    assert_ok(d->ops->read(d, &got, m, sizeof got));
    d->ops->free(d, m);
    gs_device_close(d);
    return got;
}

/* Makes a kernel folder with only this memory.cl and the program that includes it. */
static void write_memory_cl(const char *folder, const char *source, size_t bytes) {
    static const char program[] = "#include \"memory.cl\"\n";
    const char *path = gs_test_format("%s/training.cl", folder);
    write_raw(path, program, sizeof program - 1);
    path = gs_test_format("%s/memory.cl", folder);
    write_raw(path, source, bytes);
}

/* Makes a folder whose memory.cl only writes value + `more`. */
static void make_kernels(char *folder, size_t size, int more) {
    char source[400];
    snprintf(folder, size, "%s", gs_test_folder());
    int n = snprintf(source, sizeof source,
                     "__kernel void fill(__global float *x, ulong x_at, float value, ulong count) {\n"
                     "    size_t i = get_global_id(0);\n"
                     "    if (i < count) x[x_at + i] = value + %d;\n}\n",
                     more);
    write_memory_cl(folder, source, (size_t)n);
}

/* The names of the entries; returns their number. */
static int kernels_in(char names[][300], int most) {
    char folder[500];
    int count = 0;
    assert_true(gs_cache_path("", folder, sizeof folder));
    DIR *d = opendir(folder);
    assert_non_null(d);
    for (struct dirent *e = readdir(d); e; e = readdir(d)) {
        if (!strstr(e->d_name, ".bin")) continue;
        assert_true(count < most);
        snprintf(names[count++], 300, "%s", e->d_name);
    }
    closedir(d);
    return count;
}

TEST_AROUND(kernels_are_kept, NULL, forget_folders) {
    gs_test_need_opencl();
    char plain[400], other[400], names[4][300], first[300];
    void *data;
    size_t bytes;
    make_kernels(plain, sizeof plain, 0);
    make_kernels(other, sizeof other, 1);
    set_folder("GRADSUM_CACHE", gs_test_folder());
    set_folder("GRADSUM_KERNELS", plain);
    assert_true(filled() == 7);
    assert_int_equal(kernels_in(names, 4), 1);
    strcpy(first, names[0]);
    assert_true(filled() == 7);
    assert_int_equal(kernels_in(names, 4), 1);

    set_folder("GRADSUM_KERNELS", other); /* a different source gets a separate entry */
    assert_true(filled() == 8);
    assert_int_equal(kernels_in(names, 4), 2);
    const char *second = names[strcmp(names[0], first) == 0];

    /* store the second binary under the first one's name: if it is used, the first acts like the second */
    assert_true(gs_cache_read(second, &data, &bytes));
    assert_true(gs_cache_write(first, data, bytes));
    free(data);
    set_folder("GRADSUM_KERNELS", plain);
    assert_true(filled() == 8);
}

TEST_AROUND(damaged_kernels_are_built_anew, NULL, forget_folders) {
    gs_test_need_opencl();
    char kernels[400], names[4][300], path[1000];
    void *data;
    size_t bytes;
    make_kernels(kernels, sizeof kernels, 0);
    set_folder("GRADSUM_CACHE", gs_test_folder());
    set_folder("GRADSUM_KERNELS", kernels);
    assert_true(filled() == 7);
    assert_int_equal(kernels_in(names, 4), 1);
    assert_true(gs_cache_path(names[0], path, sizeof path));
    for (int damage = 0; damage < 3; damage++) {
        if (damage == 0) assert_int_equal(truncate(path, 1000), 0);
        if (damage == 1) assert_int_equal(truncate(path, 0), 0);
        if (damage == 2) assert_true(gs_cache_write(names[0], "no binary", 9)); /* the driver refuses it */
        assert_true(filled() == 7);
        assert_true(gs_cache_read(names[0], &data, &bytes));
        assert_true(bytes > 1000);
        free(data);
    }
    set_folder("GRADSUM_CACHE", "/dev/null/cache");
    assert_true(filled() == 7);
}

TEST(processes_share_the_cache) {
    gs_test_need_opencl();
    char *output;
    const char *pocl = gs_test_folder();
    const char *cache = gs_test_folder();
    /* both start with an empty cache, and share PoCL's own cache */
    int status =
        gs_test_shell(&output,
                      "export POCL_CACHE_DIR=%s GRADSUM_CACHE=%s\n"
                      "for i in 1 2; do\n"
                      "  %s/gradsum train --model softmax --steps 1 --device cl >/dev/null & p=\"$p $!\"\n"
                      "done\n"
                      "for i in $p; do wait $i || exit 1; done",
                      pocl, cache, GS_BUILD_DIR);
    if (status != 0) print_error("%s\n", output);
    assert_int_equal(status, 0);
    assert_string_equal(output, "");
}

/* If the folder cannot be written to, or is full, PoCL gets a temporary folder, which is removed at the end. */
TEST(pocl_gets_a_folder_that_it_can_write_to) {
    gs_test_need_opencl();
    static const char *const places[] = {"HOME=/dev/null", "POCL_CACHE_DIR=$TMPDIR/full"};
    char *output;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        bool full = i == 1;
        const char *tmp = gs_test_folder();
        const char *left = gs_test_format("%s/gradsum-pocl-*", tmp);
        int status = gs_test_shell(
            &output,
            "unset POCL_CACHE_DIR XDG_CACHE_HOME; export TMPDIR=%s; cd $TMPDIR; mkdir full; %s sh -c '%s"
            "env %s %s/gradsum train --model softmax --steps 1 --devices cl'; s=$?; ls -d %s; exit $s",
            tmp, full ? "unshare -rm" : "",
            full ? "mount -t tmpfs -o size=64k x $TMPDIR/full || exit 77\n" : "", places[i], GS_BUILD_DIR,
            left);
        if (status == 77 || (full && strstr(output, "unshare")))
            print_message("a full folder is not tested: no file system can be mounted here\n");
        else if (status != 0 || !strstr(output, "weights  sha256") || !strstr(output, "No such file"))
            fail_msg("%s: exit status %d: %s", places[i], status, output);
    }
    output = gs_test_shell_output(1, "POCL_CACHE_DIR= TMPDIR=/dev/null %s/gradsum train --device cl",
                                  GS_BUILD_DIR);
    assert_has(output, "PoCL needs a folder for compiled kernels with 8 MB free");
}

/* Each open device has its own number, and so its own kernels on PoCL 5 (cl/pocl.c). */
TEST(open_devices_have_numbers) {
    gs_test_need_opencl();
    gs_device *d[3];
    char option[30];
    for (int i = 0; i < 3; i++) assert_ok(gs_device_open("cl", 0, &d[i]));
    const int first = gs_cl_of(d[0])->number, second = gs_cl_of(d[1])->number;
    assert_true(first != second && second != gs_cl_of(d[2])->number && first != gs_cl_of(d[2])->number);
    gs_device_close(d[1]);
    assert_ok(gs_device_open("cl", 0, &d[1]));
    assert_int_equal(gs_cl_of(d[1])->number, second);
    for (int i = 0; i < 3; i++) gs_device_close(d[i]);
    gs_cl_copy_option("a CPU, Portable Computing Language, OpenCL 3.0 PoCL 5.0+debian", 2, option,
                      sizeof option);
    assert_string_equal(option, " -D GS_COPY=2");
    gs_cl_copy_option("a CPU, Portable Computing Language, OpenCL 3.0 PoCL 5.0+debian", 0, option,
                      sizeof option);
    assert_string_equal(option, "");
    gs_cl_copy_option("a CPU, Portable Computing Language, OpenCL 3.0 PoCL 3.1+debian", 2, option,
                      sizeof option);
    assert_string_equal(option, "");
}
