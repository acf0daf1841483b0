/* Pictures in folders: which files are found, how they are labelled, and how a run reacts to a broken file. The number
 * of threads must not matter. */
#include "data/folder_set.h"
#include "tests/support/files.h"
#include "tests/support/pictures.h"
#include "tests/support/program.h"

#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SIZE = 16, PIXELS = 3 * SIZE * SIZE };

/* Three classes, with three, four and five pictures for training; and two test pictures. */
static const char *make_set(void) {
    const char *folder = gs_test_folder();
    static const char *const classes[] = {"ant", "b\xc3\xa4r", "cow"};
    for (int c = 0, id = 0; c < 3; c++)
        for (int i = 0; i < 3 + c; i++, id++) {
            const char *name = gs_test_format("train/%s/%d.%s", classes[c], i, id % 3 == 1 ? "png" : "jpg");
            write_picture(folder, name, id, 20 + 3 * id, 40 - id);
        }
    write_picture(folder, "val/b\xc3\xa4r/x.JPEG", 1, 30, 30);
    write_picture(folder, "val/cow/x.PNG", 2, 30, 30); /* in fact a JPEG: the name does not matter */
    write_bytes(folder, "train/ant/.hidden.jpg", "x", 1);
    write_bytes(folder, "train/ant/notes.txt", "x", 1);
    write_bytes(folder, "train/list.txt", "x", 1);
    write_bytes(folder, "train/__MACOSX/._x", "x", 1);
    return folder;
}

static gs_dataset *load(const char *folder, gs_split split, gs_folder_options o) {
    gs_dataset *d;
    if (!o.size) o.size = SIZE;
    return gs_test_set(gs_dataset_load_with(folder, split, GS_LABELS_FINE, NULL, &o, &d), &d);
}

static gs_status try_load(const char *folder, gs_split split, gs_folder_options o) {
    gs_dataset *d;
    if (!o.size) o.size = SIZE;
    gs_status status = gs_dataset_load_with(folder, split, GS_LABELS_FINE, NULL, &o, &d);
    if (status == GS_OK) gs_dataset_free(d);
    return status;
}

TEST(files_and_labels) {
    const char *folder = make_set();
    gs_dataset *train = load(folder, GS_TRAIN, (gs_folder_options){0}),
               *test = load(folder, GS_TEST, (gs_folder_options){0});
    int32_t labels[12];
    assert_int_equal(train->count, 12);
    assert_int_equal(train->classes, 3);
    assert_true(gs_shape_same(train->shape, (gs_shape){3, SIZE, SIZE, 0}));
    assert_ok(gs_dataset_gather(train, NULL, 0, 12, NULL, labels));
    for (int i = 0; i < 12; i++) assert_int_equal(labels[i], i < 3 ? 0 : i < 7 ? 1 : 2);
    assert_string_equal(gs_folder_name(&train->folder->list, 4), "b\xc3\xa4r/1.png");
    assert_int_equal(test->count, 2);
    assert_int_equal(test->classes, 3); /* although class 0 has no test picture */
    assert_ok(gs_dataset_gather(test, NULL, 0, 2, NULL, labels));
    assert_int_equal(labels[0], 1);
    assert_int_equal(labels[1], 2);
    assert_ok(gs_dataset_check_labels(train, 3));
    assert_fails(GS_E_FORMAT, "has 3 class folders, but the model has 2 classes",
                 gs_dataset_check_labels(train, 2));
}

/* Pictures as Kaggle packs them, next to tables that describe them. */
TEST(tables_beside_pictures) {
    const char *folder = make_set();
    write_bytes(folder, "train.csv", "id,label\n0,ant\n", 15);
    write_bytes(folder, "test.csv", "id\n1\n", 5);
    assert_int_equal(load(folder, GS_TRAIN, (gs_folder_options){0})->count, 12);
    assert_int_equal(load(folder, GS_TEST, (gs_folder_options){0})->count, 2);
    assert_true(gs_dataset_is_image_folder(folder));
}

/* More classes than a byte can number. */
TEST(many_classes) {
    const char *folder = gs_test_folder();
    for (int c = 0; c < 300; c++) {
        const char *name = gs_test_format("train/c%03d/x.png", c);
        write_picture(folder, name, c, 4, 4);
    }
    gs_dataset *d = load(folder, GS_TRAIN, (gs_folder_options){.size = 2});
    int32_t label;
    assert_int_equal(d->classes, 300);
    assert_ok(gs_dataset_gather(d, (uint32_t[]){299}, 0, 1, NULL, &label));
    assert_int_equal(label, 299);
}

static void gather_all(const gs_dataset *d, const gs_augment *a, unsigned char *x, int32_t *y) {
    static const uint32_t order[] = {11, 3, 5, 0, 1, 2, 10, 9, 8, 7, 6, 4};
    assert_ok(gs_augment_gather(a, d, 5, 2, order, 12, x, y));
}

/* One, two and five threads decode the same bytes. */
TEST(same_bytes) {
    const char *folder = make_set();
    const gs_augment all[] = {{0}, {3, true, 4, false}, {0, true, 0, true}};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
        unsigned char want[12 * PIXELS], got[12 * PIXELS];
        int32_t want_labels[12], labels[12];
        gs_dataset *one = load(folder, GS_TRAIN, (gs_folder_options){0});
        gather_all(one, &all[k], want, want_labels);
        for (int how = 0; how < 2; how++) {
            gs_dataset *d = load(folder, GS_TRAIN, (gs_folder_options){.loaders = how ? 5 : 2});
            for (int turn = 0; turn < 2; turn++) {
                memset(got, 1, sizeof got);
                gather_all(d, &all[k], got, labels);
                assert_memory_equal(got, want, sizeof want);
                assert_memory_equal(labels, want_labels, sizeof labels);
            }
            const gs_scaling a = gs_dataset_scaling(one), b = gs_dataset_scaling(d);
            assert_true(gs_by_channel_same(&a.mean, &b.mean) && gs_by_channel_same(&a.std, &b.std));
        }
    }
}

/* The scaling is the mean and standard deviation of the gathered pixels, here of all 12 pictures. */
TEST(scaling) {
    gs_dataset *d = load(make_set(), GS_TRAIN, (gs_folder_options){0});
    unsigned char x[12 * PIXELS];
    assert_ok(gs_dataset_gather(d, NULL, 0, 12, x, NULL));
    const gs_scaling s = gs_dataset_scaling(d);
    for (int c = 0; c < 3; c++) {
        double sum = 0, squares = 0, n = 12 * SIZE * SIZE;
        for (int i = 0; i < 12; i++)
            for (int p = 0; p < SIZE * SIZE; p++) {
                const double v = x[i * PIXELS + c * SIZE * SIZE + p] / 255.0;
                sum += v;
                squares += v * v;
            }
        assert_near(s.mean.of[c], sum / n, 0, 1e-5);
        assert_near(s.std.of[c], sqrt(squares / n - sum / n * sum / n), 0, 1e-4);
    }
}

/* ---- bad input ---- */

TEST(wrong_folders) {
    const char *folder = gs_test_folder();
    assert_false(gs_folder_is_at(folder));
    write_bytes(folder, "val/cow/x.jpg", "x", 1);
    assert_true(gs_folder_is_at(folder));
    assert_fails(GS_E_FILE, "has no folder train, whose class folders",
                 try_load(folder, GS_TEST, (gs_folder_options){0}));
    write_bytes(folder, "train/x.jpg", "x", 1);
    assert_fails(GS_E_FORMAT, "train has no class folders, but pictures that lie in no class",
                 try_load(folder, GS_TRAIN, (gs_folder_options){0}));
    write_bytes(folder, "train/ant/notes.txt", "x", 1);
    assert_fails(GS_E_FORMAT, "train: the class folder ant has no .jpg, .jpeg, .jfif or .png",
                 try_load(folder, GS_TRAIN, (gs_folder_options){0}));
    write_bytes(folder, "train/ant/images/x.jpg", "x", 1);
    assert_fails(GS_E_FORMAT,
                 "the class folder ant has no .jpg, .jpeg, .jfif or .png in it; folders within it are not",
                 try_load(folder, GS_TRAIN, (gs_folder_options){0}));
    assert_fails(GS_E_FORMAT, "val has a class cow, which the folder train",
                 try_load(folder, GS_TEST, (gs_folder_options){0}));
    const char *path = gs_test_format("%s/train/cow", folder);
    assert_int_equal(mkdir(path, 0777), 0);
    path = gs_test_format("%s/val/cow/x.jpg", folder);
    assert_int_equal(unlink(path), 0);
    assert_fails(GS_E_FORMAT, "val: none of its class folders has a .jpg",
                 try_load(folder, GS_TEST, (gs_folder_options){0}));
    assert_fails(GS_E_USAGE, "--size 5000: wanted 1 to 4096",
                 try_load(folder, GS_TRAIN, (gs_folder_options){.size = 5000}));
    gs_file_remove_folder(in_folder(folder, "val"));
    assert_fails(GS_E_FILE, "neither val nor test", try_load(folder, GS_TEST, (gs_folder_options){0}));
}

/* The file is rejected for its size, before anything is read. */
TEST(a_file_that_is_too_large) {
    const char *folder = make_set();
    const char *path = gs_test_format("%s/train/cow/2.jpg", folder);
    assert_int_equal(truncate(path, 300000000), 0);
    assert_fails(GS_E_FORMAT,
                 "2.jpg, file 10 of 12: the file has 300000000 bytes; at most 268435456 are allowed",
                 try_load(folder, GS_TRAIN, (gs_folder_options){0}));
}

/* For every broken file, the message contains its name and its number. */
TEST(broken_files) {
    static const struct {
        const char *bytes, *part;
        size_t count;
    } files[] = {{"", "the file is empty", 0},
                 {"hello", "it is neither a JPEG nor a PNG", 5},
                 {"\xff\xd8\xff\xe0", "the JPEG is damaged", 4},
                 {"\x89PNG\r\n\x1a\n", "the PNG is damaged", 8}};
    for (int k = 0; k < 7; k++) {
        const char *folder = make_set();
        const char *path = gs_test_format("%s/train/cow/2.jpg", folder);
        unlink(path);
        if (k < 4)
            write_bytes(folder, "train/cow/2.jpg", files[k].bytes, files[k].count);
        else
            assert_int_equal(k == 4   ? mkdir(path, 0777)
                             : k == 5 ? symlink("/no/such/file", path)
                                      : mkfifo(path, 0666),
                             0);
        static const char *const kinds[] = {"cannot be read: Is a directory", "cannot be read: No such file",
                                            "cannot be read: it is no regular file"};
        const char *wanted =
            gs_test_format("train/cow/2.jpg, file 10 of 12: %s", k < 4 ? files[k].part : kinds[k - 4]);
        static const char advice[] = "; remove it, or use --skip-broken where the command takes it";
        assert_fails(k < 4 ? GS_E_FORMAT : GS_E_FILE, wanted,
                     try_load(folder, GS_TRAIN, (gs_folder_options){.loaders = 1 + k % 3}));
        assert_non_null(strstr(gs_message(), advice));
        gs_dataset *d =
            load(folder, GS_TRAIN, (gs_folder_options){.skip_broken = true, .loaders = 1 + k % 3});
        unsigned char x[2 * PIXELS];
        int32_t y[2];
        for (int again = 0; again < 2; again++) { /* the second time, the broken file is known */
            memset(x, 7, PIXELS);
            y[0] = 0;
            assert_ok(gs_dataset_gather(d, (uint32_t[]){9, 10}, 0, 2, x, y));
            assert_memory_equal(x, x + PIXELS, PIXELS); /* the next picture has taken its place */
            assert_int_equal(y[0], 2);
        }
    }
}

TEST(nothing_is_left) {
    const char *folder = gs_test_folder();
    write_bytes(folder, "train/ant/a.jpg", "x", 1);
    write_bytes(folder, "train/ant/b.jpg", "x", 1);
    assert_fails(GS_E_FORMAT, "none of its 2 files can be decoded",
                 try_load(folder, GS_TRAIN, (gs_folder_options){.skip_broken = true}));
    assert_null(strstr(gs_message(), "--skip-broken"));
}

/* The loader delivers the samples before the broken file, then reports the error, and reports it again. */
TEST(loader_ends) {
    const char *folder = make_set();
    gs_dataset *d = load(folder, GS_TRAIN, (gs_folder_options){0});
    const char *path = gs_test_format("%s/train/ant/0.jpg", folder);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(truncate(path, st.st_size - 60), 0); /* damaged after training has started */
    gs_schedule schedule = {
        .count = 12, .batch = 1, .parts = 1, .mine = 1, .passes = 1, .most = 1, .epochs = 3};
    gs_loader *loader;
    const gs_loaded *next;
    int before = 0;
    assert_ok(gs_loader_create(d, &schedule, NULL, 1, 0, &loader));
    gs_status status;
    while ((status = gs_loader_next(loader, &next)) == GS_OK) before++;
    assert_true(before < 12);
    for (int turn = 0; turn < 2; turn++)
        assert_fails(GS_E_FORMAT,
                     "train/ant/0.jpg, file 1 of 12: the JPEG is damaged: Premature end of JPEG file",
                     gs_loader_next(loader, &next));
    gs_loader_free(loader);
}

/* ---- whole runs ---- */

#define RUN "train --size 16 --model softmax --epochs 2 --batch 4 --lr 0.001 --threads 1 --data "

TEST(runs) {
    const char *folder = make_set();
    char *one, *other;
    static const char *const ways[] = {"--loaders 3", "--loaders 1", "--devices cpu,cpu --exact", "--exact"};
    char sums[4][80];
    for (size_t k = 0; k < sizeof ways / sizeof *ways; k++) {
        const char *command = gs_test_format(RUN "%s %s", folder, ways[k]);
        one = gs_test_output(0, "%s", command);
        assert_has(one, "pictures in 3 folders");
        other = strstr(one, "sha256 ");
        assert_non_null(other);
        snprintf(sums[k], sizeof sums[k], "%.71s", other);
    }
    assert_string_equal(sums[0], sums[1]);
    assert_string_equal(sums[2], sums[3]);
    one = gs_test_output(
        0, "profile --size 16 --model softmax --batch 4 --threads 1 --loaders 2 --json --data %s", folder);
    cJSON *speeds = gs_test_parse(one);
    assert_true(gs_test_field(speeds, "loader_samples_per_s")->valuedouble > 0);
    assert_prints(2, "--skip-broken", "predict --skip-broken --load x -o y");
    assert_prints(2, "--size is for image folders, and", "train --size 32 --epochs 1");
    assert_prints(2, "resized_crop: fashion-mnist-small (train) has images of one size",
                  "train --epochs 1 --augment resized_crop");
    assert_prints(0, "augment  resized_crop,flip", RUN "%s --augment flip,resized_crop", folder);
}

/* A broken file in another rank's part ends all ranks, with a single message. */
TEST(broken_runs) {
    const char *folder = make_set();
    const char *path = gs_test_format("%s/val/cow/x.PNG", folder);
    assert_int_equal(truncate(path, 60), 0); /* the test set is decoded after the first epoch */
    static const char wanted[] = "val/cow/x.PNG, file 2 of 2: the JPEG is damaged";
    assert_prints(1, wanted, RUN "%s", folder);
    assert_prints(1, wanted, RUN "%s --devices cpu,cpu", folder);
    assert_prints(1, wanted, "launch -n 2 -- " RUN "%s", folder);
    assert_prints(0, "1 file could not be decoded, and another took its place: val/cow/x.PNG",
                  "launch -n 2 -- " RUN "%s --skip-broken", folder);
}
