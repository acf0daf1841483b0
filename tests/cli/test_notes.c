/* Notes on standard error about usage that is not an error, but has no effect or is probably unintended. */
#include "tests/support/files.h"
#include "tests/support/program.h"

TEST(what_changes_nothing_is_said) {
    assert_prints(0, "note: --batch-norm local changes nothing: the model has no batch_norm",
                  "train --model softmax --steps 1 --threads 1 --batch-norm local");
    assert_prints(0, "note: --names torchvision: torchvision has no model lenet",
                  "train --model lenet --steps 1 --names torchvision --save %s/w", gs_test_folder());
}

TEST(a_model_of_other_images) {
    assert_prints(0, "resnet50 is meant for 3x224x224 (--input 3x224x224)", "model resnet50");
    char *output;
    gs_test_program(&output, "model resnet50 --input 3x224x224");
    assert_null(strstr(output, "is meant for"));
}

static int seven(int i, int at) {
    return (void)i, (void)at, 7;
}

static int of_three(int i) {
    return i % 3;
}

/* Not an error, but probably unintended. */
TEST(data_that_teach_little) {
    const char *folder = gs_test_folder();
    write_idx(folder, "train", 9, 28, seven, of_three);
    write_idx(folder, "t10k", 9, 28, seven, of_three);
    char *output;
    gs_test_program(&output, "train --model softmax --batch 3 --epochs 1 --data %s", folder);
    assert_has(output, "(train) has labels 0 to 2, but the model has 10 outputs", "note: all bytes of ",
               "(train) are 7: nothing can be learned from these images");
    gs_test_program(&output, "train --model softmax --steps 2");
    if (strstr(output, "note:")) fail_msg("wanted no note: %s", output);
}

/* On a terminal a note is wrapped between words; elsewhere it is one line, for grep. */
TEST(notes_are_wrapped_on_a_terminal) {
    static const char note[] =
        "gradsum train: note: --names torchvision: torchvision has no model lenet; the";
    char *output = gs_test_shell_output(0,
                                        "script -qec 'stty cols 80; %s/gradsum train --model lenet --steps 1 "
                                        "--names torchvision --save %s/w' /dev/null </dev/null",
                                        GS_BUILD_DIR, gs_test_folder());
    const char *line = strstr(output, note);
    if (!line || strncmp(line + sizeof note - 1, "\r\nnames are", 11) != 0)
        fail_msg("wanted a line that ends with '; the' in:\n%s", output);
    assert_prints(0, "no model lenet; the names are those of such layers in its ResNet and VGG",
                  "train --model lenet --steps 1 --names torchvision --save %s/w", gs_test_folder());
}
