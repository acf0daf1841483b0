#include "data/colour.h"

#include "core/philox.h"

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
    return least + (int)((uint64_t)word * (uint64_t)(most - least + 1) >> 32);
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
