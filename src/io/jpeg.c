/* JPEG by libjpeg-turbo. Its errors come back by longjmp, to the function that made the call. */
#include "io/picture.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <jpeglib.h>
#include <jerror.h>

enum {
    MOST_SCANS = 200,     /* of a progressive file: each costs a pass over all pixels, and 10 are usual */
    MOST_MEMORY = 1 << 30 /* of the decoder's own: a progressive file is kept whole until its last scan */
};

typedef struct decoder {
    struct jpeg_decompress_struct info;
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    jmp_buf failed;
    char message[JMSG_LENGTH_MAX + 32];
    bool lost; /* a warning said that data is missing or wrong; `message` is the first */
    unsigned char *cmyk;
} decoder;

/* ---- what libjpeg calls ---- */

static void fail(j_common_ptr info) {
    decoder *d = info->client_data;
    info->err->format_message(info, d->message);
    longjmp(d->failed, 1);
}

/* Warnings that leave the picture whole. All others mean that some of it was made up. */
static bool is_harmless(int code) {
    return code == JWRN_EXTRANEOUS_DATA || code == JWRN_ADOBE_XFORM || code == JWRN_JFIF_MAJOR ||
           code == JWRN_NOT_SEQUENTIAL || code == JWRN_TOO_MUCH_DATA || code == JWRN_BOGUS_ICC;
}

static void tell(j_common_ptr info, int level) {
    decoder *d = info->client_data;
    if (level >= 0 || d->lost || is_harmless(info->err->msg_code)) return;
    d->lost = true;
    info->err->format_message(info, d->message);
}

static void say_nothing(j_common_ptr info) {
    (void)info;
}

static void count_scans(j_common_ptr info) {
    decoder *d = info->client_data;
    if (d->info.input_scan_number <= MOST_SCANS) return;
    snprintf(d->message, sizeof d->message, "more than %d scans", MOST_SCANS);
    longjmp(d->failed, 1);
}

/* ---- the decoder ---- */

static gs_status broken(decoder *d) {
    jpeg_abort_decompress(&d->info);
    return gs_fail(GS_E_FORMAT, "the JPEG is damaged: %s", d->message);
}

static bool prepare(decoder *d) {
    d->info.err = jpeg_std_error(&d->errors);
    d->errors.error_exit = fail;
    d->errors.emit_message = tell;
    d->errors.output_message = say_nothing;
    d->info.client_data = d;
    if (setjmp(d->failed)) return false;
    jpeg_create_decompress(&d->info);
    d->info.mem->max_memory_to_use = MOST_MEMORY;
    d->progress.progress_monitor = count_scans;
    d->info.progress = &d->progress;
    return true;
}

static void *create(void) {
    decoder *d = calloc(1, sizeof *d);
    if (!d || prepare(d)) return d;
    jpeg_destroy_decompress(&d->info);
    free(d);
    return NULL;
}

static void free_decoder(void *decoder_of) {
    decoder *d = decoder_of;
    jpeg_destroy_decompress(&d->info);
    free(d->cmyk);
    free(d);
}

static bool is(const unsigned char *data, size_t bytes) {
    return bytes >= 3 && data[0] == 0xff && data[1] == 0xd8 && data[2] == 0xff;
}

static gs_status begin(void *decoder_of, const unsigned char *data, size_t bytes, int *width, int *height) {
    decoder *d = decoder_of;
    jpeg_abort_decompress(&d->info); /* an earlier one may have been begun only */
    d->lost = false;
    if (setjmp(d->failed)) return broken(d);
    jpeg_mem_src(&d->info, data, bytes);
    jpeg_read_header(&d->info, TRUE);
    GS_TRY(gs_picture_check_size("JPEG", d->info.image_width, d->info.image_height));
    *width = (int)d->info.image_width;
    *height = (int)d->info.image_height;
    const J_COLOR_SPACE has = d->info.jpeg_color_space;
    if (has != JCS_GRAYSCALE && has != JCS_RGB && has != JCS_YCbCr && has != JCS_CMYK && has != JCS_YCCK)
        return gs_fail(GS_E_FORMAT,
                       "the JPEG has %d components of an unknown colour space; wanted grey, RGB, "
                       "YCbCr, CMYK or YCCK",
                       d->info.num_components);
    d->info.out_color_space = has == JCS_CMYK || has == JCS_YCCK ? JCS_CMYK : JCS_RGB;
    return GS_OK;
}

static gs_status size(void *decoder_of, int shrink, int *width, int *height) {
    decoder *d = decoder_of;
    if (setjmp(d->failed)) return broken(d);
    d->info.scale_num = 1;
    d->info.scale_denom = (unsigned)shrink;
    jpeg_calc_output_dimensions(&d->info);
    *width = (int)d->info.output_width;
    *height = (int)d->info.output_height;
    return GS_OK;
}

/* a b / 255, rounded */
static int times(int a, int b) {
    const int product = a * b + 128;
    return (product + (product >> 8)) >> 8;
}

/* Inverted, 0 is all ink: red = c k / 255, in Pillow's roundings. */
static void rgb_of_cmyk(const unsigned char *from, unsigned char *to, int width) {
    for (int j = 0; j < width; j++)
        for (int c = 0; c < 3; c++) {
            const int k = from[4 * j + 3], left = k - times(255 - from[4 * j + c], k);
            to[3 * j + c] = (unsigned char)(left > 0 ? left : 0);
        }
}

static gs_status decode_rows(decoder *d, unsigned char *to, int width, int height) {
    const bool cmyk = d->info.out_color_space == JCS_CMYK;
    jpeg_start_decompress(&d->info);
    if ((int)d->info.output_width != width || (int)d->info.output_height != height ||
        d->info.output_components != (cmyk ? 4 : 3))
        gs_bug("jpeg: %u x %u x %d", d->info.output_width, d->info.output_height, d->info.output_components);
    while ((int)d->info.output_scanline < height) {
        const size_t i = d->info.output_scanline;
        unsigned char *rows[4], *row = to + i * (size_t)width * 3;
        for (size_t k = 0; k < 4; k++) rows[k] = row + (i + k < (size_t)height ? k : 0) * (size_t)width * 3;
        const unsigned left = (unsigned)height - d->info.output_scanline;
        if (cmyk) rows[0] = d->cmyk;
        jpeg_read_scanlines(&d->info, rows, cmyk ? 1 : left < 4 ? left : 4);
        if (cmyk) rgb_of_cmyk(d->cmyk, row, width);
    }
    jpeg_finish_decompress(&d->info);
    return d->lost ? broken(d) : GS_OK;
}

static gs_status decode(void *decoder_of, unsigned char *to, int width, int height) {
    decoder *d = decoder_of;
    if (d->info.out_color_space == JCS_CMYK) {
        free(d->cmyk);
        GS_TRY(GS_NEW(d->cmyk, (size_t)width * 4, "a row of %d pixels", width));
    }
    if (setjmp(d->failed)) return broken(d);
    return decode_rows(d, to, width, height);
}

const gs_picture_kind gs_jpeg = {
    .is = is, .create = create, .free = free_decoder, .begin = begin, .size = size, .decode = decode};
