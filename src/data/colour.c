#include "data/colour.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "core/philox.h"
#include "io/cache.h"

enum { SIDE = 32, GREY = 28, CELL = 4, KNOTS = SIDE / CELL + 1, WHITE = 255 };

/* The words of one picture, one after the other. */
typedef struct draws {
    uint64_t seed, stream, block;
    uint32_t word[4];
    int left;
} draws;

/* A whole number from `least` to `most`. */
static int draw(draws *d, int least, int most) {
    if (d->left == 0) gs_philox(d->seed, d->stream, d->block++, d->word);
    if (d->left == 0) d->left = 4;
    const uint32_t word = d->word[4 - d->left--];
    return least + gs_random_below(word, most - least + 1);
}

/* Hue, saturation and value as red, green and blue (Smith, "Color gamut transform pairs", 1978). `hue` counts 256 steps
 * from each of red, yellow, green, cyan, blue, magenta to the next. */
static void colour_of(int hue, int saturation, int value, int rgb[3]) {
    const int rise = hue % 256, sextant = hue / 256;
    const int full[6][3] = {{255, rise, 0},       {255 - rise, 255, 0}, {0, 255, rise},
                            {0, 255 - rise, 255}, {rise, 0, 255},       {255, 0, 255 - rise}};
    for (int c = 0; c < 3; c++)
        rgb[c] = value * (WHITE * WHITE - saturation * (WHITE - full[sextant][c])) / (WHITE * WHITE);
}

static void draw_colour(draws *d, int value, int rgb[3]) {
    const int hue = draw(d, 0, 6 * 256 - 1), saturation = draw(d, 64, 191);
    colour_of(hue, saturation, value, rgb);
}

/* Between the knots of a grid that lie CELL bytes apart: 0 to 255. */
static int between(unsigned char knot[KNOTS][KNOTS], int i, int j) {
    const int k = i / CELL, l = j / CELL, down = i % CELL, right = j % CELL;
    const int above = knot[k][l] * (CELL - right) + knot[k][l + 1] * right;
    const int below = knot[k + 1][l] * (CELL - right) + knot[k + 1][l + 1] * right;
    return (above * (CELL - down) + below * down) / (CELL * CELL);
}

void gs_colour_picture(uint64_t seed, gs_split split, uint32_t number,
                       const unsigned char grey[GS_COLOUR_GREY], unsigned char out[GS_COLOUR_PICTURE]) {
    enum { PLANE = SIDE * SIDE, PATTERN = 40 };
    draws d = {seed, gs_stream_hi(GS_STREAM_COLOUR, (uint64_t)split << 32 | number), 0, {0}, 0};
    const int down = draw(&d, 0, SIDE - GREY), right = draw(&d, 0, SIDE - GREY);
    /* dark - PATTERN and bright + PATTERN lie in 0 to 255, each as far from its end as the other */
    const int dark = draw(&d, PATTERN, 80), bright = draw(&d, WHITE - 80, WHITE - PATTERN);
    const bool object_is_bright = draw(&d, 0, 1) == 1;
    const int ground = object_is_bright ? dark : bright;

    int object[3], first[3], second[3];
    draw_colour(&d, object_is_bright ? bright : dark, object);
    draw_colour(&d, ground - PATTERN, first);
    draw_colour(&d, ground + PATTERN, second);
    unsigned char knot[KNOTS][KNOTS];
    for (int k = 0; k < KNOTS; k++)
        for (int l = 0; l < KNOTS; l++) knot[k][l] = (unsigned char)draw(&d, 0, WHITE);

    for (int i = 0; i < SIDE; i++)
        for (int j = 0; j < SIDE; j++) {
            const int gi = i - down, gj = j - right, share = between(knot, i, j);
            const bool inside = gi >= 0 && gi < GREY && gj >= 0 && gj < GREY;
            const int g = inside ? grey[gi * GREY + gj] : 0;
            for (int c = 0; c < 3; c++) {
                const int ground_c = (share * second[c] + (WHITE - share) * first[c]) / WHITE;
                out[c * PLANE + i * SIDE + j] =
                    (unsigned char)((g * object[c] + (WHITE - g) * ground_c) / WHITE);
            }
        }
}

/* ---- whole sets: made, and kept in the cache ---- */

enum { RECORD = 1 + GS_COLOUR_PICTURE, MOST = 50000, CLASSES = 10 };

static const char *const names[] = {"colour-fashion", "colour-fashion-small"}, *const made_of[] = {
                                                                                   "fashion-mnist",
                                                                                   "fashion-mnist-small"};

static const char *const split_names[] = {[GS_TRAIN] = "train", [GS_TEST] = "test"};

static int number_of(const char *name) {
    for (int i = 0; i < 2; i++)
        if (strcmp(names[i], name) == 0) return i;
    return -1;
}

bool gs_colour_is_name(const char *name) {
    return number_of(name) >= 0;
}

/* ---- make ---- */

static gs_status check_grey(const gs_dataset *grey) {
    if (grey->shape.c != 1 || grey->shape.h != 28 || grey->shape.w != 28)
        return gs_fail(GS_E_FORMAT, "%s: the images are %s; wanted (1,28,28)", grey->name,
                       gs_shape_tuple(grey->shape).text);
    if (grey->classes > CLASSES)
        return gs_fail(GS_E_FORMAT, "%s: the largest label is %d; wanted at most %d", grey->name,
                       grey->classes - 1, CLASSES - 1);
    return GS_OK;
}

static void describe(gs_dataset *d, size_t count) {
    d->count = count;
    d->shape = (gs_shape){3, 32, 32, 0};
    d->classes = 0;
    for (size_t i = 0; i < count; i++)
        if (d->labels[i] >= d->classes) d->classes = d->labels[i] + 1;
}

/* Images and, behind them, labels are one block: so they lie in the cache. */
static gs_status colour(const gs_dataset *grey, gs_split split, uint64_t seed, gs_dataset *d) {
    GS_TRY(check_grey(grey));
    const size_t count = grey->count < MOST ? grey->count : MOST;
    GS_TRY(GS_NEW(d->images, count * RECORD, "%zu pictures in colour of %s", count, grey->name));
    GS_TRY(GS_NEW(d->labels, count, "%zu pictures in colour of %s", count, grey->name));
    for (size_t i = 0; i < count; i++)
        gs_colour_picture(seed, split, (uint32_t)i, grey->images + i * GS_COLOUR_GREY,
                          d->images + i * GS_COLOUR_PICTURE);
    memcpy(d->images + count * GS_COLOUR_PICTURE, grey->labels, count);
    memcpy(d->labels, grey->labels, count);
    describe(d, count);
    return GS_OK;
}

gs_status gs_colour_make(const char *name, gs_split split, uint64_t seed, gs_dataset *d) {
    const int number = number_of(name);
    if (number < 0) gs_bug("gs_colour_make: no set %s", name);
    gs_dataset *grey;
    gs_status status = gs_dataset_load(made_of[number], split, &grey);
    if (status != GS_OK)
        return number == 1 ? gs_context(status, "%s is made of %s", name, made_of[number])
                           : gs_context(status, "%s is made of %s (%s, of what comes with gradsum)", name,
                                        made_of[number], names[1]);
    status = colour(grey, split, seed, d);
    gs_dataset_free(grey);
    return status;
}

/* ---- the cache ---- */

/* The 1 is to change with what gs_colour_picture draws. */
static void entry_name(const char *name, gs_split split, char entry[64]) {
    snprintf(entry, 64, "%s-1-%s", name, split_names[split]);
}

/* Its sum is right, so it is what was written; only another program could have written another size. */
static bool take(void *data, size_t bytes, gs_dataset *d) {
    const size_t count = bytes / RECORD;
    d->labels = count > 0 && bytes % RECORD == 0 ? malloc(count) : NULL;
    if (!d->labels) return false;
    d->images = data;
    memcpy(d->labels, d->images + count * GS_COLOUR_PICTURE, count);
    describe(d, count);
    return true;
}

gs_status gs_colour_load(const char *name, gs_split split, gs_dataset *d) {
    char entry[64];
    void *data;
    size_t bytes;
    entry_name(name, split, entry);
    const gs_cache_state state = gs_cache_read(entry, &data, &bytes);
    if (state == GS_CACHE_FOUND && take(data, bytes, d)) return GS_OK;
    free(data);
    if (state != GS_CACHE_MISSING)
        fprintf(stderr, "gradsum: %s in the cache is damaged, and is made again\n", entry);
    GS_TRY(gs_colour_make(name, split, GS_COLOUR_SEED, d));
    gs_cache_write(entry, d->images, d->count * RECORD);
    return GS_OK;
}
