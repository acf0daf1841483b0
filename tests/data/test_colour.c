/* Colour pictures generated from grey ones: their bytes, and what a model can learn from them. */
#include "tests/support/files.h"
#include "tests/support/training.h"

#include <unistd.h>
#include "data/colour.h"

enum { PICTURE = GS_COLOUR_PICTURE, PLANE = 32 * 32 };

static void check_made(const char *name, gs_split split, uint64_t seed, size_t count, const char *sha256) {
    gs_dataset d = {0};
    char hex[65];
    assert_ok(gs_colour_make(name, split, seed, &d));
    assert_int_equal(d.count, count);
    assert_true(gs_shape_same(d.shape, (gs_shape){3, 32, 32, 0}));
    assert_int_equal(d.classes, 10);
    gs_sha256(d.images, count * PICTURE, hex);
    if (strcmp(hex, sha256) != 0) fail_msg("%s, seed %d: %s, wanted %s", name, (int)seed, hex, sha256);
    free(d.images);
    free(d.labels);
}

/* The bytes are the same on every machine, with every compiler. */
TEST(the_same_bytes_everywhere) {
    check_made("colour-fashion-small", GS_TRAIN, 1, 6000,
               "42c86bebb20c10282eff0d1058b20349adfbc6f3be86d7e0a473aa299343f358");
    check_made("colour-fashion-small", GS_TEST, 1, 1000,
               "56594d4ad73a88aeb785216df02e386bdc5a872d4cee0120dd3c4e606c40278b");
    check_made("colour-fashion-small", GS_TEST, 2, 1000,
               "1e4049723d50b180053a387969c627209846c9c25a4732ab43e143d516ba90c6");
    gs_dataset d = {0};
    if (access("/usr/share/datasets/fashion-mnist", F_OK) != 0) {
        assert_fails(GS_E_FILE,
                     "colour-fashion is made of fashion-mnist (colour-fashion-small, of what comes with "
                     "gradsum): fashion-mnist is not installed (no folder "
                     "/usr/share/datasets/fashion-mnist): apt-get install dataset-fashion-mnist",
                     gs_colour_make("colour-fashion", GS_TRAIN, 1, &d));
        return;
    }
    check_made("colour-fashion", GS_TRAIN, 1, 50000,
               "6b98016865962719b001b5718d18696f6f5d24a4058a2e6251f4ba3cd52247d7");
    check_made("colour-fashion", GS_TEST, 1, 10000,
               "f1c632515bb9d90fb27d5a703824530d3e5ba6b84207f2609e7f6f85e63ad104");
}

/* Whether the white square is at this offset. At the other 24 offsets the same area has several colours. */
static bool is_plain(const unsigned char *picture, int down, int right) {
    for (int c = 0; c < 3; c++)
        for (int i = 0; i < 28; i++)
            for (int j = 0; j < 28; j++)
                if (picture[c * PLANE + (i + down) * 32 + j + right] !=
                    picture[c * PLANE + down * 32 + right])
                    return false;
    return true;
}

/* All 25 positions are about equally frequent: in 2,500 draws each one comes 100 times, give or take 10. */
TEST(places_are_drawn) {
    enum { DRAWS = 2500 };
    unsigned char white[GS_COLOUR_GREY], picture[PICTURE];
    int at[5][5] = {{0}};
    memset(white, 255, sizeof white);
    for (uint32_t n = 0; n < DRAWS; n++) {
        int found = 0;
        gs_colour_picture(3, GS_TRAIN, n, white, picture);
        for (int place = 0; place < 25; place++)
            if (is_plain(picture, place / 5, place % 5)) {
                at[place / 5][place % 5]++;
                found++;
            }
        assert_int_equal(found, 1);
    }
    for (int place = 0; place < 25; place++)
        if (at[place / 5][place % 5] < 60 || at[place / 5][place % 5] > 140)
            fail_msg("%d down, %d right: drawn %d times of %d", place / 5, place % 5,
                     at[place / 5][place % 5], DRAWS);
}

/* A linear model could use only a byte's mean, inside and outside the object. The two agree within 4 standard errors of
 * a mean of DRAWS values, each at most 128 from its expected value. */
TEST(the_mean_tells_nothing) {
    enum { DRAWS = 20000, AT = 16 * 32 + 16 };
    unsigned char white[GS_COLOUR_GREY], black[GS_COLOUR_GREY] = {0}, picture[PICTURE];
    double object[3] = {0}, ground[3] = {0};
    memset(white, 255, sizeof white);
    for (uint32_t n = 0; n < DRAWS; n++)
        for (int is_white = 0; is_white < 2; is_white++) {
            gs_colour_picture(3, GS_TRAIN, n, is_white ? white : black, picture);
            for (int c = 0; c < 3; c++) (is_white ? object : ground)[c] += picture[c * PLANE + AT];
        }
    for (int c = 0; c < 3; c++) assert_near(object[c] / DRAWS, ground[c] / DRAWS, 4 * 128 / 141.4, 0);
}

/* Another split, sample number or seed gives another picture. */
TEST(each_has_its_own_draws) {
    unsigned char black[GS_COLOUR_GREY] = {0}, picture[5][PICTURE];
    gs_colour_picture(1, GS_TRAIN, 0, black, picture[0]);
    gs_colour_picture(1, GS_TRAIN, 1, black, picture[1]);
    gs_colour_picture(1, GS_TEST, 0, black, picture[2]);
    gs_colour_picture(2, GS_TRAIN, 0, black, picture[3]);
    gs_colour_picture(1, GS_TRAIN, 0, black, picture[4]);
    for (int i = 1; i < 4; i++) assert_true(memcmp(picture[0], picture[i], PICTURE) != 0);
    assert_memory_equal(picture[0], picture[4], PICTURE);
}

static double accuracy(const char *model, int epochs, float lr, uint64_t seed) {
    gs_settings s = gs_test_options("--data colour-fashion-small --model '%s' --threads 1", model);
    s.epochs = epochs;
    s.lr = lr;
    s.seed = seed;
    gs_result r = gs_test_train(&s);
    const double got = r.test_accuracy;
    return got;
}

/* Chance is 10 %. Softmax stays near it, and a small convolution does better. */
TEST(form_alone_tells_the_class) {
    for (uint64_t seed = 1; seed <= 5; seed++) {
        const double linear = accuracy("softmax", 3, 0.01f, seed);
        if (linear > 0.2) fail_msg("softmax, seed %d: %.1f %%", (int)seed, 100 * linear);
    }
    const double lenet = accuracy("lenet", 3, 0.05f, 1);
    if (lenet < 0.5) fail_msg("lenet: %.1f %%", 100 * lenet);
}

TEST(bad_words) {
    assert_prints(1, "did you mean colour-fashion?", "train --data color-fashion");
    assert_prints(2, "colour-fashion-small has one label for each image: only CIFAR-100 has coarse labels",
                  "train --data colour-fashion-small --labels coarse");
}
