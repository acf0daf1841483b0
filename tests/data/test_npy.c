/* .npy files as data: which load, which do not, and runs on them. */
#include "io/npy.h"
#include "tests/support/files.h"
#include "tests/support/program.h"

#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

/* Writes a version 1 file with this header text, padded as NumPy pads it, and these bytes. */
static void write_npy_text(const char *path, const char *text, const void *data, size_t bytes) {
    size_t length = strlen(text);
    const char *padded = gs_test_format("%-*s\n", (int)((10 + length + 64) / 64 * 64 - 10 - 1), text);
    length = strlen(padded);
    FILE *f = gs_test_open(path, "wb");
    fwrite("\x93NUMPY\x01\x00", 1, 8, f);
    fputc((int)(length & 255), f);
    fputc((int)(length >> 8), f);
    fwrite(padded, 1, length, f);
    if (bytes > 0) assert_int_equal(fwrite(data, 1, bytes, f), bytes);
    assert_int_equal(fclose(f), 0);
}

static void write_npy(const char *path, const char *type, const char *shape, const void *data, size_t bytes) {
    const char *text = gs_test_format("{'descr': '%s', 'fortran_order': False, 'shape': %s, }", type, shape);
    write_npy_text(path, text, data, bytes);
}

/* ---- arrays ---- */

static void check_array(const char *path, const char *description, size_t count, const void *data,
                        size_t bytes) {
    gs_npy a;
    assert_ok(gs_npy_load(path, &a));
    assert_string_equal(gs_npy_describe(&a).text, description);
    assert_int_equal(a.count, count);
    assert_memory_equal(a.data, data, bytes);
    free(a.data);
}

TEST(arrays_load) {
    const char *path = in_folder(gs_test_folder(), "a.npy");
    const unsigned char bytes[24] = {1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12,
                                     13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24};
    static const struct {
        const char *text, *description;
        size_t count, bytes;
    } cases[] = {
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (2, 3, 4), }", "uint8 (2,3,4)", 24, 24},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2, 1, 3), }", "float32 (1,2,1,3)", 6, 24},
        {"{'descr':'<i8','fortran_order':False,'shape':(3,)}", "int64 (3)", 3, 24},
        {"{ 'descr':'<u2' , 'fortran_order' : False , 'shape' : ( 12,) , }", "uint16 (12)", 12, 24},
        {"{'descr': '|i1', 'fortran_order': True, 'shape': (24,)}", "int8 (24)", 24,
         24}, /* with one dimension both orders are the same */
        {"{'descr': '<f8', 'fortran_order': False, 'shape': ()}", "float64 ()", 1, 8},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_npy_text(path, cases[i].text, bytes, cases[i].bytes);
        check_array(path, cases[i].description, cases[i].count, bytes, cases[i].bytes);
    }
    const float saved[6] = {1, -2, 3.5f, 0, 1e-30f, 6}; /* as predict writes them */
    assert_ok(gs_npy_save(path, saved, 2, 3));
    check_array(path, "float32 (2,3)", 6, saved, sizeof saved);
    for (int version = 2; version <= 3; version++) { /* these have a four-byte length field */
        static const char text[] = "{'descr': '<i4', 'fortran_order': False, 'shape': (6,), }\n";
        FILE *f = gs_test_open(path, "wb");
        fprintf(f, "\x93NUMPY%c%c%c%c%c%c%s", version, 0, (int)sizeof text - 1, 0, 0, 0, text);
        fwrite(bytes, 1, 24, f);
        assert_int_equal(fclose(f), 0);
        check_array(path, "int32 (6)", 6, bytes, 24);
    }
}

TEST(headers_that_are_wrong) {
    const char *path = in_folder(gs_test_folder(), "a.npy");
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3), }",
         "a.npy: uint8 (2,3) is in Fortran order; wanted C order (numpy.ascontiguousarray)"},
        {"{'descr': '>f4', 'fortran_order': False, 'shape': (2, 3), }",
         "a.npy: the elements are big-endian, '>f4'; wanted little-endian, '<f4'"},
        {"{'descr': '|O', 'fortran_order': False, 'shape': (2, 3), }",
         "a.npy: the elements are Python objects; wanted numbers"},
        {"{ 'descr' : [('x', '<f4')], 'fortran_order': False, 'shape': (2, 3), }",
         "a.npy: the elements are records; wanted plain numbers"},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (3,,4), }", "its header is damaged at ',4), }"},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (2, ,3), }", "its header is damaged at ',3), }"},
        {"{'descr': '<U8', 'fortran_order': False, 'shape': (2, 3), }",
         "a.npy: the elements are of type '<U8'; wanted whole or floating-point numbers of 1 to 8 bytes"},
        {"{'descr': '|b1', 'fortran_order': False, 'shape': (2, 3), }", "are of type '|b1'"},
        {"{'descr': '<c8', 'fortran_order': False, 'shape': (2, 3), }", "are of type '<c8'"},
        {"{'descr': '<f16', 'fortran_order': False, 'shape': (2, 3), }", "are of type '<f16'"},
        {"{'descr': '<f3', 'fortran_order': False, 'shape': (2, 3), }", "are of type '<f3'"},
        {"{'descr': '|f1', 'fortran_order': False, 'shape': (2, 3), }", "are of type '|f1'"},
        {"{'descr': '', 'fortran_order': False, 'shape': (2, 3), }", "damaged at '{'descr': '', '"},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (0, 3), }",
         "a.npy: it is uint8 (0,3); no size may be 0"},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (4294967296, 4294967296, 2), }",
         "a.npy: it is uint8 (4294967296,4294967296,2): more bytes than a file can have"},
        {"{'descr': '<i8', 'fortran_order': False, 'shape': (2305843009213693952,), }",
         "more bytes than a file can have"},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (99999999999999999999999999,), }",
         "a.npy: it is uint8 (18446744073709551615): more bytes than a file can have"},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (1, 1, 1, 1, 1), }",
         "the array has more than 4 sizes"},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (2, 3, 1000), }",
         "a.npy is truncated: it has 134 bytes; wanted 6128 (uint8 (2,3,1000))"},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (5,), }",
         "a.npy has 134 bytes; wanted 133, as its header states (uint8 (5))"},
        {"", "its header is damaged at ' "},
        {"{}", "its header is damaged at '{}"},
        {"['descr']", "its header is damaged at '['descr']"},
        {"{'descr': '|u1', 'fortran_order': False}", "its header is damaged at '{'descr'"},
        {"{'descr': '|u1', 'fortran_order': 0, 'shape': (6,)}", "its header is damaged at '{'descr'"},
        {"{'descr': '|u1', 'fortran_order': Falser, 'shape': (6,)}", "its header is damaged at '{'descr'"},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': [6]}", "its header is damaged at '{'descr'"},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (-6,)}", "its header is damaged at '-6,)}"},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (6 2)}", "its header is damaged at ' 2)}"},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (6,)", "its header is damaged at ')"},
        {"{'descr': '|u1', 'descr': '|u1', 'shape': (6,)}", "its header is damaged at '{'descr'"},
        {"{'more': 1, 'descr': '|u1', 'fortran_order': False, 'shape': (6,)}",
         "its header is damaged at '{'more': 1"},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (6,)} x", "its header is damaged at 'x"},
        {"{'descr': '|u1, 'fortran_order': False, 'shape': (6,)}", "its header is damaged at '{'descr'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gs_npy a;
        write_npy_text(path, cases[i].text, "abcdef", 6);
        gs_status status = gs_npy_load(path, &a);
        if (status != GS_E_FORMAT || !strstr(gs_message(), cases[i].says))
            fail_msg("%s: wanted '%s', got %d: %s", cases[i].text, cases[i].says, (int)status, gs_message());
        assert_null(a.data);
    }
}

TEST(files_that_are_none) {
    const char *folder = gs_test_folder(), *path = in_folder(folder, "a.npy");
    gs_npy a;
    static const struct {
        const char *bytes;
        int count;
        const char *says;
    } cases[] = {
        {"", 0, "a.npy is empty; wanted one array"},
        {"\x93NUMPY\x01", 7, "a.npy is truncated: it has 7 bytes; wanted 12 (the header alone)"},
        {"\x93NUMPY\x01\x00\x76\x00{'", 12,
         "a.npy is truncated: it has 12 bytes; wanted 128 (the header alone)"},
        {"\x93NUMPY\x04\x00\x76\x00{'", 12, "it is of version 4.0 of the format; wanted 1.0, 2.0 or 3.0"},
        {"\x93NUMPY\x01\x01\x76\x00{'", 12, "it is of version 1.1 of the format"},
        {"\x93NUMPY\x02\x00\x00\x00\x00\x7f", 12,
         "its header has 2130706432 bytes; at most 1048576 are allowed"},
        {"PK\x03\x04xxxxxxxx", 12, "a.npy is a zip archive; wanted one array, as numpy.save writes it"},
        {"just a text\n", 12,
         "the first bytes are 6a 75 73 74 20 61; wanted 93 4e 55 4d 50 59, as of each .npy file"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_raw(path, cases[i].bytes, (size_t)cases[i].count);
        assert_fails(GS_E_FORMAT, cases[i].says, gs_npy_load(path, &a));
    }
    unlink(path);
    assert_fails(GS_E_FILE, "a.npy: No such file", gs_npy_load(path, &a));
    assert_int_equal(mkfifo(path, 0600), 0); /* opening it would block forever */
    assert_fails(GS_E_FILE, "a.npy: it is not a regular file", gs_npy_load(path, &a));
}

/* A file truncated at any byte is never accepted as an array. */
TEST(cut_off_anywhere) {
    const char *path = in_folder(gs_test_folder(), "a.npy");
    const float x[5] = {1, 2, 3, 4, 5};
    for (int cut = 0; cut < 128 + 20; cut++) {
        gs_npy a;
        assert_ok(gs_npy_save(path, x, 5, 1));
        assert_int_equal(truncate(path, cut), 0);
        if (gs_npy_load(path, &a) != GS_E_FORMAT) fail_msg("truncated at %d: %s", cut, gs_message());
    }
}

/* ---- sets ---- */

enum { TRAIN = 5, TEST = 2, MOST = 5 * 3 * 4 * 4 };

static unsigned char pixel(int i) {
    return (unsigned char)(i * 37 + 5);
}

/* Writes a split: `count` images of this type and shape (without the count), and their labels. */
static void write_split(const char *folder, const char *name, int count, const char *type, const char *shape,
                        int size, const char *label_type) {
    unsigned char bytes[MOST], labels[TRAIN * 8] = {0};
    float floats[MOST];
    char path[600], text[80];
    const bool of_floats = strcmp(type, "<f4") == 0;
    const int width = label_type[2] - '0';
    for (int i = 0; i < count * size; i++) bytes[i] = pixel(i);
    for (int i = 0; i < count * size; i++) floats[i] = (float)pixel(i) / 4;
    for (int i = 0; i < count; i++) labels[i * width] = (unsigned char)(3 * i % 10);
    snprintf(path, sizeof path, "%s/%s-images.npy", folder, name);
    snprintf(text, sizeof text, "(%d, %s)", count, shape);
    write_npy(path, type, text, of_floats ? (void *)floats : bytes,
              (size_t)(count * size) * (of_floats ? 4 : 1));
    snprintf(path, sizeof path, "%s/%s-labels.npy", folder, name);
    snprintf(text, sizeof text, "(%d,)", count);
    write_npy(path, label_type, text, labels, (size_t)(count * width));
}

static void check_split(const char *where, gs_split split, gs_shape shape, bool of_floats) {
    const int count = split == GS_TRAIN ? TRAIN : TEST;
    gs_dataset *d = gs_test_load(where, split);
    assert_int_equal(d->count, count);
    assert_true(gs_shape_same(d->shape, shape));
    assert_int_equal(d->classes, split == GS_TRAIN ? 10 : 4);
    assert_true(of_floats == (d->inputs != NULL) && of_floats == !d->images);
    for (int i = 0; i < count * (int)gs_shape_size(shape); i++) {
        const float value = of_floats ? d->inputs[i] * 4 : (float)d->images[i];
        assert_int_equal((int)value, pixel(i));
    }
    for (int i = 0; i < count; i++) assert_int_equal(d->labels[i], 3 * i % 10);
}

TEST(sets_load) {
    static const struct {
        const char *type, *shape, *label_type;
        gs_shape is;
    } cases[] = {
        {"|u1", "4, 4", "|u1", {1, 4, 4, 0}},    {"<f4", "4, 4", "<i8", {1, 4, 4, 0}},
        {"|u1", "3, 4, 4", "<i4", {3, 4, 4, 0}}, {"<f4", "3, 2, 4", "|i1", {3, 2, 4, 0}},
        {"|u1", "7", "<u2", {7, 1, 1, 0}},       {"<f4", "7", "<u8", {7, 1, 1, 0}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int size = (int)gs_shape_size(cases[i].is);
        const bool of_floats = cases[i].type[1] == 'f';
        const char *folder = gs_test_folder();
        write_split(folder, "train", TRAIN, cases[i].type, cases[i].shape, size, cases[i].label_type);
        write_split(folder, "test", TEST, cases[i].type, cases[i].shape, size, cases[i].label_type);
        for (int split = 0; split < 2; split++)
            check_split(folder, split ? GS_TEST : GS_TRAIN, cases[i].is, of_floats);
    }
}

static const char *good_folder(void) {
    const char *folder = gs_test_folder();
    write_split(folder, "train", TRAIN, "|u1", "4, 4", 16, "<i8");
    write_split(folder, "test", TEST, "|u1", "4, 4", 16, "<i8");
    return folder;
}

TEST(sets_that_do_not_load) {
    static const int64_t numbers[6] = {1, -1, 256, INT64_MIN, 2, 3};
    static const uint64_t large[5] = {1, 2, UINT64_MAX, 3, 4};
    static const float bad[5] = {1, 2, NAN, 3, 4};
    static const unsigned char pictures[90];
    static const struct {
        const char *file, *type, *shape;
        const void *data;
        int bytes;
        const char *says;
    } cases[] = {
        {"train-labels.npy", "<i8", "(4,)", numbers, 32, "train-labels.npy has 4 labels, but "},
        {"train-labels.npy", "<i8", "(5,)", numbers, 40,
         "train-labels.npy: the label of sample 1 is -1; wanted 0 to 255"},
        {"train-labels.npy", "<i8", "(5,)", numbers + 1, 40, "the label of sample 0 is -1; wanted 0 to 255"},
        {"train-labels.npy", "<u8", "(5,)", large, 40,
         "the label of sample 2 is 18446744073709551615; wanted 0 to 255"},
        {"train-labels.npy", "<f4", "(5,)", bad, 20,
         "train-labels.npy is float32 (5); wanted whole numbers of shape (n)"},
        {"train-labels.npy", "|u1", "(5, 1)", bad, 5,
         "train-labels.npy is uint8 (5,1); wanted whole numbers of shape (n)"},
        {"train-images.npy", "|u1", "(5,)", bad, 5,
         "train-images.npy is uint8 (5); wanted (n,h,w), (n,c,h,w) or (n,features)"},
        {"train-images.npy", "<i8", "(5, 1)", numbers, 40,
         "train-images.npy is int64 (5,1); wanted uint8 or float32 (in Python: x.astype('float32'))"},
        {"train-images.npy", "<f8", "(1, 5)", numbers, 40, "is float64 (1,5); wanted uint8 or float32"},
        {"train-images.npy", "|u1", "(1, 6, 5, 3)", pictures, 90,
         "train-images.npy is uint8 (1,6,5,3), which looks like (n,h,w,c); wanted the channels first, "
         "(n,c,h,w) (in Python: x.transpose(0, 3, 1, 2)); if it is (n,c,h,w), with images 5 high and 3 "
         "wide, lay them on their side: x.transpose(0, 1, 3, 2)"},
        {"train-images.npy", "<f4", "(5, 1)", bad, 20, "train-images.npy: a number of sample 2 is "},
        {"train-images.npy", "|u1", "(4, 5)", bad, 20, "train-labels.npy has 5 labels, but "},
    };
    gs_dataset *d;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *folder = good_folder();
        write_npy(in_folder(folder, cases[i].file), cases[i].type, cases[i].shape, cases[i].data,
                  (size_t)cases[i].bytes);
        gs_status status = gs_dataset_load(folder, GS_TRAIN, &d);
        if (status != GS_E_FORMAT || !strstr(gs_message(), cases[i].says))
            fail_msg("case %zu: wanted '%s', got %d: %s", i, cases[i].says, (int)status, gs_message());
        check_split(folder, GS_TEST, (gs_shape){1, 4, 4, 0}, false);
    }
    const char *folder = good_folder();
    assert_fails(GS_E_USAGE, "has one label for each image: only CIFAR-100 has coarse labels",
                 gs_dataset_load_with(folder, GS_TRAIN, GS_LABELS_COARSE, NULL, NULL, &d));
    unlink(in_folder(folder, "train-labels.npy"));
    assert_fails(GS_E_FILE, " has no train-labels.npy", gs_dataset_load(folder, GS_TRAIN, &d));
    write_text(in_folder(folder, "train-images-idx3-ubyte"), "");
    assert_fails(GS_E_FORMAT, "has .npy and MNIST's files; wanted one set",
                 gs_dataset_load(folder, GS_TEST, &d));
}

/* ---- runs ---- */

TEST(program) {
    const char *folder = good_folder();
    assert_prints(0, "5 images to train on, 2 to test",
                  "train --data %s --model softmax --batch 2 --epochs 1 --save %s/w", folder, folder);
    assert_prints(2, "test-images.npy would replace a file of --data ",
                  "predict --load x --data %s -o %s/./test-images.npy", folder, folder);
    const char *alone = gs_test_folder();
    write_split(alone, "test", TEST, "|u1", "4, 4", 16, "<i8");
    assert_prints(0, "test accuracy", "eval --load %s/w --data %s", folder, alone);
    assert_prints(1, "has no train-images.npy", "train --data %s", alone);
    assert_prints(0, "5 images to train on, 2 to test",
                  "train --data %s --model softmax --batch 2 --epochs 1 --augment flip,crop:1", folder);
    write_split(folder, "train", TRAIN, "<f4", "4, 4", 16, "|u1");
    assert_prints(2, "(train) holds floats, ", "train --data %s --model softmax --batch 2 --epochs 1",
                  folder);
    write_split(folder, "test", TEST, "<f4", "4, 4", 16, "|u1");
    assert_prints(0, "done ", "train --data %s --model softmax --batch 2 --epochs 1 --save %s/f", folder,
                  folder);
    assert_prints(0, "test accuracy", "eval --load %s/f --data %s", folder, folder);
    assert_prints(2, "(train) holds floats, which are taken as they are: --mean and --std are for bytes",
                  "train --data %s --model softmax --mean 0.5", folder);
    assert_prints(0, "logits (2, 10)", "predict --load %s/f --data %s -o %s/out.npy", folder, folder, folder);
    gs_npy a;
    assert_ok(gs_npy_load(in_folder(folder, "out.npy"), &a));
    assert_string_equal(gs_npy_describe(&a).text, "float32 (2,10)");
    free(a.data);
}
