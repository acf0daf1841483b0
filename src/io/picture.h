/* Pictures in files, as bytes of red, green and blue: JPEG by libjpeg-turbo, PNG by libpng.
 *
 * The first bytes of a file say what it is, not its name. Decoded bytes are those of Pillow's convert("RGB"), which
 * torchvision's ImageFolder uses: grey becomes three equal channels; a palette its colours; CMYK, also as YCCK, is
 * taken as Adobe writes it, inverted; of 16 bits the upper 8 are taken; alpha is dropped, so that the colour below it
 * shows. What EXIF says of the orientation is ignored, as torchvision does.
 *
 * Sizes are checked before memory is taken for them: at most GS_PICTURE_SIDE on a side and GS_PICTURE_PIXELS in all.
 *
 * A file is broken, too, if its decoder only warns that data is missing or wrong. Otherwise the lower part of a JPEG
 * that was cut off would be grey.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include "core/error.h"

enum {
    GS_PICTURE_SIDE = 65500,     /* a JPEG cannot have more */
    GS_PICTURE_PIXELS = 1 << 26, /* 8192 x 8192: ImageNet's largest has 61 million */
};

/* Reads one picture after the other; each thread has its own. Its memory grows to what the largest one needs. */
typedef struct gs_picture_reader gs_picture_reader;

/* GS_E_MEMORY. */
gs_status gs_picture_reader_create(gs_picture_reader **out);
void gs_picture_reader_free(gs_picture_reader *); /* NULL is allowed */

/* Look at the header of a file of these bytes, which must stay until it is decoded. GS_E_FORMAT: it is no picture of
 * these kinds, damaged, or too large; the message says which, and leaves the name of the file to the caller. */
gs_status gs_picture_begin(gs_picture_reader *, const void *data, size_t bytes, int *width, int *height);

/* Decode the picture that was begun: rgb[height][width][3], and a byte after it, so that each pixel can be read as
 * four bytes. It belongs to the reader and is valid until the next one. A JPEG is made `shrink` times smaller while it
 * is decoded, 1, 2, 4 or 8, which takes less time; *width and *height say what it has become, rounded up. A PNG stays
 * as large as it is. GS_E_FORMAT as above, GS_E_MEMORY. */
gs_status gs_picture_decode(gs_picture_reader *, int shrink, const unsigned char **rgb, int *width,
                            int *height);
