#include "data/colour.h"

#include <string.h>
#include "core/philox.h"

enum { SIDE = 32, GREY = 28, CELL = 4, KNOTS = SIDE / CELL + 1, WHITE = 255 };

/* The sequence of random words for one picture. */
typedef struct draws {
    uint64_t seed, stream, block;
    uint32_t word[4];
    int left;
} draws;

/* A random integer from `least` to `most`. */
static int draw(draws *d, int least, int most) {
    if (d->left == 0) gs_philox(d->seed, d->stream, d->block++, d->word);
    if (d->left == 0) d->left = 4;
    const uint32_t word = d->word[4 - d->left--];
    return least + gs_random_below(word, most - least + 1);
}

/* Convert hue, saturation and value to red, green and blue (Smith, "Color gamut transform pairs", 1978). `hue` takes
 * 256 steps from each of red, yellow, green, cyan, blue and magenta to the next. */
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

/* Bilinear interpolation between the knots of a grid, which are CELL pixels apart. Returns 0 to 255. */
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
    /* dark - PATTERN >= 0 and, symmetrically, bright + PATTERN <= 255 */
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

/* ---- whole sets ---- */

enum { MOST = 50000, CLASSES = 10 };

static const struct {
    const char *name, *made_of;
} sets[] = {{"colour-fashion", "fashion-mnist"}, {"colour-fashion-small", "fashion-mnist-small"}};

/* The grey set from which a colour set is made; NULL: no such colour set. */
static const char *made_of(const char *name) {
    for (int i = 0; i < 2; i++)
        if (strcmp(sets[i].name, name) == 0) return sets[i].made_of;
    return NULL;
}

bool gs_colour_is_name(const char *name) {
    return made_of(name) != NULL;
}

static gs_status colour(const gs_dataset *grey, gs_split split, uint64_t seed, gs_dataset *d) {
    if (grey->shape.c != 1 || grey->shape.h != GREY || grey->shape.w != GREY)
        return gs_fail(GS_E_FORMAT, "%s: the images are %s; wanted (1,28,28)", grey->name,
                       gs_shape_tuple(grey->shape).text);
    if (grey->classes > CLASSES)
        return gs_fail(GS_E_FORMAT, "%s: the largest label is %d; wanted at most %d", grey->name,
                       grey->classes - 1, CLASSES - 1);
    d->count = grey->count < MOST ? grey->count : MOST;
    d->shape = (gs_shape){3, SIDE, SIDE, 0};
    GS_TRY(GS_NEW(d->images, d->count * GS_COLOUR_PICTURE, "%zu pictures in colour of %s", d->count,
                  grey->name));
    GS_TRY(GS_NEW(d->labels, d->count, "%zu pictures in colour of %s", d->count, grey->name));
    for (size_t i = 0; i < d->count; i++)
        gs_colour_picture(seed, split, (uint32_t)i, grey->images + i * GS_COLOUR_GREY,
                          d->images + i * GS_COLOUR_PICTURE);
    memcpy(d->labels, grey->labels, d->count);
    d->classes = grey->classes;
    return GS_OK;
}

gs_status gs_colour_make(const char *name, gs_split split, uint64_t seed, gs_dataset *d) {
    const char *grey_name = made_of(name);
    if (!grey_name) gs_bug("gs_colour_make: no set %s", name);
    gs_dataset *grey;
    gs_status status = gs_dataset_load(grey_name, split, &grey);
    if (status != GS_OK)
        return gs_context(
            status, "%s is made of %s%s", name, grey_name,
            strcmp(name, "colour-fashion") == 0 ? " (colour-fashion-small, of what comes with gradsum)" : "");
    status = colour(grey, split, seed, d);
    gs_dataset_free(grey);
    return status;
}
