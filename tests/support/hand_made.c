#include "tests/support/hand_made.h"

static gs_param conv_w = {.name = "0.weight", .ndim = 4, .dims = {2, 1, 1, 3}, .at = 0, .count = 6};
static gs_param conv_b = {.name = "0.bias", .ndim = 1, .dims = {2}, .at = 6, .count = 2};
static gs_param linear_w = {.name = "2.weight", .ndim = 2, .dims = {2, 4}, .at = 8, .count = 8};
static gs_param *params[] = {&conv_w, &conv_b, &linear_w};
gs_model hand_made = {.scaling = {{1, {0.25f}}, {1, {0.1f}}},
                      .text = (char[]){"conv 2 1x3, flatten, linear 2 no_bias"},
                      .in = {1, 1, 4, 0},
                      .params = 16,
                      .param = params,
                      .saved = 16,
                      .param_count = 3,
                      .saved_count = 3};

const float hand_made_values[16] = {1, -2, 3.25f, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 1e-20f};

const char *hand_made_path(void) {
    return gs_test_format("%s/w.safetensors", gs_test_folder());
}

void hand_made_write(const char *path, const char *header, size_t count) {
    const uint64_t length = strlen(header);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(&length, 1, sizeof length, f), sizeof length);
    assert_int_equal(fwrite(header, 1, length, f), length);
    assert_true(count <= sizeof hand_made_values);
    assert_int_equal(fwrite(hand_made_values, 1, count, f), count);
    assert_int_equal(fclose(f), 0);
}
