/* CIFAR-10 and CIFAR-100, tested with small made-up sets. */
#include "core/text.h"
#include "tests/support/files.h"
#include "tests/support/pictures.h"
#include "tests/support/program.h"

#include <sys/stat.h>
#include <unistd.h>

enum { PIXELS = 3072, TEN = 1 + PIXELS, HUNDRED = 2 + PIXELS };

/* Pixel p of sample `id`. */
static unsigned char pixel(int id, int p) {
    return (unsigned char)(id * 31 + p * 7 + p / 1024);
}

/* Writes a file of `count` records; sample i has the id first + i, which determines its labels. */
static void write_records(const char *folder, const char *name, int first, int count, bool hundred) {
    FILE *f = gs_test_open(in_folder(folder, name), "wb");
    for (int i = first; i < first + count; i++) {
        if (hundred) fputc(i % 20, f);
        fputc(hundred ? (i + 90) % 100 : i % 10, f);
        for (int p = 0; p < PIXELS; p++) fputc(pixel(i, p), f);
    }
    assert_int_equal(fclose(f), 0);
}

/* Five training files of 2 samples each, and a test file of 3 samples. */
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
    assert_ok(gs_dataset_load_with(where, split, labels, NULL, NULL, &d));
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
    assert_non_null(strstr(d->kind, hundred ? "CIFAR-100's format" : "CIFAR-10's format"));
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
                 gs_dataset_load_with(folder, GS_TRAIN, GS_LABELS_COARSE, NULL, NULL, &d));
    assert_fails(GS_E_USAGE, "fashion-mnist-small has one label for each image",
                 gs_dataset_load_with("fashion-mnist-small", GS_TRAIN, GS_LABELS_COARSE, NULL, NULL, &d));
    const char *above = gs_test_folder();
    assert_int_equal(mkdir(in_folder(above, "cifar-100-binary"), 0700), 0);
    write_hundred(in_folder(above, "cifar-100-binary"));
    check_hundred(above);
    check_hundred(in_folder(above, "cifar-100-binary"));
}

static void assert_names(const char *where, gs_labels labels, int count, const char *third) {
    gs_dataset *d;
    assert_ok(gs_dataset_load_with(where, GS_TEST, labels, NULL, NULL, &d));
    assert_int_equal(d->names.count, count);
    if (count) assert_string_equal(d->names.name[2], third);
    gs_dataset_free(d);
}

/* Class names are read one per line; a file with too few names is ignored. */
static void check_names(const char *folder) {
    const char *ten = in_folder(folder, "cifar-10-batches-bin"),
               *hundred = in_folder(folder, "cifar-100-binary");
    char fine[800] = "", coarse[800] = "";
    for (int i = 0; i < 100; i++) gs_append(fine, sizeof fine, "fine_%d\n", i);
    for (int i = 0; i < 20; i++) gs_append(coarse, sizeof coarse, "c %d\r\n", i);
    assert_names(ten, GS_LABELS_FINE, 0, NULL); /* the file has only one line */
    assert_names(hundred, GS_LABELS_FINE, 0, NULL);
    write_bytes(ten, "batches.meta.txt", "a\nb\nc\nd\ne\nf\ng\nh\ni\nj", 19);
    write_bytes(hundred, "fine_label_names.txt", fine, strlen(fine));
    write_bytes(hundred, "coarse_label_names.txt", coarse, strlen(coarse));
    assert_names(ten, GS_LABELS_FINE, 10, "c");
    assert_names(hundred, GS_LABELS_FINE, 100, "fine_2");
    assert_names(hundred, GS_LABELS_COARSE, 20, "c 2");
}

TEST(names) {
    const char *folder = gs_test_folder();
    assert_int_equal(mkdir(in_folder(folder, "cifar-10-batches-bin"), 0700), 0);
    assert_int_equal(mkdir(in_folder(folder, "cifar-100-binary"), 0700), 0);
    write_ten(in_folder(folder, "cifar-10-batches-bin"));
    write_hundred(in_folder(folder, "cifar-100-binary"));
    write_text(in_folder(folder, "cifar-10-batches-bin/batches.meta.txt"), "airplane\n");
    check_names(folder);
}

/* Archives are unpacked by tar. */
TEST(archives) {
    const char *folder = gs_test_folder(), *archive = in_folder(folder, "cifar-10-binary.tar.gz");
    gs_dataset *d;
    write_text(archive, "");
    assert_fails(GS_E_FILE, "has cifar-10-binary.tar.gz as it is published; unpack it there: tar xf",
                 gs_dataset_load(folder, GS_TRAIN, &d));
    assert_fails(GS_E_FILE, "has cifar-10-binary.tar.gz as it is published",
                 gs_dataset_load_with(folder, GS_TRAIN, GS_LABELS_COARSE, NULL, NULL, &d));
    assert_fails(GS_E_FILE, "(Not a directory); wanted fashion-mnist",
                 gs_dataset_load(archive, GS_TRAIN, &d));
    assert_non_null(strstr(gs_message(), "; an archive is to be unpacked (tar xf)"));
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
    assert_fails(GS_E_FORMAT, "has CIFAR's and MNIST's files; wanted one set",
                 gs_dataset_load(hundred, GS_TRAIN, &d));
}

/* Models train on CIFAR without options, saved weights store its scaling, and the labels can be chosen. */
TEST(program) {
    const char *ten = gs_test_folder(), *hundred = gs_test_folder();
    write_ten(ten);
    write_hundred(hundred);
    assert_prints(0, "(CIFAR-10's format",
                  "train --data %s --model lenet --epochs 1 --batch 4 --devices cpu,cpu --save %s/w", ten,
                  ten);
    assert_prints(0, "test accuracy", "eval --data %s --load %s/w", ten, ten);
    gs_weights_info saved;
    assert_ok(gs_safetensors_read_info(in_folder(ten, "w"), &saved));
    assert_int_equal(saved.scaling.mean.count, 3);
    gs_weights_info_free(&saved);
    assert_prints(1, "holds a model for images (3,32,32), but fashion-mnist-small", "eval --load %s/w", ten);
    assert_prints(0, "12 images to train on",
                  "train --data %s --epochs 1 --batch 4 --labels coarse --model "
                  "'conv 4 3x3 stride 4, relu, flatten, linear 20' --save %s/w",
                  hundred, hundred);
    assert_prints(1, "has 100 fine classes, but the model has 20; wanted --labels coarse",
                  "eval --data %s --load %s/w", hundred, hundred);
    assert_prints(0, "top-5", "eval --data %s --load %s/w --labels coarse", hundred, hundred);
    assert_prints(0, "saved", "train --data %s --epochs 1 --batch 4 --model 'softmax 100' --save %s/f",
                  hundred, hundred);
    assert_prints(2, "holds a model of the 100 fine classes; leave --labels out",
                  "eval --data %s --load %s/f --labels coarse", hundred, hundred);
    char *output = gs_test_output(1, "train --data %s --epochs 1 --batch 4 --model softmax", hundred);
    assert_has(output, "but the model has 10 classes (0 to 9)");
    const char *python = gs_test_folder();
    write_bytes(python, "data_batch_1", "x", 1);
    write_bytes(python, "test_batch", "x", 1);
    assert_prints(1,
                  "has the Python version of CIFAR-10; wanted the binary version, which is published "
                  "beside it: cifar-10-binary.tar.gz",
                  "train --data %s", python);
    assert_prints(2, "CIFAR-10, which has one label", "train --data %s --labels coarse", ten);
    assert_prints(2, "unknown --labels 'rough'; choose one of: fine, coarse", "train --labels rough");
}
