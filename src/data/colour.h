/* Pictures in colour, made of grey ones: a set of CIFAR-10's sizes for machines that have no CIFAR-10.
 *
 * A picture of 28 x 28 is laid somewhere into 32 x 32. White becomes a colour, and black the background, whose pattern
 * lies between two other colours:
 *
 *     x[c][i][j] = (g object[c] + (255 - g) background[c][i][j]) / 255        g = grey[i - down][j - right], 0 outside
 *
 * Everything but the grey values is drawn from (seed, split, number of the picture), and nothing from its label. Either
 * the object is bright and the background dark, or the other way round, each with the same chance: so the mean of each
 * byte is the same in all classes, and a linear model has nothing to find. What tells the class is form.
 *
 * Only whole numbers: the same seed gives the same bytes on every machine.
 */
#pragma once

#include "data/dataset.h"

enum {
    GS_COLOUR_GREY = 28 * 28,       /* bytes of a grey picture, */
    GS_COLOUR_PICTURE = 3 * 32 * 32 /* and of one in colour: red, green, blue */
};

void gs_colour_picture(uint64_t seed, gs_split split, uint32_t number,
                       const unsigned char grey[GS_COLOUR_GREY], unsigned char out[GS_COLOUR_PICTURE]);

/* ---- whole sets ---- */

/* colour-fashion, of fashion-mnist: 50,000 + 10,000; colour-fashion-small, of fashion-mnist-small: 6,000 + 1,000. */
bool gs_colour_is_name(const char *);

enum { GS_COLOUR_SEED = 1 }; /* of --data */

/* One split with this seed. GS_E_FILE: the grey pictures are not installed; GS_E_MEMORY. */
gs_status gs_colour_make(const char *name, gs_split, uint64_t seed, gs_dataset *d);

/* The same with GS_COLOUR_SEED, from the cache (io/cache.h) if it is there, else made and put there. */
gs_status gs_colour_load(const char *name, gs_split, gs_dataset *d);
