/* Test pictures, written by the image libraries themselves. */
#pragma once

#include "tests/support/test.h"

/* How a JPEG is written. */
typedef struct jpeg_form {
    int quality;    /* 0: 90 */
    int components; /* 1: grey, 3: RGB, 4: CMYK; 0: 3 */
    bool progressive;
    int subsampling; /* chroma subsampling: 2 halves both directions; 0: 1 */
} jpeg_form;

/* x[h][w][components] as a file in memory; free it. */
unsigned char *make_jpeg(const unsigned char *x, int w, int h, jpeg_form, size_t *bytes);

/* How a PNG is written: the colour type and the bit depth of libpng. */
typedef struct png_form {
    int type, depth;
    bool interlaced;
} png_form;

/* Makes a PNG of h rows, whose bytes have this form; a palette holds the colours (i, 2 i, 255 - i). Free the result. */
unsigned char *make_png(const unsigned char *rows, size_t row_bytes, int w, int h, png_form, size_t *bytes);

/* A picture of smooth colours that depend on `id`: x[h][w][3], followed by one extra byte; free it. */
unsigned char *make_colours(int id, int w, int h);

/* Writes these bytes to folder/name; creates the folders. */
void write_bytes(const char *folder, const char *name, const void *data, size_t bytes);

/* Writes picture `id` to folder/name: as a PNG if the name says so, otherwise as a JPEG. */
void write_picture(const char *folder, const char *name, int id, int w, int h);
