/* The basis of the labs: hooks that replace a scheme or an operator. tests/lessons/labs.sh tests the grader, which
 * needs the labs' programs. */
#include "tests/support/training.h"

#include <stdatomic.h>

static gs_status fill_with_7(gs_sync *s, float *data, size_t count) {
    (void)s;
    for (size_t i = 0; i < count; i++) data[i] = 7;
    return GS_OK;
}

static const gs_sync_scheme mine = {.name = "ring", .what = "7 everywhere", .sum = fill_with_7};
static const gs_sync_scheme second = {.name = "ring", .what = "again", .sum = fill_with_7};

TEST(a_scheme_is_replaced_by_name) {
    const gs_sync_scheme *found;
    int place = 0;
    while (gs_sync_schemes()[place] != &gs_sync_ring) place++;
    assert_ok(gs_sync_replace("ring", &mine));
    assert_ok(gs_sync_find("ring", &found));
    assert_ptr_equal(found, &mine);
    assert_ptr_equal(gs_sync_schemes()[place], &mine);
    assert_ok(gs_sync_replace("ring", &second)); /* replaces one that is already replaced */
    assert_ptr_equal(gs_sync_schemes()[place], &second);
    assert_ok(gs_sync_find("tree", &found));
    assert_ptr_equal(found, &gs_sync_tree);
    assert_ok(gs_sync_replace("ring", NULL));
    assert_ptr_equal(gs_sync_schemes()[place], &gs_sync_ring);
}

TEST(only_a_scheme_of_the_same_name_replaces) {
    assert_fails(GS_E_USAGE, "the scheme 'ring' cannot replace 'tree'", gs_sync_replace("tree", &mine));
    assert_fails(GS_E_USAGE, "'rnig'; choose one of:",
                 gs_sync_replace("rnig", &(const gs_sync_scheme){.name = "rnig", .sum = fill_with_7}));
    assert_fails(GS_E_USAGE, "'rnig'; choose one of:", gs_sync_replace("rnig", NULL));
    const gs_sync_scheme *found;
    assert_ok(gs_sync_find("tree", &found));
    assert_ptr_equal(found, &gs_sync_tree);
}

static atomic_int sums;

static gs_status counted_ring(gs_sync *s, float *data, size_t count) {
    sums++;
    return gs_sync_ring.sum(s, data, count);
}

/* A replaced scheme sums the gradients of a real training run, and the run's result does not change. */
TEST(training_sums_by_the_replaced_scheme) {
    static const gs_sync_scheme counted = {.name = "ring", .what = "a ring that counts", .sum = counted_ring};
    gs_settings settings = gs_test_settings("cpu,cpu --sync ring");
    gs_result before = gs_test_train(&settings);
    sums = 0;
    assert_ok(gs_sync_replace("ring", &counted));
    gs_result after = gs_test_train(&settings);
    assert_ok(gs_sync_replace("ring", NULL));
    assert_in_range(sums, 2 * GS_TEST_STEPS,
                    2 * GS_TEST_STEPS + 8); /* on each worker, plus once at the end of each epoch */
    assert_same_bits(&before, &after, "a replaced ring");
}

TEST(schemes_are_timed_by_size) {
    assert_prints(0, "\nring   ", "schemes -n 3 --seconds 0");
    assert_prints(0, "\"scheme\":\"tree\",\"over\":\"gloo\",\"ranks\":2,\"bytes\":16777216,",
                  "schemes -n 2 --over gloo --seconds 0 --json");
    assert_prints(2, "unknown --over 'tcp'; choose one of: threads, shm, gloo", "schemes --over tcp");
    assert_prints(2, "-n: '1' is not a whole number from 2 to 16", "schemes -n 1");
}

/* What is being measured is shown only on a terminal (test_usage.c). */
TEST(schemes_in_a_pipe_show_nothing_meanwhile) {
    assert_null(strstr(gs_test_output(0, "schemes -n 2 --seconds 0.6"), " of 5 sizes), turn "));
}

static gs_status relu_of_7(gs_device *d, gs_mem y, gs_mem x, size_t count) {
    (void)x;
    return d->ops->fill(d, y, 7, count);
}

static void put_relu(gs_backend *b) {
    b->relu_forward = relu_of_7;
}

static void put_nothing(gs_backend *b) {
    (void)b;
}

static float relu_of(gs_device *d, float value) {
    gs_mem x;
    float y = 0;
    assert_ok(d->ops->alloc(d, sizeof value, &x));
    assert_ok(d->ops->write(d, x, &value, sizeof value));
    assert_ok(d->ops->relu_forward(d, x, x, 1));
    assert_ok(d->ops->read(d, &y, x, sizeof y));
    d->ops->free(d, x);
    return y;
}

static float relu_of_new_device(float value) {
    gs_device *d;
    assert_ok(gs_device_open("cpu", 1, &d));
    float y = relu_of(d, value);
    gs_device_close(d);
    return y;
}

TEST(an_operator_is_replaced_for_devices_opened_later) {
    gs_device *before;
    assert_ok(gs_device_open("cpu", 1, &before));
    gs_backend_replace(put_relu);
    assert_true(relu_of_new_device(-3) == 7);
    assert_true(relu_of(before, -3) == 0);
    gs_backend_replace(put_nothing); /* put_nothing receives the library's own table */
    assert_true(relu_of_new_device(-3) == 0);
    gs_backend_replace(put_relu);
    gs_backend_replace(NULL);
    assert_true(relu_of_new_device(-3) == 0);
    gs_device_close(before);
}
