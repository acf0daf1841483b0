/* eval and predict on an image folder: what they read from the weights file and from the folder names. */
#include "tests/support/files.h"
#include "tests/support/pictures.h"
#include "tests/support/program.h"

#include <unistd.h>

/* Two classes, each with four pictures for training and two for testing. */
static const char *make_set(void) {
    const char *folder = gs_test_folder();
    static const char *const classes[] = {"ant", "b\xc3\xa4r"};
    for (int c = 0; c < 2; c++)
        for (int i = 0; i < 6; i++) {
            const char *name = gs_test_format("%s/%s/%d.png", i < 4 ? "train" : "val", classes[c], i);
            write_picture(folder, name, 6 * c + i, 24, 20);
        }
    return folder;
}

#define TRAIN "train --model 'softmax 2' --epochs 2 --batch 4 --lr 0.001 --threads 1 --data %s --save %s "

static char *train(const char *folder) {
    static char path[600];
    snprintf(path, sizeof path, "%s/w.safetensors", gs_test_folder());
    assert_prints(0, "saved", TRAIN "--save-state --size 16", folder, path);
    return path;
}

/* ---- the size ---- */

TEST(the_size_is_the_models) {
    const char *folder = make_set(), *w = train(folder);
    static const char wrong[] = "--size 32: ",
                      same[] = "holds a model for images (3,16,16); leave --size out, or give 16";
    char *said = gs_test_output(0, "eval --size 16 --threads 1 --load %s --data %s", w, folder);
    char *unsaid = gs_test_output(0, "eval --threads 1 --load %s --data %s", w, folder);
    *strstr(said, ", 1 worker") = *strstr(unsaid, ", 1 worker") = 0; /* cut where the speed begins */
    assert_string_equal(said, unsaid);
    assert_prints(0, "logits (4, 2)", "predict --load %s --data %s -o %s/p.npy", w, folder, gs_test_folder());
    assert_prints(0, "test accuracy", "eval --load %s --data %s -o %s/r.html", w, folder, gs_test_folder());
    assert_prints(0, "done     4 steps", "train --load %s --data %s --epochs 2 --batch 4", w, folder);
    assert_prints(0, "done     6 steps", "train --resume %s --epochs 3", w);
    assert_prints(2, wrong, "eval --size 32 --load %s --data %s", w, folder);
    assert_prints(2, same, "eval --size 32 --load %s --data %s", w, folder);
    assert_prints(2, same, "predict --size 224 --load %s --data %s -o p.npy", w, folder);
    assert_prints(2, same, "train --resume %s --epochs 3 --size 224", w);
    assert_prints(2, "--size is for image folders", "train --size 224 --epochs 1");
}

/* A model for images that are not square works with no image folder; other data are unaffected. */
TEST(models_of_other_data) {
    const char *folder = make_set();
    const char *w = gs_test_format("%s/w.safetensors", gs_test_folder());
    assert_prints(0, "saved", "train --model softmax --steps 1 --threads 1 --save %s", w);
    assert_prints(0, "test accuracy", "eval --load %s", w);
    assert_prints(1, "holds a model for images (1,28,28), but ", "eval --load %s --data %s", w, folder);
}

/* ---- one folder too low ---- */

/* Runs train with --data `at` in the folder `cwd`; the output must contain `part`. */
static void assert_says(const char *cwd, const char *at, const char *part) {
    assert_shell_prints(1, part, "cd %s && %s/gradsum train --data %s", cwd,
                        realpath(GS_BUILD_DIR, (char[4096]){0}), at);
}

TEST(pictures_in_the_wrong_place) {
    const char *folder = make_set();
    static const char wanted[] =
        "has pictures, but no folders train and val; wanted the folder that holds train/";
    assert_says(".", in_folder(folder, "train"), wanted);
    assert_says(".", in_folder(folder, "val//"), wanted);
    assert_says(in_folder(folder, "train"), ".", wanted);
    assert_says(folder, "train/ant", wanted);
    assert_int_equal(rename(in_folder(folder, "train"), in_folder(folder, "pictures")), 0);
    assert_says(folder, "pictures", wanted);
    write_bytes(folder, "empty/a/b.txt", "x", 1);
    assert_says(folder, "empty", "empty has no pictures" GS_DATA_FILES " files");
}

/* ---- the names ---- */

/* What eval --confusion prints after its first line begins with `head`. */
static void assert_head(const char *w, const char *folder, const char *head) {
    char *output = gs_test_output(0, "eval --load %s --data %s --threads 1 --confusion", w, folder);
    const char *list = strchr(output, '\n');
    assert_non_null(list);
    if (strncmp(list + 1, head, strlen(head)) != 0) fail_msg("%s", output);
}

TEST(classes_have_their_names) {
    const char *folder = make_set(), *w = train(folder);
    assert_head(w, folder, "\nlabel  samples  accuracy  most often taken for\nant          2 ");
    /* a longer name */
    assert_int_equal(
        rename(in_folder(folder, "train/ant"), in_folder(folder, "train/a\x1b little black ant")), 0);
    assert_int_equal(rename(in_folder(folder, "val/ant"), in_folder(folder, "val/a\x1b little black ant")),
                     0);
    assert_head(w, folder,
                "\nlabel                   samples  accuracy  most often taken for\na\\x1b little black ant  "
                "      2 ");
    const char *page = gs_test_format("%s/page.html", gs_test_folder());
    assert_prints(0, "\"class_names\":[\"a\\u001b little black ant\",\"b\xc3\xa4r\"]",
                  "eval --load %s --data %s --confusion --json -o %s", w, folder, page);
    char *output = gs_test_shell_output(0, "cat %s", page);
    assert_has(output, "\"names\":[\"a\\\\x1b little black ant\",\"b\xc3\xa4r\"]");
}

/* On eval's page a picture is at most 96 pixels wide and high, so a side of 224 shows every third pixel. */
TEST(large_pictures_are_shown_small) {
    const char *folder = make_set(), *to = gs_test_folder();
    assert_prints(0, "saved",
                  "train --model 'softmax 2' --steps 1 --batch 4 --threads 1 --data %s --save "
                  "%s/w.safetensors --size 224",
                  folder, to);
    assert_prints(0, "test accuracy", "eval --load %s/w.safetensors --data %s -o %s/r.html", to, folder, to);
    char *page = gs_test_shell_output(0, "cat %s/r.html", to);
    const cJSON *worst = gs_test_field(gs_test_page_data(page), "worst");
    const cJSON *picture = gs_test_field(cJSON_GetArrayItem(worst, 0), "picture");
    assert_int_equal(gs_test_field(picture, "h")->valueint, 74);
    assert_int_equal(gs_test_field(picture, "w")->valueint, 74);
    assert_int_equal(strlen(gs_test_field(picture, "bytes")->valuestring), (3 * 74 * 74 + 2) / 3 * 4);
}

/* .jfif files are JPEGs. Unreadable files are counted, and a class with no others is named. */
TEST(pictures_left_out_are_counted) {
    const char *folder = gs_test_folder();
    write_picture(folder, "train/ant/a.JFIF", 1, 24, 20);
    write_picture(folder, "train/bee/b.jpg", 2, 24, 20);
    write_bytes(folder, "train/bee/c.webp", "x", 1);
    write_bytes(folder, "train/bee/d.WEBP", "x", 1);
    write_picture(folder, "val/ant/a.jfif", 1, 24, 20);
    write_bytes(folder, "val/bee/b.GIF", "x", 1);
    char *output = gs_test_shell_output(
        0, "COLUMNS=999 %s/gradsum train --data %s --size 16 --model softmax --batch 2 --steps 1 2>&1",
        GS_BUILD_DIR, folder);
    const char *const said[] = {"(train) leaves out pictures that gradsum cannot read: 2 .webp; convert",
                                "(test) leaves out pictures that gradsum cannot read: 1 .gif; convert",
                                "(test) has no pictures of bee: "};
    for (size_t k = 0; k < sizeof said / sizeof *said; k++) assert_has(output, said[k]);
    static const char of_val[] = "/val leaves out pictures that gradsum cannot read: 1 .gif",
                      run[] = "--size 16 --model 'softmax 4' --batch 2 --steps 1";
    assert_prints(0, "saved", "train --data %s %s --save %s/w", folder, run, folder);
    static const char *const commands[] = {"eval", "predict"}, *const parts[] = {
                                                                   of_val, "/val has no pictures of bee: "};
    for (int k = 0; k < 4; k++)
        assert_prints(0, parts[k % 2], "%s --data %s --load %s/w%s%s", commands[k / 2], folder, folder,
                      k / 2 ? " -o " : "", k / 2 ? in_folder(folder, "p.npy") : "");
    write_picture(folder, "val/bee/b.png", 1, 24, 20);
    write_picture(folder, "train/cow/x.png", 1, 24, 20);
    write_picture(folder, "train/dog/x.png", 1, 24, 20);
    assert_prints(0, "(test) has no pictures of cow and 1 other class: ", "train --data %s %s", folder, run);
    assert_int_equal(remove(in_folder(folder, "train/cow/x.png")), 0);
    write_bytes(folder, "train/cow/x.bmp", "x", 1);
    assert_prints(1, "the class folder cow has no .jpg, .jpeg, .jfif or .png, but pictures in other",
                  "train --data %s --size 16 --model softmax --batch 2 --steps 1", folder);
}
