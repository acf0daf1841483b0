/* A picture is made smaller or larger by bilinear weights; where it becomes smaller, their triangle is wider, so that
 * every pixel counts ("antialias"). The bytes are those of resize(..., BILINEAR) of Pillow up to version 12, which
 * torchvision uses for pictures from files: columns first, then rows; weights as whole numbers with 22 bits after the
 * point; between the two passes, values are rounded to bytes. Pillow 13 takes the rows of
 * some pictures first, mostly of tall ones. Its bytes then differ by at most 1 (tests/io/test_pictures.c).
 *
 *     out[x] = sum over i of  weight(i) in[i],    weight(i) ~ 1 - |i + 0.5 - centre| / max(scale, 1)
 *     centre = lo + (first + x + 0.5) scale,      scale = (hi - lo) / full
 */
#pragma once

#include <stdbool.h>

/* One direction: pixels lo .. hi - 1 of the picture become `full`, of which first .. first + n - 1 are wanted. */
typedef struct gs_resize_axis {
    int lo, hi, full, first;
} gs_resize_axis;

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
