/* Notes on standard error: what is no error, but changes nothing or is hardly meant. */
#include "tests/program.h"

static void what_changes_nothing_is_said(void **state) {
    (void)state;
    gs_test_program_prints(0, "note: --batch-norm local changes nothing: the model has no batch_norm",
                           "train --model softmax --steps 1 --threads 1 --batch-norm local");
    gs_test_program_prints(0, "note: --names torchvision: torchvision has no model lenet",
                           "train --model lenet --steps 1 --names torchvision --save %s/w", gs_test_folder());
}

static void a_model_of_other_images(void **state) {
    (void)state;
    gs_test_program_prints(0, "resnet50 is meant for 3x224x224 (--input 3x224x224)", "model resnet50");
    char *output;
    gs_test_program(&output, "model resnet50 --input 3x224x224");
    assert_null(strstr(output, "is meant for"));
    free(output);
}

GS_TESTS(notes, cmocka_unit_test(what_changes_nothing_is_said), cmocka_unit_test(a_model_of_other_images))
