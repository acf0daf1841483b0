/* Tables of numbers in text files: which load, which do not, and runs on them. */
#include "data/csv_set.h"
#include "tests/support/files.h"
#include "tests/support/program.h"

static gs_dataset *load(const char *where, gs_split split) {
    gs_dataset *d;
    assert_ok(gs_dataset_load(where, split, &d));
    return d;
}

/* Also with a header, spaces, an empty line, Windows line ends, or a UTF-8 byte order mark. */
TEST(labels_load) {
    static const char *const texts[] = {"length,width,label\n5.5,-3,0\n4,1e1,2\n", "5.5,-3,0\n4,10,2",
                                        " 5.5 ,-3,\t0\r\n\r\n4,10.0,2\r\n",
                                        "\xef\xbb\xbf"
                                        "5.5,-3,0\n4,10,2\n\n"};
    static const float want[] = {5.5f, -3, 4, 10};
    const char *folder = gs_test_folder();
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        write_text(in_folder(folder, "test.csv"), texts[i]);
        gs_dataset *d = load(folder, GS_TEST);
        assert_int_equal(d->count, 2);
        assert_int_equal(d->classes, 3);
        assert_true(gs_shape_same(d->shape, (gs_shape){2, 1, 1, 0}) && !d->targets);
        assert_memory_equal(d->inputs, want, sizeof want);
        assert_true(d->labels[0] == 0 && d->labels[1] == 2);
        gs_dataset_free(d);
    }
}

TEST(targets_load) {
    static const float inputs[] = {1, 2}, targets[] = {0.5f, -1, 1.5f, 300};
    const char *folder = gs_test_folder();
    write_text(in_folder(folder, "train.csv"), "x,\"target a\",target\n1,0.5,-1\n2,1.5,300\n");
    gs_dataset *d = load(folder, GS_TRAIN);
    assert_true(d->count == 2 && d->outputs == 2 && !d->labels);
    assert_memory_equal(d->inputs, inputs, sizeof inputs);
    assert_memory_equal(d->targets, targets, sizeof targets);
    gs_dataset_free(d);
}

/* Of a single file, every tenth sample is for testing. */
TEST(one_file) {
    const char *path = in_folder(gs_test_folder(), "all.csv");
    write_times(path, "1,2,1\n", 9);
    gs_dataset *d;
    assert_fails(GS_E_FORMAT, "all.csv has 0 samples to test; wanted 1 to ",
                 gs_dataset_load(path, GS_TEST, &d));
    write_times(path, "1,2,1\n3,4,0\n", 10);
    d = load(path, GS_TEST);
    assert_true(d->count == 2 && d->inputs[0] == 3 && d->inputs[2] == 3);
    gs_dataset_free(d);
    d = load(path, GS_TRAIN);
    assert_true(d->count == 18 && d->inputs[18] == 1 && d->inputs[34] == 1);
    gs_dataset_free(d);
    assert_prints(0, "18 images to train on, 2 to test",
                  "train --data %s --model softmax --batch 4 --epochs 1", path);
    assert_prints(2, "all.csv would replace a file of --data ", "predict --load x --data %s -o %s", path,
                  path);
}

TEST(what_is_wrong) {
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"", "train.csv is empty; wanted lines of numbers with commas between them"},
        {"\n \r\n", "train.csv is empty"},
        {"a,b\n", "train.csv has 0 samples to train on; wanted 1 to"},
        {"1\n2\n", "train.csv, line 1, column 1: it is the only kind of column; wanted inputs before"},
        {"target,target\n1,2\n", "line 1, column 2: it is the only kind of column"},
        {"1,2,3\n1,2\n", "line 2, column 2: the line ends here; wanted 3 columns, as in the first line"},
        {"1,2\n\n1,2,3\n", "line 3, column 3: the line goes on here; wanted 2 columns"},
        {"\n\n1,2\n1,x\n", "line 4, column 2: 'x' is no number"},
        {"1,2\n3x,2\n", "line 2, column 1: '3x' is no number"},
        {"1,2\n1,\n", "line 2, column 2: '' is no number"},
        {"a,b\n\x1b[1m,2\n", "line 2, column 1: '\\x1b[1m' is no number"},
        {"1,x,2\n1,2,3\n", "line 1, column 2: 'x' is no number"},
        {"1,2\nnan,2\n", "line 2, column 1: 'nan' is no finite number"},
        {"1,2\n1e39,2\n", "line 2, column 1: '1e39' is no finite number"},
        {"1,1.5\n", "line 1, column 2: the label is 1.5; wanted a whole number from 0 to 255"},
        {"1,1\n1,256\n", "line 2, column 2: the label is 256; wanted"},
        {"1,1\n1,-1\n", "line 2, column 2: the label is -1; wanted"},
    };
    const char *folder = gs_test_folder();
    gs_dataset *d;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_text(in_folder(folder, "train.csv"), cases[i].text);
        gs_status status = gs_dataset_load(folder, GS_TRAIN, &d);
        if (status != GS_E_FORMAT || !strstr(gs_message(), cases[i].says))
            fail_msg("case %zu: wanted '%s', got %d: %s", i, cases[i].says, (int)status, gs_message());
    }
    assert_fails(GS_E_FILE, " has no test.csv", gs_dataset_load(folder, GS_TEST, &d));
    write_text(in_folder(folder, "train-images.npy"), ""); /* now the folder counts as .npy */
    assert_fails(GS_E_FILE, " has no train-labels.npy", gs_dataset_load(folder, GS_TRAIN, &d));
    assert_fails(
        GS_E_USAGE, "only CIFAR-100 has coarse labels",
        gs_dataset_load_with(in_folder(folder, "train.csv"), GS_TRAIN, GS_LABELS_COARSE, NULL, NULL, &d));
}
