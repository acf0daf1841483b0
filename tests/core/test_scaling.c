/* How each channel's bytes become floats (core/scaling.h), also in a run. */
#include "tests/support/program.h"

#include <float.h>

/* Expected values were computed by hand: channel 0 contains 0 and 255, channel 1 only 51, channel 2 102 and 204. */
TEST(of_a_colour_set) {
    unsigned char pixels[2][3][2] = {{{0, 255}, {51, 51}, {102, 102}}, {{255, 0}, {51, 51}, {204, 204}}};
    const gs_dataset set = {.count = 2, .shape = {3, 1, 2, 0}, .images = &pixels[0][0][0]};
    gs_scaling s = gs_dataset_scaling(&set);
    const gs_scaling want = {{3, {0.5f, 0.2f, 0.6f}}, {3, {0.5f, 1, 0.2f}}};
    assert_int_equal(s.mean.count, 3);
    assert_int_equal(s.std.count, 3);
    for (int c = 0; c < 3; c++) {
        assert_near(s.mean.of[c], want.mean.of[c], FLT_EPSILON, 0);
        assert_near(s.std.of[c], want.std.of[c], FLT_EPSILON, 0);
    }
    /* one scale for all channels: a grey image, and an image with more channels than there are scales */
    const gs_dataset grey = {.count = 2, .shape = {1, 2, 3, 0}, .images = &pixels[0][0][0]};
    const gs_dataset many = {.count = 1, .shape = {6, 1, 2, 0}, .images = &pixels[0][0][0]};
    const gs_scaling of_grey = gs_dataset_scaling(&grey), of_many = gs_dataset_scaling(&many);
    assert_int_equal(of_grey.mean.count, 1);
    assert_int_equal(of_grey.std.count, 1);
    assert_near(of_grey.mean.of[0], (0.5f + 0.2f + 0.6f) / 3, FLT_EPSILON, 0);
    assert_true(gs_by_channel_same(&of_grey.mean, &of_many.mean) &&
                gs_by_channel_same(&of_grey.std, &of_many.std));
}

TEST(texts) {
    static const char *const good[] = {"0.5", "-2", "0.49,0.48,0.45", "1,2", "0.1,0.1,0.1,1e-08"};
    static const char *const bad[] = {"",    ",",    "1,",   ",1",  "1,,2", "1 2", "1, 2",
                                      "nan", "inf,", "1e39", "0x1", "1;2",  "x",   "1,2,3,4,5"};
    char text[GS_BY_CHANNEL_TEXT];
    gs_by_channel x;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_true(gs_by_channel_read(good[i], &x));
        assert_string_equal(gs_by_channel_text(&x, text, sizeof text), good[i]);
    }
    assert_int_equal(x.count, 4);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (gs_by_channel_read(bad[i], &x)) fail_msg("'%s' was accepted", bad[i]);
    assert_int_equal(x.count, 4); /* unchanged */
    assert_string_equal(gs_by_channel_text(&(gs_by_channel){0}, text, sizeof text), "nan");
}

/* Scalings whose number of channels is not that of the images. */
TEST(other_channels) {
    const char *folder = gs_test_folder();
    assert_prints(2, "--mean has 3 numbers, one for each channel, but the images of fashion-mnist-small",
                  "train --threads 1 --steps 1 --mean 0.1,0.2,0.3");
    assert_prints(2, "--std has 2 numbers", "train --threads 1 --steps 1 --mean 0.5 --std 1,2");
    assert_prints(2, "--std: '1,0' is not a number from 1e-08", "train --std 1,0");
    char *output = gs_test_output(
        0, "train --threads 1 --steps 1 --model softmax --mean 0.25 --std 0.5 --json --save %s/w", folder);
    assert_has(output, "\"mean\":0.25,", "\"std\":0.5,");
}
