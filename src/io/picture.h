/* Decode pictures to red, green and blue bytes: JPEG with libjpeg-turbo, PNG with libpng.
 *
 * A file's first bytes determine its format, not its name. Decoded bytes equal those of Pillow's convert("RGB"), which
 * torchvision's ImageFolder uses: grey becomes three equal channels, and palette indices become their colours; CMYK and
 * YCCK are read as Adobe writes them, inverted; 16-bit values are cut to the upper 8 bits; alpha is dropped. EXIF's
 * orientation is ignored, as in torchvision.
 *
 * Sizes are checked before memory is allocated: at most GS_PICTURE_SIDE on a side and GS_PICTURE_PIXELS in all.
 *
 * A file counts as damaged even if its decoder only warns of missing or wrong data. Otherwise, the lower part of a
 * truncated JPEG would be grey. */
#pragma once

#include <stddef.h>
#include "core/error.h"

enum {
    GS_PICTURE_SIDE = 65500,     /* a JPEG's limit */
    GS_PICTURE_PIXELS = 1 << 26, /* 8192 x 8192: ImageNet's largest has 61 million */
};

/* Decodes one picture at a time; each thread needs its own reader. Its memory grows to fit the largest picture. */
typedef struct gs_picture_reader gs_picture_reader;

/* GS_E_MEMORY. */
gs_status gs_picture_reader_create(gs_picture_reader **out);
void gs_picture_reader_free(gs_picture_reader *); /* NULL is allowed */

/* Read the header of a file in memory, which must stay valid until decoded. GS_E_FORMAT: another format, damaged, or
 * too large; the message omits the file's name. */
gs_status gs_picture_begin(gs_picture_reader *, const void *data, size_t bytes, int *width, int *height);

/* Decode that picture to rgb[height][width][3], followed by one byte, so that each pixel can be read as four. The
 * reader owns the result, which is valid until the next call. A JPEG is shrunk by the factor `shrink` (1, 2, 4 or 8),
 * which saves time; *width and *height: the new size, rounded up. A PNG is not shrunk. GS_E_FORMAT, GS_E_MEMORY. */
gs_status gs_picture_decode(gs_picture_reader *, int shrink, const unsigned char **rgb, int *width,
                            int *height);
