/* Notes on standard error: what is no error, but changes nothing or is hardly meant. */
#include "tests/program.h"

TEST(what_changes_nothing_is_said) {
    gs_test_program_prints(0, "note: --batch-norm local changes nothing: the model has no batch_norm",
                           "train --model softmax --steps 1 --threads 1 --batch-norm local");
    gs_test_program_prints(0, "note: --names torchvision: torchvision has no model lenet",
                           "train --model lenet --steps 1 --names torchvision --save %s/w", gs_test_folder());
}

TEST(a_model_of_other_images) {
    gs_test_program_prints(0, "resnet50 is meant for 3x224x224 (--input 3x224x224)", "model resnet50");
    char *output;
    gs_test_program(&output, "model resnet50 --input 3x224x224");
    assert_null(strstr(output, "is meant for"));
}

static void write_idx(const char *folder, const char *name, const unsigned char *head, size_t bytes, int byte,
                      int n) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    fwrite(head, 1, bytes, f);
    for (int i = 0; i < n; i++) fputc(byte < 0 ? i % 3 : byte, f);
    fclose(f);
}

/* No error, but hardly meant. */
TEST(data_that_teach_little) {
    static const char *const sets[] = {"train", "t10k"};
    const char *folder = gs_test_folder();
    const unsigned char images[] = {0, 0, 8, 3, 0, 0, 0, 9, 0, 0, 0, 28, 0, 0, 0, 28},
                        labels[] = {0, 0, 8, 1, 0, 0, 0, 9};
    for (int i = 0; i < 2; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s-images-idx3-ubyte", sets[i]);
        write_idx(folder, name, images, sizeof images, 7, 9 * 28 * 28);
        snprintf(name, sizeof name, "%s-labels-idx1-ubyte", sets[i]);
        write_idx(folder, name, labels, sizeof labels, -1, 9);
    }
    char *output;
    gs_test_program(&output, "train --model softmax --batch 3 --epochs 1 --data %s", folder);
    assert_has(output, "(train) has labels 0 to 2, but the model has 10 outputs", "note: all bytes of ",
               "(train) are 7: nothing can be learned from these images");
    gs_test_program(&output, "train --model softmax --steps 2");
    if (strstr(output, "note:")) fail_msg("nothing is wrong: %s", output);
}

/* On a terminal a note is broken between words; elsewhere it is one line, for grep. */
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
    gs_test_program_prints(0,
                           "no model lenet; the names are those that its ResNet and VGG have for such layers",
                           "train --model lenet --steps 1 --names torchvision --save %s/w", gs_test_folder());
}
