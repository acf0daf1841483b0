/* CIFAR-10 and CIFAR-100: small sets made up here, in folders and in archives that the system's tar has made. */
#include "core/text.h"
#include "tests/files.h"
#include "tests/pictures.h"
#include "tests/program.h"

#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

enum { PIXELS = 3072, TEN = 1 + PIXELS, HUNDRED = 2 + PIXELS };

/* Pixel p of sample `id`. */
static unsigned char pixel(int id, int p) {
    return (unsigned char)(id * 31 + p * 7 + p / 1024);
}

/* A file of `count` records; sample i has id first + i, and the labels that follow from it. */
static void write_records(const char *folder, const char *name, int first, int count, bool hundred) {
    FILE *f = fopen(in_folder(folder, name), "wb");
    assert_non_null(f);
    for (int i = first; i < first + count; i++) {
        if (hundred) fputc(i % 20, f);
        fputc(hundred ? (i + 90) % 100 : i % 10, f);
        for (int p = 0; p < PIXELS; p++) fputc(pixel(i, p), f);
    }
    assert_int_equal(fclose(f), 0);
}

/* 5 x 2 samples to train on, 3 to test. */
static void write_ten(const char *folder) {
    for (int i = 0; i < 5; i++) {
        const char *name = gs_test_format("data_batch_%d.bin", i + 1);
        write_records(folder, name, 2 * i, 2, false);
    }
    write_records(folder, "test_batch.bin", 20, 3, false);
}

static void write_hundred(const char *folder) {
    write_records(folder, "train.bin", 0, 12, true);
    write_records(folder, "test.bin", 7, 2, true);
}

static void check(const char *where, gs_split split, gs_labels labels, int first, int count, bool hundred) {
    gs_dataset *d;
    assert_ok(gs_dataset_load_labels(where, split, labels, &d));
    assert_int_equal(d->count, count);
    assert_true(gs_shape_same(d->shape, (gs_shape){3, 32, 32, 0}));
    int classes = 0;
    for (int i = 0; i < count; i++) {
        const int id = first + i;
        const int label = labels == GS_LABELS_COARSE ? id % 20 : hundred ? (id + 90) % 100 : id % 10;
        assert_int_equal(d->labels[i], label);
        if (label >= classes) classes = label + 1;
        for (int p = 0; p < PIXELS; p++) assert_int_equal(d->images[i * PIXELS + p], pixel(id, p));
    }
    assert_int_equal(d->classes, classes);
    assert_non_null(
        strstr(d->kind, hundred ? "CIFAR-100's format, other images" : "CIFAR-10's format, other"));
    gs_dataset_free(d);
}

static void check_ten(const char *where) {
    check(where, GS_TRAIN, GS_LABELS_FINE, 0, 10, false);
    check(where, GS_TEST, GS_LABELS_FINE, 20, 3, false);
}

static void check_hundred(const char *where) {
    check(where, GS_TRAIN, GS_LABELS_FINE, 0, 12, true);
    check(where, GS_TRAIN, GS_LABELS_COARSE, 0, 12, true);
    check(where, GS_TEST, GS_LABELS_COARSE, 7, 2, true);
}

TEST(folders) {
    gs_dataset *d;
    const char *folder = gs_test_folder();
    write_ten(folder);
    check_ten(folder);
    assert_fails(GS_E_USAGE,
                 "is CIFAR-10, which has one label for each image: only CIFAR-100 has coarse labels",
                 gs_dataset_load_labels(folder, GS_TRAIN, GS_LABELS_COARSE, &d));
    assert_fails(GS_E_USAGE, "fashion-mnist-small has one label for each image",
                 gs_dataset_load_labels("fashion-mnist-small", GS_TRAIN, GS_LABELS_COARSE, &d));
    const char *above = gs_test_folder();
    assert_int_equal(mkdir(in_folder(above, "cifar-100-binary"), 0700), 0);
    write_hundred(in_folder(above, "cifar-100-binary"));
    check_hundred(above);
    check_hundred(in_folder(above, "cifar-100-binary"));
}

static void assert_names(const char *where, gs_labels labels, int count, const char *third) {
    gs_dataset *d;
    assert_ok(gs_dataset_load_labels(where, GS_TEST, labels, &d));
    assert_int_equal(d->names.count, count);
    if (count) assert_string_equal(d->names.name[2], third);
    gs_dataset_free(d);
}

/* The classes' names: a line for each; fewer are none. */
static void check_names(const char *folder) {
    const char *ten = in_folder(folder, "cifar-10-batches-bin"),
               *hundred = in_folder(folder, "cifar-100-binary");
    char fine[800] = "", coarse[800] = "";
    for (int i = 0; i < 100; i++) gs_append(fine, sizeof fine, "fine_%d\n", i);
    for (int i = 0; i < 20; i++) gs_append(coarse, sizeof coarse, "c %d\r\n", i);
    assert_names(ten, GS_LABELS_FINE, 0, NULL); /* there is only one line */
    assert_names(hundred, GS_LABELS_FINE, 0, NULL);
    write_bytes(ten, "batches.meta.txt", "a\nb\nc\nd\ne\nf\ng\nh\ni\nj", 19);
    write_bytes(hundred, "fine_label_names.txt", fine, strlen(fine));
    write_bytes(hundred, "coarse_label_names.txt", coarse, strlen(coarse));
    assert_names(ten, GS_LABELS_FINE, 10, "c");
    assert_names(hundred, GS_LABELS_FINE, 100, "fine_2");
    assert_names(hundred, GS_LABELS_COARSE, 20, "c 2");
    assert_int_equal(
        gs_test_shell(NULL, "cd %s && tar -czf %s/n.tar.gz *10-batches-bin && tar -cf %s/n.tar *100-bin*",
                      folder, folder, folder),
        0);
    assert_names(in_folder(folder, "n.tar.gz"), GS_LABELS_FINE, 10, "c");
    assert_names(in_folder(folder, "n.tar"), GS_LABELS_FINE, 100, "fine_2");
    assert_names(in_folder(folder, "n.tar"), GS_LABELS_COARSE, 20, "c 2");
}

/* As the sets are published, but in every format that tar writes. */
TEST(archives) {
    static const char *const formats[] = {"v7", "oldgnu", "gnu", "ustar", "posix"};
    const char *folder = gs_test_folder();
    char path[600];
    assert_int_equal(mkdir(in_folder(folder, "cifar-10-batches-bin"), 0700), 0);
    assert_int_equal(mkdir(in_folder(folder, "cifar-100-binary"), 0700), 0);
    write_ten(in_folder(folder, "cifar-10-batches-bin"));
    write_hundred(in_folder(folder, "cifar-100-binary"));
    write_text(in_folder(folder, "cifar-10-batches-bin/batches.meta.txt"), "airplane\n");
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        const char *to = gs_test_folder();
        assert_int_equal(
            gs_test_shell(NULL,
                          "cd %s && tar --format=%s -czf %s/cifar-10-binary.tar.gz "
                          "cifar-10-batches-bin && tar --format=%s -cf %s/x.tar cifar-100-binary",
                          folder, formats[i], to, formats[i], to),
            0);
        check_ten(to);
        snprintf(path, sizeof path, "%s/cifar-10-binary.tar.gz", to);
        check_ten(path);
        snprintf(path, sizeof path, "%s/x.tar", to);
        check_hundred(path);
    }
    check_names(folder);
    const char *both = gs_test_folder();
    gs_dataset *d;
    assert_int_equal(gs_test_shell(NULL, "cd %s && tar -cf %s/both.tar cifar-10-batches-bin cifar-100-binary",
                                   folder, both),
                     0);
    assert_fails(GS_E_FORMAT, "has files of CIFAR-10 and of CIFAR-100; wanted one set",
                 gs_dataset_load(in_folder(both, "both.tar"), GS_TRAIN, &d));
    assert_int_equal(gs_test_shell(NULL, "cd %s && tar -cf %s/none.tar cifar-10-batches-bin/batches.meta.txt",
                                   folder, both),
                     0);
    assert_fails(GS_E_FORMAT, "has no file of CIFAR-10 or CIFAR-100, such as data_batch_1.bin or train.bin",
                 gs_dataset_load(in_folder(both, "none.tar"), GS_TRAIN, &d));
    assert_int_equal(gs_test_shell(NULL,
                                   "cd %s && rm */data_batch_3.bin && tar -cf %s/less.tar *10-batches-bin",
                                   folder, both),
                     0);
    assert_fails(GS_E_FORMAT, "less.tar has no data_batch_3.bin, one of the files of CIFAR-10",
                 gs_dataset_load(in_folder(both, "less.tar"), GS_TRAIN, &d));
    check(in_folder(both, "less.tar"), GS_TEST, GS_LABELS_FINE, 20, 3, false);
}

/* An archive that ends early, at any of its bytes, or has a wrong one, is never taken for data. */
TEST(damaged_archives) {
    static unsigned char bytes[1 << 16];
    const char *folder = gs_test_folder(), *path = in_folder(folder, "c.tar");
    gs_dataset *d;
    write_hundred(folder);
    assert_int_equal(truncate(in_folder(folder, "train.bin"), HUNDRED), 0);
    assert_int_equal(gs_test_shell(NULL, "cd %s && tar -cf c.tar train.bin", folder), 0);
    const size_t size = read_raw(path, bytes, sizeof bytes);
    const size_t end = 512 + (HUNDRED + 511) / 512 * 512 + 512; /* the header, the file, a block of zeros */
    assert_true(size >= end && size < sizeof bytes);
    for (size_t cut = 0; cut <= end; cut += cut < 600 ? 1 : 97) {
        write_raw(path, bytes, cut);
        gs_status status = gs_dataset_load(path, GS_TRAIN, &d);
        if (cut == end ? status != GS_OK : status != GS_E_FORMAT)
            fail_msg("cut at %zu: %s", cut, gs_message());
        if (status == GS_OK) gs_dataset_free(d);
    }
    for (size_t at = 0; at < 512; at++) { /* any byte of a header is in its sum */
        bytes[at] ^= 1;
        write_raw(path, bytes, size);
        bytes[at] ^= 1;
        if (at >= 148 && at < 156) continue; /* the sum itself may end in a space or in a zero */
        assert_fails(GS_E_FORMAT, "c.tar: a block is no header of a tar archive: its checksum is wrong",
                     gs_dataset_load(path, GS_TRAIN, &d));
    }
}

/* A header with this size and the right sum. */
static void write_header(FILE *f, const char *name, const char *size) {
    unsigned char header[512] = {0};
    unsigned sum = 0;
    snprintf((char *)header, 100, "%s", name);
    memcpy(header + 124, size, strlen(size));
    header[156] = '0';
    memset(header + 148, ' ', 8);
    for (int i = 0; i < 512; i++) sum += header[i];
    snprintf((char *)header + 148, 8, "%06o", sum);
    assert_int_equal(fwrite(header, 1, 512, f), 512);
}

/* What promises more than it holds asks for no memory, and a small archive of zeros does not keep us busy. */
TEST(bombs) {
    static const char *const bad[][2] = {
        {"77777777777", "train.bin has 8589934591 bytes; at most 2147483647 are allowed"},
        {"17777777777", "is truncated: it has 512 bytes; wanted 2147484159 (folder/train.bin)"},
        {"9", "train.bin has no size that can be read"},
        {"", "train.bin has no size"},
    };
    const char *folder = gs_test_folder(), *path = in_folder(folder, "x.tar");
    gs_dataset *d;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        FILE *f = fopen(path, "wb");
        assert_non_null(f);
        write_header(f, "folder/train.bin", bad[i][0]);
        assert_int_equal(fclose(f), 0);
        gs_status status = gs_dataset_load(path, GS_TRAIN, &d);
        if (status != GS_E_FORMAT || !strstr(gs_message(), bad[i][1]))
            fail_msg("'%s': wanted '%s', got: %s", bad[i][0], bad[i][1], gs_message());
    }
    FILE *f = fopen(path, "wb");
    for (int i = 0; i < 4; i++) write_header(f, "other", "00000000000");
    for (int i = 0; i < (1 << 20) + 4096; i++) fputc(0, f);
    assert_int_equal(fclose(f), 0);
    assert_fails(GS_E_FORMAT, "has more than 1048576 bytes behind the end of its archive",
                 gs_dataset_load(path, GS_TRAIN, &d));
}

TEST(bad_records) {
    gs_dataset *d;
    const char *folder = gs_test_folder(), *path = in_folder(folder, "data_batch_2.bin");
    write_ten(folder);
    assert_int_equal(truncate(path, 2 * TEN - 1), 0);
    assert_fails(
        GS_E_FORMAT,
        "data_batch_2.bin has 6145 bytes; wanted a multiple of the 3073 that a sample of CIFAR-10 has",
        gs_dataset_load(folder, GS_TRAIN, &d));
    assert_int_equal(truncate(path, 0), 0);
    assert_fails(GS_E_FORMAT, "data_batch_2.bin has 0 bytes", gs_dataset_load(folder, GS_TRAIN, &d));
    write_records(folder, "data_batch_2.bin", 2, 2, false);
    set_byte(path, TEN, 10);
    assert_fails(GS_E_FORMAT, ": the label of sample 1 in data_batch_2.bin is 10; wanted 0 to 9",
                 gs_dataset_load(folder, GS_TRAIN, &d));
    check(folder, GS_TEST, GS_LABELS_FINE, 20, 3, false);
    unlink(path);
    assert_fails(GS_E_FILE, "has no data_batch_2.bin, one of the files of CIFAR-10",
                 gs_dataset_load(folder, GS_TRAIN, &d));
    const char *hundred = gs_test_folder();
    for (int i = 0; i < 2; i++) {
        write_hundred(hundred);
        set_byte(in_folder(hundred, "test.bin"), HUNDRED + i, i ? 100 : 20);
        assert_fails(GS_E_FORMAT,
                     i ? ": the fine label of sample 1 in test.bin is 100; wanted 0 to 99"
                       : ": the coarse label of sample 1 in test.bin is 20; wanted 0 to 19",
                     gs_dataset_load(hundred, GS_TEST, &d));
    }
    write_text(in_folder(hundred, "train-images-idx3-ubyte"), "");
    assert_fails(GS_E_FORMAT, "has files of MNIST's format and of CIFAR's; wanted one set",
                 gs_dataset_load(hundred, GS_TRAIN, &d));
}

/* Models train on it as they are, saved weights know its scaling, and labels are chosen. */
TEST(program) {
    const char *ten = gs_test_folder(), *hundred = gs_test_folder();
    write_ten(ten);
    write_hundred(hundred);
    gs_test_program_prints(0, "(CIFAR-10's format,",
                           "train --data %s --model lenet --epochs 1 --batch 4 --devices cpu,cpu --save %s/w",
                           ten, ten);
    gs_test_program_prints(0, "test accuracy", "eval --data %s --load %s/w", ten, ten);
    gs_saved saved;
    assert_ok(gs_safetensors_about(in_folder(ten, "w"), &saved));
    assert_int_equal(saved.scaling.mean.count, 3);
    gs_saved_free(&saved);
    gs_test_program_prints(1, "holds a model for images (3,32,32), but fashion-mnist-small",
                           "eval --load %s/w", ten);
    gs_test_program_prints(0, "12 images to train on",
                           "train --data %s --epochs 1 --batch 4 --labels coarse --model "
                           "'conv 4 3x3 stride 4, relu, flatten, linear 20' --save %s/w",
                           hundred, hundred);
    gs_test_program_prints(1, "has 100 fine classes, but the model has 20; wanted --labels coarse",
                           "eval --data %s --load %s/w", hundred, hundred);
    gs_test_program_prints(0, "top-5", "eval --data %s --load %s/w --labels coarse", hundred, hundred);
    gs_test_program_prints(0, "saved",
                           "train --data %s --epochs 1 --batch 4 --model 'softmax 100' --save %s/f", hundred,
                           hundred);
    gs_test_program_prints(2, "holds a model of the 100 fine classes; leave --labels out",
                           "eval --data %s --load %s/f --labels coarse", hundred, hundred);
    char *output = gs_test_output(1, "train --data %s --epochs 1 --batch 4 --model softmax", hundred);
    assert_has(output, "but the model has 10 classes (0 to 9)");
    const char *python = gs_test_folder();
    write_bytes(python, "data_batch_1", "x", 1);
    write_bytes(python, "test_batch", "x", 1);
    gs_test_program_prints(
        1,
        "has the Python version of CIFAR-10; wanted the binary version, which is published "
        "beside it: cifar-10-binary.tar.gz",
        "train --data %s", python);
    gs_test_program_prints(2, "CIFAR-10, which has one label", "train --data %s --labels coarse", ten);
    gs_test_program_prints(2, "unknown --labels 'rough'; choose one of: fine, coarse",
                           "train --labels rough");
}
