/* --augment: which samples are changed and how, as augment.h defines it. test_augment_runs.c tests it in runs. */
#include "tests/support/devices.h"
#include "tests/support/files.h"
#include "tests/support/program.h"
#include "tests/support/tiny_set.h"

#include "core/philox.h"
#include "data/order.h"

enum { COUNT = 37, MOST_BYTES = 3 * 7 * 9 * (int)sizeof(float), SEED = 11 };

static unsigned char bytes[COUNT * MOST_BYTES], labels[COUNT];
static float floats[COUNT * MOST_BYTES];

/* No element is 0, so that every 0 comes from augmentation; neighbours differ. */
static gs_dataset set_of(gs_shape shape, bool of_floats) {
    const size_t size = gs_shape_size(shape);
    for (size_t i = 0; i < COUNT * size; i++) {
        bytes[i] = (unsigned char)(1 + (i * 37 + i / 251) % 255);
        floats[i] = (float)(i + 1) / 8;
    }
    for (int i = 0; i < COUNT; i++) labels[i] = (unsigned char)(i % 10);
    gs_dataset d = {.name = "made up", .count = COUNT, .shape = shape, .classes = 10, .labels = labels};
    if (of_floats)
        d.inputs = floats;
    else
        d.images = bytes;
    return d;
}

/* ---- each picture ---- */

/* The index in the original picture from which element (i, j) of the augmented one comes; -1 if that element is 0. */
static int place_of(const gs_augment *a, int h, int w, const uint32_t word[8], int i, int j) {
    const int down = (int)((uint64_t)word[0] * (uint64_t)(2 * a->crop + 1) >> 32) - a->crop;
    const int right = (int)((uint64_t)word[1] * (uint64_t)(2 * a->crop + 1) >> 32) - a->crop;
    const int row = (int)((uint64_t)word[4] * (uint64_t)h >> 32),
              column = (int)((uint64_t)word[5] * (uint64_t)w >> 32);
    const int top = row - a->cutout / 2, left = column - a->cutout / 2;
    if (i >= top && i < top + a->cutout && j >= left && j < left + a->cutout) return -1;
    if (a->flip && word[2] >= 0x80000000u) j = w - 1 - j;
    i += down;
    j += right;
    return i >= 0 && i < h && j >= 0 && j < w ? i * w + j : -1;
}

static void check_sample(const gs_augment *a, const gs_dataset *d, uint64_t epoch, uint32_t sample,
                         const void *got) {
    const int h = d->shape.h, w = d->shape.w;
    uint32_t word[8];
    gs_philox(SEED, gs_stream_hi(GS_STREAM_AUGMENT, epoch), 2 * (uint64_t)sample, word);
    gs_philox(SEED, gs_stream_hi(GS_STREAM_AUGMENT, epoch), 2 * (uint64_t)sample + 1, word + 4);
    for (int c = 0; c < d->shape.c; c++)
        for (int i = 0; i < h; i++)
            for (int j = 0; j < w; j++) {
                const int from = place_of(a, h, w, word, i, j), to = (c * h + i) * w + j;
                const size_t at = sample * gs_shape_size(d->shape) + (size_t)(c * h * w + from);
                const float value =
                    d->inputs ? ((const float *)got)[to] : (float)((const unsigned char *)got)[to];
                const float wanted = from < 0 ? 0 : d->inputs ? floats[at] : (float)bytes[at];
                if (value < wanted || value > wanted)
                    fail_msg("sample %u, epoch %d, channel %d, (%d,%d): %g, wanted %g", sample, (int)epoch, c,
                             i, j, (double)value, (double)wanted);
            }
}

static const gs_augment cases[] = {{4, true, 3, false},  {1, false, 0, false}, {0, true, 0, false},
                                   {0, false, 6, false}, {6, false, 1, false}, {2, true, 0, false},
                                   {0, true, 2, false},  {3, false, 4, false}};
enum { CASES = sizeof cases / sizeof *cases };

TEST(each_picture_is_as_stated) {
    static const gs_shape shapes[] = {{3, 7, 9, 0}, {1, 8, 7, 0}, {2, 7, 7, 1}};
    float got[MOST_BYTES];
    for (int k = 0; k < 2 * 3 * CASES; k++) {
        const gs_dataset d = set_of(shapes[k / 2 % 3], k % 2);
        const gs_augment *a = &cases[k / 6];
        assert_ok(gs_augment_check(a, &d));
        for (uint64_t epoch = 1; epoch <= 3; epoch++)
            for (uint32_t sample = 0; sample < COUNT; sample++) {
                memset(got, 0x55, sizeof got);
                gs_augment_sample(a, &d, SEED, epoch, sample, got);
                check_sample(a, &d, epoch, sample, got);
                const unsigned char *behind = (unsigned char *)got + gs_dataset_input_bytes(&d);
                if (behind < (unsigned char *)got + sizeof got) assert_int_equal(*behind, 0x55);
            }
    }
}

/* How often each value is drawn in 9,000 draws: each of 9 offsets 1,000 times, give or take 30; half are flipped. */
TEST(all_draws_are_equally_likely) {
    enum { DRAWS = 9000 };
    const gs_shape shape = {1, 3, 3, 0};
    static unsigned char corner[DRAWS * 9];
    gs_dataset d = {
        .name = "corners", .count = DRAWS, .shape = shape, .images = corner, .labels = NULL, .classes = 10};
    int places[9] = {0}, flipped = 0, cut[9] = {0};
    for (size_t i = 0; i < DRAWS; i++)
        for (int k = 0; k < 9; k++) corner[i * 9 + k] = (unsigned char)(k + 1);
    for (size_t i = 0; i < DRAWS; i++) {
        unsigned char got[9];
        gs_augment_sample(&(gs_augment){1, false, 0, false}, &d, SEED, 1, i, got);
        places[got[4] - 1]++; /* the original place of the middle element */
        gs_augment_sample(&(gs_augment){0, true, 0, false}, &d, SEED, 1, i, got);
        assert_true(got[0] == 1 || got[0] == 3);
        flipped += got[0] == 3;
        gs_augment_sample(&(gs_augment){0, false, 1, false}, &d, SEED, 1, i, got);
        for (int k = 0; k < 9; k++) cut[k] += got[k] == 0;
    }
    for (int k = 0; k < 9; k++)
        if (places[k] < 850 || places[k] > 1150 || cut[k] < 850 || cut[k] > 1150)
            fail_msg("offset %d: moved there %d times, cut out %d times, of %d", k, places[k], cut[k], DRAWS);
    if (flipped < 4200 || flipped > 4800) fail_msg("%d of %d are flipped", flipped, DRAWS);
}

/* Changing the seed, the epoch or the sample changes the draws, and the draws do not depend on each other. */
TEST(draws_are_independent) {
    const gs_dataset d = set_of((gs_shape){3, 7, 9, 0}, false);
    const gs_augment crop = {3, false, 0, false}, flip = {0, true, 0, false}, both = {3, true, 0, false};
    int by_epoch = 0, by_seed = 0;
    for (size_t i = 0; i < COUNT; i++) {
        unsigned char a[189], b[189], c[189], cropped[189], flipped[189], one[189];
        gs_augment_sample(&both, &d, SEED, 1, i, a);
        gs_augment_sample(&both, &d, SEED, 2, i, b);
        gs_augment_sample(&both, &d, SEED + 1, 1, i, c);
        by_epoch += memcmp(a, b, sizeof a) != 0;
        by_seed += memcmp(a, c, sizeof a) != 0;
        gs_augment_sample(&crop, &d, SEED, 1, i, cropped);
        gs_augment_sample(&flip, &d, SEED, 1, i, flipped);
        const bool turned = memcmp(flipped, bytes + i * 189, 189) != 0;
        for (int k = 0; k < 189; k++) one[k] = turned ? cropped[k / 9 * 9 + 8 - k % 9] : cropped[k];
        assert_memory_equal(a, one, sizeof a);
    }
    assert_true(by_epoch > COUNT / 2 && by_seed > COUNT / 2);
}

/* ---- the loader ---- */

/* In any division into parts, passes and micro-batches, a sample depends only on its number, epoch and seed. */
TEST(the_layout_decides_nothing) {
    const gs_dataset d = set_of((gs_shape){3, 7, 9, 0}, false);
    static const struct {
        size_t batch, most;
        int parts, passes;
    } layouts[] = {{COUNT, COUNT, 1, 1}, {10, 3, 2, 1}, {10, 100, 4, 2}, {7, 1, 3, 1}, {COUNT, 5, 8, 3}};
    for (size_t k = 0; k < sizeof layouts / sizeof *layouts; k++)
        for (int part = 0; part < layouts[k].parts; part++) {
            const gs_schedule s = {.count = COUNT,
                                   .batch = layouts[k].batch,
                                   .parts = layouts[k].parts,
                                   .first_part = part,
                                   .mine = 1,
                                   .passes = layouts[k].passes,
                                   .most = layouts[k].most,
                                   .epochs = 3};
            gs_schedule_position at = {0};
            gs_micro_batch micro_batch;
            gs_loader *loader;
            uint32_t order[COUNT];
            assert_ok(gs_loader_create(&d, &s, &cases[0], SEED, 0, &loader));
            while (gs_schedule_next(&s, &at, &micro_batch)) {
                const gs_loaded *got;
                assert_ok(gs_loader_next(loader, &got));
                gs_epoch_order(SEED, micro_batch.epoch, COUNT, order);
                for (size_t i = 0; i < micro_batch.n; i++) {
                    const uint32_t sample = order[micro_batch.first + i];
                    check_sample(&cases[0], &d, micro_batch.epoch, sample,
                                 (const unsigned char *)got->inputs + i * 189);
                    assert_int_equal(((const int32_t *)got->targets)[i], labels[sample]);
                }
            }
            gs_loader_free(loader);
        }
}
