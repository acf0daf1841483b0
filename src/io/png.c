/* PNG by libpng. Its errors come back by longjmp, to the function that made the call. */
#include "io/picture.h"

#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <png.h>

enum {
    MOST_CHUNK =
        8 << 20,      /* bytes of a chunk beside the picture, such as a text: libpng unpacks some of them */
    MOST_CHUNKS = 100 /* that are kept */
};

typedef struct decoder {
    png_structp png; /* of the picture that was begun */
    png_infop info;
    const unsigned char *data;
    size_t left;
    png_bytep *rows;
    char message[160];
} decoder;

static void fail(png_structp png, png_const_charp message) {
    decoder *d = png_get_error_ptr(png);
    snprintf(d->message, sizeof d->message, "%s", message);
    longjmp(png_jmpbuf(png), 1);
}

static void say_nothing(png_structp png, png_const_charp message) {
    (void)png;
    (void)message;
}

static void read_bytes(png_structp png, png_bytep to, size_t bytes) {
    decoder *d = png_get_io_ptr(png);
    if (bytes > d->left) png_error(png, "the file ends too early");
    memcpy(to, d->data, bytes);
    d->data += bytes;
    d->left -= bytes;
}

static void end(decoder *d) {
    png_destroy_read_struct(&d->png, d->info ? &d->info : NULL, NULL);
    d->png = NULL;
    d->info = NULL;
}

static gs_status broken(decoder *d) {
    end(d);
    return gs_fail(GS_E_FORMAT, "the PNG is damaged: %s", d->message);
}

static void *create(void) {
    return calloc(1, sizeof(decoder));
}

static void free_decoder(void *decoder_of) {
    decoder *d = decoder_of;
    end(d);
    free(d->rows);
    free(d);
}

static bool is(const unsigned char *data, size_t bytes) {
    return bytes >= 8 && png_sig_cmp(data, 0, 8) == 0;
}

static gs_status begin(void *decoder_of, const unsigned char *data, size_t bytes, int *width, int *height) {
    decoder *d = decoder_of;
    end(d);
    d->data = data;
    d->left = bytes;
    d->png = png_create_read_struct(PNG_LIBPNG_VER_STRING, d, fail, say_nothing);
    if (d->png) d->info = png_create_info_struct(d->png);
    if (!d->info) return gs_fail(GS_E_MEMORY, "no memory for a decoder of PNG");
    if (setjmp(png_jmpbuf(d->png))) return broken(d);
    png_set_read_fn(d->png, d, read_bytes);
    png_set_user_limits(d->png, PNG_UINT_31_MAX, PNG_UINT_31_MAX); /* checked below */
    png_set_chunk_malloc_max(d->png, MOST_CHUNK);
    png_set_chunk_cache_max(d->png, MOST_CHUNKS);
    png_read_info(d->png, d->info);
    const png_uint_32 w = png_get_image_width(d->png, d->info), h = png_get_image_height(d->png, d->info);
    GS_TRY(gs_picture_check_size("PNG", w, h));
    *width = (int)w;
    *height = (int)h;
    return GS_OK;
}

/* Whatever it is becomes 8 bits of red, green and blue. */
static gs_status size(void *decoder_of, int shrink, int *width, int *height) {
    decoder *d = decoder_of;
    (void)shrink;
    if (setjmp(png_jmpbuf(d->png))) return broken(d);
    png_set_strip_16(d->png);
    png_set_expand(d->png);
    png_set_strip_alpha(d->png);
    png_set_gray_to_rgb(d->png);
    png_set_interlace_handling(d->png);
    png_read_update_info(d->png, d->info);
    *width = (int)png_get_image_width(d->png, d->info);
    *height = (int)png_get_image_height(d->png, d->info);
    if (png_get_rowbytes(d->png, d->info) == (size_t)*width * 3) return GS_OK;
    return gs_fail(GS_E_FORMAT, "the PNG has rows of %zu bytes for %d pixels",
                   (size_t)png_get_rowbytes(d->png, d->info), *width);
}

static gs_status decode(void *decoder_of, unsigned char *to, int width, int height) {
    decoder *d = decoder_of;
    free(d->rows);
    GS_TRY(GS_NEW(d->rows, height, "%d rows", height));
    for (int i = 0; i < height; i++) d->rows[i] = to + (size_t)i * (size_t)width * 3;
    if (setjmp(png_jmpbuf(d->png))) return broken(d);
    png_read_image(d->png, d->rows);
    png_read_end(d->png, NULL); /* the file is whole */
    end(d);
    return GS_OK;
}

const gs_picture_kind gs_png = {
    .is = is, .create = create, .free = free_decoder, .begin = begin, .size = size, .decode = decode};
