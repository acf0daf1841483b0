/* The part of a picture that becomes a sample, always a square:
 *
 *     centre    resize the short side to size x 256 / 224, and crop the middle: torchvision's Resize(256) and
 *               CenterCrop(224), the usual evaluation of ImageNet
 *     resized   resize a random part, of 8 % to 100 % of the area, with sides from 3 : 4 to 4 : 3: torchvision's
 *               RandomResizedCrop (Szegedy et al., "Going deeper with convolutions", 2015, section 6). Drawn from
 *               (seed, epoch, sample); after ten draws that do not fit, the middle is taken
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Resizing along one axis: pixels lo .. hi - 1 become `full` pixels, of which first .. first + n - 1 are kept. */
typedef struct gs_resize_axis {
    int lo, hi, full, first;
} gs_resize_axis;

typedef struct gs_view {
    gs_resize_axis across, down;
} gs_view;

gs_view gs_view_centre(int width, int height, int size);
gs_view gs_view_resized(int width, int height, int size, uint64_t seed, uint64_t epoch, size_t sample);

/* The factor, 1, 2, 4 or 8, by which decoding may shrink a JPEG so that at least twice the final size remains. */
int gs_view_shrink(const gs_view *);

/* The same view of a picture shrunk from width x height to small_width x small_height. */
gs_view gs_view_of_small(const gs_view *, int width, int height, int small_width, int small_height);

/* ---- resizing ----
 *
 * Bilinear weights; when shrinking, the triangle of weights is wider, so that every pixel contributes ("antialias").
 * The bytes equal those of resize(..., BILINEAR) in Pillow up to version 12, which torchvision uses for pictures from
 * files: columns first, then rows; integer weights with 22 fractional bits; values rounded to bytes between the passes.
 * For some pictures, mostly tall ones, Pillow 13 resizes the rows first: its bytes then differ by at most 1
 * (tests/io/test_pictures.c).
 *
 *     out[x] = sum over i of  weight(i) in[i],    weight(i) ~ 1 - |i + 0.5 - centre| / max(scale, 1)
 *     centre = lo + (first + x + 0.5) scale,      scale = (hi - lo) / full
 */

/* Memory that grows as needed. Each thread has its own, initially zero. */
typedef struct gs_resizer {
    void *memory;
    unsigned long room;
} gs_resizer;

/* Resize rgb[height][width][3], after which one more byte must be readable, and write the window to out[3][n][n].
 * False: out of memory. */
bool gs_resize(gs_resizer *, const unsigned char *rgb, int width, gs_resize_axis across, gs_resize_axis down,
               int n, unsigned char *out);
void gs_resizer_free(gs_resizer *);
