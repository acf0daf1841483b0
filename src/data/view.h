/* Which part of a picture a sample shows, and how large: always a square.
 *
 *     centre    the short side becomes size x 256 / 224, and of that the middle is cut out: torchvision's
 *               Resize(256) and CenterCrop(224), as ImageNet is evaluated
 *     resized   8 % to 100 % of the area, with sides of 3 : 4 to 4 : 3, from anywhere, become the whole sample:
 *               torchvision's RandomResizedCrop (Szegedy et al., "Going deeper with convolutions", 2015, section 6).
 *               It is drawn from (seed, epoch, sample); after ten draws that do not fit, it is the middle
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One direction: pixels lo .. hi - 1 of the picture become `full`, of which first .. first + n - 1 are wanted. */
typedef struct gs_resize_axis {
    int lo, hi, full, first;
} gs_resize_axis;

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

/* ---- resizing ----
 *
 * A picture is made smaller or larger by bilinear weights; where it becomes smaller, their triangle is wider, so that
 * every pixel counts ("antialias"). The bytes are those of resize(..., BILINEAR) of Pillow up to version 12, which
 * torchvision uses for pictures from files: columns first, then rows; weights as whole numbers with 22 bits after the
 * point; between the two passes, values are rounded to bytes. Pillow 13 takes the rows of
 * some pictures first, mostly of tall ones. Its bytes then differ by at most 1 (tests/io/test_pictures.c).
 *
 *     out[x] = sum over i of  weight(i) in[i],    weight(i) ~ 1 - |i + 0.5 - centre| / max(scale, 1)
 *     centre = lo + (first + x + 0.5) scale,      scale = (hi - lo) / full
 */

/* Its memory, which grows; each thread has its own. All zero to begin with. */
typedef struct gs_resizer {
    void *memory;
    unsigned long room;
} gs_resizer;

/* rgb[height][width][3], and a readable byte after it -> out[3][n][n], the window of the resized picture. False: no
 * memory. */
bool gs_resize(gs_resizer *, const unsigned char *rgb, int width, gs_resize_axis across, gs_resize_axis down,
               int n, unsigned char *out);
void gs_resizer_free(gs_resizer *);
