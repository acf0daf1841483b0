/* Which part of a picture a sample shows, and how large: always a square.
 *
 *     centre    the short side becomes size x 256 / 224, and of that the middle is cut out: torchvision's
 *               Resize(256) and CenterCrop(224), as ImageNet is evaluated
 *     resized   8 % to 100 % of the area, with sides of 3 : 4 to 4 : 3, from anywhere, become the whole sample:
 *               torchvision's RandomResizedCrop (Szegedy et al., "Going deeper with convolutions", 2015, section 6).
 *               It is drawn from (seed, epoch, sample); after ten draws that do not fit, it is the middle
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include "data/resize.h"

typedef struct gs_view {
    gs_resize_axis across, down;
} gs_view;

gs_view gs_view_centre(int width, int height, int size);
gs_view gs_view_resized(int width, int height, int size, uint64_t seed, uint64_t epoch, size_t sample);

/* By which factor, 1, 2, 4 or 8, a JPEG may be shrunk while it is decoded for this view: at least twice the size that
 * is wanted is left. */
int gs_view_shrink(const gs_view *);

/* The same view of a picture that was width x height, and is now small_width x small_height. */
gs_view gs_view_of_small(const gs_view *, int width, int height, int small_width, int small_height);
