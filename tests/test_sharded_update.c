/* --sync sharded-update: a part of the update each, and the same weights as with allreduce. */
#include "tests/devices.h"
#include "tests/training.h"

#include <string.h>

/* To the bit: the sums are the same, and each weight is computed once from the same numbers. 2 to 5 workers, whose
 * parts leave a rest of the parameters; with momentum and without, with weight decay. */
static void the_same_bits_as_allreduce(void **state) {
    (void)state;
    static const char *const devices[] = {"cpu", "cpu,cpu", "cpu,cpu,cpu", "cpu,cpu,cpu,cpu,cpu"};
    for (int i = 0; i < 4; i++) {
        gs_settings s = gs_test_settings(devices[i]);
        s.momentum = i % 2 ? 0.9f : 0;
        s.weight_decay = 0.01f;
        s.verify = 5;
        gs_result whole = gs_test_train(&s);
        s.sync = "sharded-update";
        gs_result sharded = gs_test_train(&s);
        assert_same_bits(&whole, &sharded, devices[i]);
        assert_near(sharded.train_loss, whole.train_loss, 0, 0);
        gs_result_free(&whole);
        gs_result_free(&sharded);
    }
}

/* 20 parameters: more than 3 workers, and a rest of 2; fewer than 24 workers, whose parts are empty. */
static void fewer_parameters_than_workers(void **state) {
    (void)state;
    for (int workers = 3; workers <= 24; workers += 21) {
        char devices[24 * 4 + 1] = "cpu";
        for (int i = 1; i < workers; i++) strcat(devices, ",cpu");
        gs_settings s = gs_test_settings(devices);
        s.model = "global_avg_pool, flatten, linear 10";
        s.steps = 5;
        gs_result whole = gs_test_train(&s);
        assert_int_equal(whole.params, 20);
        s.sync = "sharded-update";
        gs_result sharded = gs_test_train(&s);
        assert_same_bits(&whole, &sharded, "20 parameters");
        gs_result_free(&whole);
        gs_result_free(&sharded);
    }
}

/* Over OpenCL the parts begin anywhere in a buffer, and a weight has the same bits whichever device computes it. */
static void on_opencl_too(void **state) {
    (void)state;
    int count;
    gs_device *const *device = gs_test_devices(&count);
    if (strncmp(device[count - 1]->name, "cl", 2) != 0)
        skip_because("the last of GRADSUM_TEST_DEVICES is no OpenCL device");
    gs_settings s = gs_test_settings("cl,cpu,cl");
    s.steps = 3;
    gs_result whole = gs_test_train(&s);
    s.sync = "sharded-update";
    gs_result sharded = gs_test_train(&s);
    assert_same_bits(&whole, &sharded, "cl,cpu,cl");
    gs_result_free(&whole);
    gs_result_free(&sharded);
}

static void between_processes(void **state) {
    (void)state;
    static const char *const ways[] = {"", "--transport gloo"};
    for (int i = 0; i < 2; i++) {
        char alone[65], sharded[65], arguments[300];
        const char *common = "train --model softmax --threads 1 --steps 20 --verify 10 --sync";
        snprintf(arguments, sizeof arguments, "launch -n 2 %s -- %s allreduce", ways[i], common);
        gs_test_sha256(arguments, alone);
        snprintf(arguments, sizeof arguments, "launch -n 2 %s -- %s sharded-update", ways[i], common);
        gs_test_sha256(arguments, sharded);
        assert_string_equal(alone, sharded); /* of two numbers there is one sum */
    }
}

static void what_it_says_and_what_does_not_go_with_it(void **state) {
    (void)state;
    gs_test_program_prints(0, "each updates its part of the weights",
                           "train --model softmax --sync sharded-update --devices cpu,cpu --steps 1");
    gs_test_program_prints(2, "does not work with --bucket", "train --sync sharded-update --bucket 10");
    gs_test_program_prints(2, "does not work with --wire bf16", "train --sync sharded-update --wire bf16");
    gs_test_program_prints(2, "does not work with --sync sharded-update",
                           "train --sync sharded-update --exact");
    gs_test_program_prints(2, "auto, sharded-update, local, async", "train --sync nobody --steps 1");
}

GS_TESTS(sharded_update, cmocka_unit_test(the_same_bits_as_allreduce),
         cmocka_unit_test(fewer_parameters_than_workers), cmocka_unit_test(on_opencl_too),
         cmocka_unit_test(between_processes), cmocka_unit_test(what_it_says_and_what_does_not_go_with_it))
