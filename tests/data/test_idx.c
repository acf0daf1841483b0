/* IDX files as data sets: which load and which do not. Gzipped files are also damaged at every byte. */
#include "tests/support/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

/* ---- handwritten IDX files like MNIST's: 3 images of 2 x 2 and their labels ---- */

#define TRAIN_IMAGES "train-images-idx3-ubyte"
#define TRAIN_LABELS "train-labels-idx1-ubyte"

static const unsigned char images3[] = {0, 0, 8, 3, 0, 0, 0,   3,   0,  0,  0,  2,  0,  0,
                                        0, 2, 1, 2, 3, 4, 255, 254, 10, 11, 20, 21, 22, 23};
const unsigned char labels3[] = {0, 0, 8, 1, 0, 0, 0, 3, 7, 0, 2};

static const char *good_folder(void) {
    const char *folder = gs_test_folder();
    write_raw(in_folder(folder, TRAIN_IMAGES), images3, sizeof images3);
    write_raw(in_folder(folder, TRAIN_LABELS), labels3, sizeof labels3);
    return folder;
}

static size_t write_gzip(const char *folder, const char *name, const void *bytes, size_t count) {
    gzFile f = gzopen(in_folder(folder, name), "wb9");
    assert_non_null(f);
    assert_int_equal(gzwrite(f, bytes, (unsigned)count), count);
    assert_int_equal(gzclose(f), Z_OK);
    struct stat s;
    assert_int_equal(stat(in_folder(folder, name), &s), 0);
    return (size_t)s.st_size;
}

static void check_good(const char *folder) {
    gs_dataset *d = gs_test_load(folder, GS_TRAIN);
    assert_int_equal(d->count, 3);
    assert_true(gs_shape_same(d->shape, (gs_shape){1, 2, 2, 0}));
    assert_int_equal(d->classes, 8);
    assert_memory_equal(d->images, images3 + 16, 12);
    assert_memory_equal(d->labels, labels3 + 8, 3);
    assert_non_null(strstr(d->name, " (train)"));
}

/* ---- what loads ---- */

TEST(loads_plain_and_gzipped) {
    check_good(good_folder());

    const char *gzipped = gs_test_folder();
    write_gzip(gzipped, "train-images-idx3-ubyte.gz", images3, sizeof images3);
    write_gzip(gzipped, "train-labels-idx1-ubyte.gz", labels3, sizeof labels3);
    check_good(gzipped);

    const char *dotted = gs_test_folder();
    write_raw(in_folder(dotted, "train-images.idx3-ubyte"), images3, sizeof images3);
    write_gzip(dotted, "train-labels.idx1-ubyte.gz", labels3, sizeof labels3);
    check_good(dotted);

    const char *misnamed = gs_test_folder(); /* browsers unpack a file but keep its name, or the reverse */
    write_gzip(misnamed, TRAIN_IMAGES, images3, sizeof images3);
    write_raw(in_folder(misnamed, "train-labels-idx1-ubyte.gz"), labels3, sizeof labels3);
    check_good(misnamed);
}

static void check_balance(const gs_dataset *d, int each) {
    int count[10] = {0};
    assert_int_equal(d->classes, 10);
    for (size_t i = 0; i < d->count; i++) count[d->labels[i]]++;
    for (int k = 0; k < 10; k++) assert_int_equal(count[k], each);
}

TEST(small_set_is_balanced) {
    const struct {
        gs_split split;
        size_t count;
        const char *name, *images_sha256;
    } parts[] = {{GS_TRAIN, 6000, "fashion-mnist-small (train)",
                  "2b17438af55637db62c122a92490b5b4275bed5719a838b5b0486ea2193a98a4"},
                 {GS_TEST, 1000, "fashion-mnist-small (test)",
                  "3d7f6d64869a3f2d1afe64ae33ffb9b20670a91b31e3bbf0657e3999ec7b35cf"}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        char hex[65];
        gs_dataset *d = gs_test_load("fashion-mnist-small", parts[i].split);
        assert_string_equal(d->name, parts[i].name);
        assert_int_equal(d->count, parts[i].count);
        assert_true(gs_shape_same(d->shape, (gs_shape){1, 28, 28, 0}));
        check_balance(d, (int)parts[i].count / 10);
        gs_sha256(d->images, d->count * 784, hex);
        assert_string_equal(hex, parts[i].images_sha256);
    }
}

/* The small set holds the full set's first images of each class. Without the full one, a message says how to get it. */
TEST(full_set) {
    gs_dataset *full, *small;
    if (access("/usr/share/datasets/fashion-mnist", F_OK) != 0) {
        assert_fails(GS_E_FILE, "apt-get install dataset-fashion-mnist",
                     gs_dataset_load("fashion-mnist", GS_TRAIN, &full));
        assert_non_null(strstr(gs_message(), "fashion-mnist-small"));
        return;
    }
    for (int i = 0; i < 2; i++) {
        gs_split split = i ? GS_TEST : GS_TRAIN;
        size_t next = 0;
        int most = i ? 100 : 600, count[10] = {0};
        full = gs_test_load("fashion-mnist", split);
        small = gs_test_load("fashion-mnist-small", split);
        assert_int_equal(full->count, i ? 10000 : 60000);
        check_balance(full, i ? 1000 : 6000);
        for (size_t s = 0; s < full->count; s++) {
            if (count[full->labels[s]]++ >= most) continue;
            assert_int_equal(small->labels[next], full->labels[s]);
            assert_memory_equal(small->images + next * 784, full->images + s * 784, 784);
            next++;
        }
        assert_int_equal(next, small->count);
    }
}

/* ---- what does not load ---- */

TEST(wrong_places) {
    gs_dataset *d;
    assert_fails(
        GS_E_FILE,
        "no data at 'fashion' (No such file or directory); wanted fashion-mnist, fashion-mnist-small",
        gs_dataset_load("fashion", GS_TRAIN, &d));
    assert_null(d);
    const char *folder = good_folder();
    assert_fails(GS_E_FILE, "(Not a directory)",
                 gs_dataset_load(in_folder(folder, TRAIN_LABELS), GS_TRAIN, &d));

    assert_fails(GS_E_FILE, "has no t10k-images-idx3-ubyte, gzipped (.gz) or not",
                 gs_dataset_load(folder, GS_TEST, &d));
    unlink(in_folder(folder, TRAIN_LABELS));
    assert_fails(GS_E_FILE, "has no train-labels-idx1-ubyte", gs_dataset_load(folder, GS_TRAIN, &d));
    unlink(in_folder(folder, TRAIN_IMAGES));
    assert_fails(GS_E_FILE,
                 "has no pictures" GS_DATA_FILES " files; MNIST's are train-images-idx3-ubyte, "
                 "train-labels-idx1-ubyte, t10k-images-idx3-ubyte, t10k-labels-idx1-ubyte",
                 gs_dataset_load(folder, GS_TRAIN, &d));

    assert_int_equal(mkdir(in_folder(folder, TRAIN_IMAGES), 0700), 0);
    write_raw(in_folder(folder, TRAIN_LABELS), labels3, sizeof labels3);
    assert_fails(GS_E_FILE, "train-images-idx3-ubyte: Is a directory", gs_dataset_load(folder, GS_TRAIN, &d));
    assert_int_equal(rmdir(in_folder(folder, TRAIN_IMAGES)), 0);
    assert_int_equal(mkfifo(in_folder(folder, TRAIN_IMAGES), 0600), 0); /* opening it would block forever */
    assert_fails(GS_E_FILE, "train-images-idx3-ubyte: it is not a regular file",
                 gs_dataset_load(folder, GS_TRAIN, &d));
}

TEST(unreadable_file) {
    const char *folder = good_folder();
    bool root = geteuid() == 0;
    if (root) { /* root may read everything, so drop its rights briefly */
        const char *above = gs_test_format("%s/..", folder);
        assert_int_equal(chmod(folder, 0755), 0);
        assert_int_equal(chmod(above, 0711), 0);
    }
    assert_int_equal(chmod(in_folder(folder, TRAIN_IMAGES), 0000), 0);
    if (root && seteuid(65534) != 0)
        skip_because("root may read everything, and cannot become another user here");
    if (root && faccessat(AT_FDCWD, folder, X_OK, AT_EACCESS) != 0) { /* a parent folder is closed */
        assert_int_equal(seteuid(0), 0);
        skip_because("a parent of the temporary folder is closed to other users");
    }
    gs_dataset *d;
    gs_status st = gs_dataset_load(folder, GS_TRAIN, &d);
    if (root) assert_int_equal(seteuid(0), 0);
    assert_fails(GS_E_FILE, "train-images-idx3-ubyte: Permission denied", st);
}

TEST(damaged_files) {
    const struct {
        const char *name, *part;
        size_t count;
        unsigned char bytes[32];
    } bad[] = {
        {TRAIN_IMAGES, "train-images-idx3-ubyte is empty; wanted an IDX file, gzipped or not", 0, {0}},
        {TRAIN_IMAGES,
         "train-images-idx3-ubyte is truncated: it has 7 bytes; wanted 16",
         7,
         {0, 0, 8, 3, 0, 0, 0}},
        {TRAIN_IMAGES,
         "train-images-idx3-ubyte is truncated: it has 18 bytes; wanted 28 (3 x 2 x 2)",
         18,
         {0, 0, 8, 3, 0, 0, 0, 3, 0, 0, 0, 2, 0, 0, 0, 2, 9, 9}},
        {TRAIN_IMAGES,
         "train-images-idx3-ubyte: the magic number is 0x00000801; wanted 0x00000803 (images)",
         19,
         {0, 0, 8, 1, 0, 0, 0, 3, 7, 0, 2}},
        {TRAIN_LABELS,
         "train-labels-idx1-ubyte: the magic number is 0x00000803; wanted 0x00000801 (labels)",
         16,
         {0, 0, 8, 3, 0, 0, 0, 3}},
        {TRAIN_IMAGES,
         "train-images-idx3-ubyte: the sizes are 0 x 28 x 28; none may be 0",
         16,
         {0, 0, 8, 3, 0, 0, 0, 0, 0, 0, 0, 28, 0, 0, 0, 28}},
        {TRAIN_IMAGES,
         "train-images-idx3-ubyte: the sizes are 4294967295 x 0 x 4294967295; none may be 0",
         16,
         {0, 0, 8, 3, 255, 255, 255, 255, 0, 0, 0, 0, 255, 255, 255, 255}},
        {TRAIN_IMAGES,
         "the sizes are 4294967295 x 4294967295 x 4294967295; at most 2147483647 bytes are allowed",
         16,
         {0, 0, 8, 3, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255}},
        {TRAIN_IMAGES, /* 2^96 bytes: 0 if the product wrapped in 64 bits */
         "the sizes are 2147483648 x 2147483648 x 4; at most 2147483647 bytes are allowed",
         16,
         {0, 0, 8, 3, 128, 0, 0, 0, 128, 0, 0, 0, 0, 0, 0, 4}},
        {TRAIN_LABELS, "the sizes are 2147483648; at most 2147483647", 8, {0, 0, 8, 1, 128, 0, 0, 0}},
        {TRAIN_LABELS,
         "train-labels-idx1-ubyte has more than the 11 bytes that its header states (3)",
         12,
         {0, 0, 8, 1, 0, 0, 0, 3, 1, 2, 3, 4}},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const char *folder = good_folder();
        gs_dataset *d;
        write_raw(in_folder(folder, bad[i].name), bad[i].bytes, bad[i].count);
        assert_fails(GS_E_FORMAT, bad[i].part, gs_dataset_load(folder, GS_TRAIN, &d));
        assert_null(d);
        unlink(in_folder(folder, bad[i].name)); /* next: the same bytes, gzipped */
        const char *gz = gs_test_format("%s.gz", bad[i].name);
        write_gzip(folder, gz, bad[i].bytes, bad[i].count);
        gs_status st = gs_dataset_load(folder, GS_TRAIN, &d);
        assert_int_equal(st, GS_E_FORMAT);
        assert_non_null(strstr(gs_message(), gz));
    }
}

TEST(counts_differ) {
    const char *folder = good_folder();
    gs_dataset *d;
    write_raw(in_folder(folder, TRAIN_LABELS), (unsigned char[]){0, 0, 8, 1, 0, 0, 0, 2, 1, 2}, 10);
    assert_fails(GS_E_FORMAT, "train-labels-idx1-ubyte has 2 labels, but ",
                 gs_dataset_load(folder, GS_TRAIN, &d));
    assert_non_null(strstr(gs_message(), "train-images-idx3-ubyte has 3 images"));
}

TEST(label_out_of_range) {
    gs_dataset *d = gs_test_load(good_folder(), GS_TRAIN);
    assert_ok(gs_dataset_check_labels(d, 8));
    assert_fails(GS_E_FORMAT, "(train): the label of sample 0 is 7, but the model has 7 classes (0 to 6)",
                 gs_dataset_check_labels(d, 7));
}

/* ---- gather ---- */

TEST(gather) {
    gs_dataset *d = gs_test_load(good_folder(), GS_TRAIN);
    unsigned char images[12];
    int32_t labels[3];
    gs_dataset_gather(d, (uint32_t[]){2, 0}, 0, 2, images, labels);
    assert_memory_equal(images, ((unsigned char[]){20, 21, 22, 23, 1, 2, 3, 4}), 8);
    assert_memory_equal(labels, ((int32_t[]){2, 7}), 8);
    gs_dataset_gather(d, NULL, 1, 2, images, NULL);
    assert_memory_equal(images, images3 + 20, 8);
    gs_dataset_gather(d, NULL, 0, 3, NULL, labels);
    assert_memory_equal(labels, ((int32_t[]){7, 0, 2}), 12);
    gs_dataset_gather(d, NULL, 3, 0, NULL, NULL);
    gs_dataset_free(NULL);
}

/* A header that announces 2 GB causes no allocation if the file is too small. */
TEST(promises_too_much) {
    const unsigned char labels[] = {0, 0, 8, 1, 127, 255, 255, 255, 1, 2, 3};
    const char *folder = good_folder();
    gs_dataset *d;
    write_raw(in_folder(folder, TRAIN_LABELS), labels, sizeof labels);
    assert_fails(GS_E_FORMAT, "is truncated: it has 11 bytes; wanted 2147483655 (2147483647)",
                 gs_dataset_load(folder, GS_TRAIN, &d));

    folder = good_folder();
    unlink(in_folder(folder, TRAIN_LABELS));
    write_gzip(folder, "train-labels-idx1-ubyte.gz", labels, sizeof labels);
    assert_fails(GS_E_FORMAT, "is truncated: it has 11 bytes; wanted 2147483655 (2147483647)",
                 gs_dataset_load(folder, GS_TRAIN, &d));
}

/* Bytes after the array take no memory: only 4 bytes of 16 MB of zeros are decompressed. */
TEST(holds_too_much) {
    const size_t bytes = 1 << 24;
    unsigned char *labels = gs_test_calloc(bytes, 1);
    memcpy(labels, (unsigned char[]){0, 0, 8, 1, 0, 0, 0, 3}, 8);
    const char *folder = good_folder();
    gs_dataset *d;
    unlink(in_folder(folder, TRAIN_LABELS));
    write_gzip(folder, "train-labels-idx1-ubyte.gz", labels, bytes);
    assert_fails(GS_E_FORMAT, "its header states 3: ", gs_dataset_load(folder, GS_TRAIN, &d));
    assert_non_null(strstr(gs_message(), "has more than 12 bytes when unzipped"));
    unlink(in_folder(folder, "train-labels-idx1-ubyte.gz"));
    write_raw(in_folder(folder, TRAIN_LABELS), labels, bytes);
    assert_fails(GS_E_FILE, "its header states 3: ", gs_dataset_load(folder, GS_TRAIN, &d));
    assert_non_null(strstr(gs_message(), "has 16777216 bytes; at most 12 can be read"));
}

/* A gzip file that ends early or has one wrong byte is never accepted; tries every byte. */
TEST(damaged_gzip) {
    const char *folder = gs_test_folder(), *name = "train-images-idx3-ubyte.gz";
    unsigned char idx[2000] = {0, 0, 8, 3, 0, 0, 0, 31, 0, 0, 0, 8, 0, 0, 0, 8}, gz[4000];
    for (size_t i = 16; i < sizeof idx; i++) idx[i] = (unsigned char)(i * i / 7);
    unsigned char labels[8 + 31] = {0, 0, 8, 1, 0, 0, 0, 31};
    write_raw(in_folder(folder, TRAIN_LABELS), labels, sizeof labels);
    size_t size = write_gzip(folder, name, idx, sizeof idx);
    assert_int_equal(read_raw(in_folder(folder, name), gz, sizeof gz), size);

    gs_dataset *d;
    for (size_t cut = 0; cut < size; cut++) {
        write_raw(in_folder(folder, name), gz, cut);
        gs_status st = gs_dataset_load(folder, GS_TRAIN, &d);
        if (st != GS_E_FORMAT) fail_msg("truncated at %zu of %zu: %s", cut, size, gs_message());
        if (cut >= 2)
            assert_non_null(
                strstr(gs_message(),
                       "train-images-idx3-ubyte.gz: damaged gzip stream: unexpected end of file after "));
        if (cut == size - 8) /* all of the data, without the checksum */
            assert_non_null(strstr(gs_message(), "after 2000 bytes"));
    }
    for (size_t at = 0; at < size; at++) {
        gz[at] ^= 0x10;
        write_raw(in_folder(folder, name), gz, size);
        gz[at] ^= 0x10;
        gs_status st = gs_dataset_load(folder, GS_TRAIN, &d);
        if (st == GS_OK) { /* a byte without meaning, such as the date in the header */
            assert_memory_equal(d->images, idx + 16, sizeof idx - 16);
            gs_dataset_free(d);
        } else if (st != GS_E_FORMAT)
            fail_msg("wrong byte at %zu: %s", at, gs_message());
    }
    gz[size - 6] ^= 1; /* in the checksum */
    write_raw(in_folder(folder, name), gz, size);
    assert_fails(GS_E_FORMAT, "damaged gzip stream: incorrect data check",
                 gs_dataset_load(folder, GS_TRAIN, &d));
}

/* A second gzip stream continues the data; zero padding up to the end of a block is ignored. */
TEST(behind_a_gzip_stream) {
    const char *folder = gs_test_folder(), *name = "train-images-idx3-ubyte.gz";
    write_raw(in_folder(folder, TRAIN_LABELS), labels3, sizeof labels3);
    unsigned char gz[400] = {0};
    size_t size = write_gzip(folder, name, images3, sizeof images3);
    assert_int_equal(read_raw(in_folder(folder, name), gz, sizeof gz), size);
    memset(gz + size, 0, sizeof gz - size);
    gs_dataset *d;
    write_raw(in_folder(folder, name), gz, size + 200);
    gs_test_load(folder, GS_TRAIN);

    memcpy(gz + size, "rubbish", 7);
    write_raw(in_folder(folder, name), gz, size + 7);
    assert_fails(GS_E_FORMAT, "gzip stream: other bytes follow", gs_dataset_load(folder, GS_TRAIN, &d));

    unsigned char first[400], second[400];
    size_t n = write_gzip(folder, name, images3, 18);
    assert_int_equal(read_raw(in_folder(folder, name), first, sizeof first), n);
    size_t m = write_gzip(folder, name, images3 + 18, sizeof images3 - 18);
    assert_int_equal(read_raw(in_folder(folder, name), second, sizeof second), m);
    memcpy(first + n, second, m);
    write_raw(in_folder(folder, name), first, n + m);
    d = gs_test_load(folder, GS_TRAIN);
    assert_memory_equal(d->images, images3 + 16, sizeof images3 - 16);
}
