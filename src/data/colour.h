/* Colour pictures made from grey ones: a data set with the sizes of CIFAR-10, for machines without CIFAR-10.
 *
 * A picture of 28 x 28 is placed at a random offset in 32 x 32. White becomes one colour, the object's; black becomes
 * the background, a pattern that varies between two other colours:
 *
 *     x[c][i][j] = (g object[c] + (255 - g) background[c][i][j]) / 255        g = grey[i - down][j - right], 0 outside
 *
 * All random choices depend on (seed, split, index of the picture), never on the label. Either the object is bright and
 * the background dark, or the reverse, with equal probability. Therefore the mean of each byte is the same in all
 * classes, so a linear model has nothing to learn; only the shape reveals the class.
 *
 * The arithmetic uses only integers, so a seed gives the same bytes on every machine. */
#pragma once

#include "data/dataset.h"

enum {
    GS_COLOUR_GREY = 28 * 28,        /* bytes in a grey picture, ... */
    GS_COLOUR_PICTURE = 3 * 32 * 32, /* ... and in a colour picture: red, green, blue */
    GS_COLOUR_SEED = 1               /* the seed used by --data */
};

void gs_colour_picture(uint64_t seed, gs_split split, uint32_t number,
                       const unsigned char grey[GS_COLOUR_GREY], unsigned char out[GS_COLOUR_PICTURE]);

/* True for "colour-fashion", made from fashion-mnist (50,000 + 10,000 pictures), and for "colour-fashion-small", made
 * from fashion-mnist-small (6,000 + 1,000). */
bool gs_colour_is_name(const char *);

/* Create one split with this seed. GS_E_FILE: the grey pictures are not installed; GS_E_MEMORY. */
gs_status gs_colour_make(const char *name, gs_split, uint64_t seed, gs_dataset *d);
