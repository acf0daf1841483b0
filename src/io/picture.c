/* libjpeg and libpng report errors with a longjmp to the function that called them. */
#include "io/file.h"
#include "io/picture.h"

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <jpeglib.h>
#include <jerror.h>
#include <png.h>

static gs_status check_size(const char *kind, unsigned long width, unsigned long height) {
    if (width < 1 || height < 1)
        return gs_fail(GS_E_FORMAT, "the %s says that it is %lu x %lu", kind, width, height);
    if (width > GS_PICTURE_SIDE || height > GS_PICTURE_SIDE ||
        (unsigned long long)width * height > GS_PICTURE_PIXELS)
        return gs_fail(GS_E_FORMAT,
                       "the %s says that it is %lu x %lu; at most %d on a side and %d pixels are allowed",
                       kind, width, height, GS_PICTURE_SIDE, GS_PICTURE_PIXELS);
    return GS_OK;
}

/* ---- JPEG ---- */

enum {
    MOST_SCANS = 200,     /* in a progressive file; each is a pass over all pixels, and 10 are usual */
    MOST_MEMORY = 1 << 30 /* for the decoder, which holds a progressive file until its last scan */
};

typedef struct jpeg_decoder {
    struct jpeg_decompress_struct info;
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    jmp_buf failed;
    char message[JMSG_LENGTH_MAX + 32];
    bool lost; /* a warning said that data are missing or wrong; `message` is the first one */
    unsigned char *cmyk;
} jpeg_decoder;

static void end_jpeg(j_common_ptr info) {
    jpeg_decoder *d = info->client_data;
    info->err->format_message(info, d->message);
    longjmp(d->failed, 1);
}

/* True for a warning about an intact picture. After any other warning, the decoder has invented pixels. */
static bool is_harmless(int code) {
    return code == JWRN_EXTRANEOUS_DATA || code == JWRN_ADOBE_XFORM || code == JWRN_JFIF_MAJOR ||
           code == JWRN_NOT_SEQUENTIAL || code == JWRN_TOO_MUCH_DATA || code == JWRN_BOGUS_ICC;
}

static void note_loss(j_common_ptr info, int level) {
    jpeg_decoder *d = info->client_data;
    if (level >= 0 || d->lost || is_harmless(info->err->msg_code)) return;
    d->lost = true;
    info->err->format_message(info, d->message);
}

static void say_nothing_jpeg(j_common_ptr info) {
    (void)info;
}

static void count_scans(j_common_ptr info) {
    jpeg_decoder *d = info->client_data;
    if (d->info.input_scan_number <= MOST_SCANS) return;
    snprintf(d->message, sizeof d->message, "more than %d scans", MOST_SCANS);
    longjmp(d->failed, 1);
}

static gs_status broken_jpeg(jpeg_decoder *d) {
    jpeg_abort_decompress(&d->info);
    return gs_fail(GS_E_FORMAT, "the JPEG is damaged: %s", d->message);
}

static bool prepare_jpeg(jpeg_decoder *d) {
    d->info.err = jpeg_std_error(&d->errors);
    d->errors.error_exit = end_jpeg;
    d->errors.emit_message = note_loss;
    d->errors.output_message = say_nothing_jpeg;
    d->info.client_data = d;
    if (setjmp(d->failed)) return false;
    jpeg_create_decompress(&d->info);
    d->info.mem->max_memory_to_use = MOST_MEMORY;
    d->progress.progress_monitor = count_scans;
    d->info.progress = &d->progress;
    return true;
}

static bool is_jpeg(const unsigned char *data, size_t bytes) {
    return bytes >= 3 && data[0] == 0xff && data[1] == 0xd8 && data[2] == 0xff;
}

static gs_status begin_jpeg(jpeg_decoder *d, const unsigned char *data, size_t bytes, int *width,
                            int *height) {
    jpeg_abort_decompress(&d->info); /* an earlier picture may not have been decoded completely */
    d->lost = false;
    if (setjmp(d->failed)) return broken_jpeg(d);
    jpeg_mem_src(&d->info, data, bytes);
    jpeg_read_header(&d->info, TRUE);
    GS_TRY(check_size("JPEG", d->info.image_width, d->info.image_height));
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

static gs_status size_jpeg(jpeg_decoder *d, int shrink, int *width, int *height) {
    if (setjmp(d->failed)) return broken_jpeg(d);
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

/* CMYK is inverted, so 0 is full ink: red = c k / 255, rounded as in Pillow. */
static void rgb_of_cmyk(const unsigned char *from, unsigned char *to, int width) {
    for (int j = 0; j < width; j++)
        for (int c = 0; c < 3; c++) {
            const int k = from[4 * j + 3], left = k - times(255 - from[4 * j + c], k);
            to[3 * j + c] = (unsigned char)(left > 0 ? left : 0);
        }
}

static gs_status decode_rows(jpeg_decoder *d, unsigned char *to, int width, int height) {
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
    return d->lost ? broken_jpeg(d) : GS_OK;
}

static gs_status decode_jpeg(jpeg_decoder *d, unsigned char *to, int width, int height) {
    if (d->info.out_color_space == JCS_CMYK) {
        free(d->cmyk);
        GS_TRY(GS_NEW(d->cmyk, (size_t)width * 4, "a row of %d pixels", width));
    }
    if (setjmp(d->failed)) return broken_jpeg(d);
    return decode_rows(d, to, width, height);
}

/* ---- PNG ---- */

enum {
    MOST_CHUNK =
        8 << 20,      /* bytes in a non-picture chunk, such as text; libpng unpacks some of these chunks */
    MOST_CHUNKS = 100 /* maximum number of chunks kept */
};

typedef struct png_decoder {
    png_structp png; /* of the current picture */
    png_infop info;
    const unsigned char *data;
    size_t left;
    png_bytep *rows;
    char message[160];
} png_decoder;

static void end_png(png_structp png, png_const_charp message) {
    png_decoder *d = png_get_error_ptr(png);
    snprintf(d->message, sizeof d->message, "%s", message);
    longjmp(png_jmpbuf(png), 1);
}

static void say_nothing_png(png_structp png, png_const_charp message) {
    (void)png;
    (void)message;
}

static void read_bytes(png_structp png, png_bytep to, size_t bytes) {
    png_decoder *d = png_get_io_ptr(png);
    if (bytes > d->left) png_error(png, "the file ends too early");
    memcpy(to, d->data, bytes);
    d->data += bytes;
    d->left -= bytes;
}

static void forget_png(png_decoder *d) {
    png_destroy_read_struct(&d->png, d->info ? &d->info : NULL, NULL);
    d->png = NULL;
    d->info = NULL;
}

static gs_status broken_png(png_decoder *d) {
    forget_png(d);
    return gs_fail(GS_E_FORMAT, "the PNG is damaged: %s", d->message);
}

static bool is_png(const unsigned char *data, size_t bytes) {
    return bytes >= 8 && png_sig_cmp(data, 0, 8) == 0;
}

static gs_status begin_png(png_decoder *d, const unsigned char *data, size_t bytes, int *width, int *height) {
    forget_png(d);
    d->data = data;
    d->left = bytes;
    d->png = png_create_read_struct(PNG_LIBPNG_VER_STRING, d, end_png, say_nothing_png);
    if (d->png) d->info = png_create_info_struct(d->png);
    if (!d->info) return gs_fail(GS_E_MEMORY, "no memory for a decoder of PNG");
    if (setjmp(png_jmpbuf(d->png))) return broken_png(d);
    png_set_read_fn(d->png, d, read_bytes);
    png_set_user_limits(d->png, PNG_UINT_31_MAX, PNG_UINT_31_MAX); /* checked below */
    png_set_chunk_malloc_max(d->png, MOST_CHUNK);
    png_set_chunk_cache_max(d->png, MOST_CHUNKS);
    png_read_info(d->png, d->info);
    const png_uint_32 w = png_get_image_width(d->png, d->info), h = png_get_image_height(d->png, d->info);
    GS_TRY(check_size("PNG", w, h));
    *width = (int)w;
    *height = (int)h;
    return GS_OK;
}

/* Convert any PNG to 8-bit red, green and blue. */
static gs_status size_png(png_decoder *d, int *width, int *height) {
    if (setjmp(png_jmpbuf(d->png))) return broken_png(d);
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

static gs_status decode_png(png_decoder *d, unsigned char *to, int width, int height) {
    free(d->rows);
    GS_TRY(GS_NEW(d->rows, height, "%d rows", height));
    for (int i = 0; i < height; i++) d->rows[i] = to + (size_t)i * (size_t)width * 3;
    if (setjmp(png_jmpbuf(d->png))) return broken_png(d);
    png_read_image(d->png, d->rows);
    png_read_end(d->png, NULL); /* checks the rest of the file */
    forget_png(d);
    return GS_OK;
}

/* ---- any ---- */

struct gs_picture_reader {
    jpeg_decoder jpeg;
    png_decoder png;
    enum { NO_PICTURE, JPEG, PNG } kind; /* of the current picture */
    unsigned char *rgb;
    size_t room;
};

gs_status gs_picture_reader_create(gs_picture_reader **out) {
    *out = calloc(1, sizeof **out);
    if (*out && prepare_jpeg(&(*out)->jpeg)) return GS_OK;
    gs_picture_reader_free(*out);
    *out = NULL;
    return gs_fail(GS_E_MEMORY, "no memory for a decoder of pictures");
}

void gs_picture_reader_free(gs_picture_reader *r) {
    if (!r) return;
    jpeg_destroy_decompress(&r->jpeg.info);
    free(r->jpeg.cmyk);
    forget_png(&r->png);
    free(r->png.rows);
    free(r->rgb);
    free(r);
}

gs_status gs_picture_begin(gs_picture_reader *r, const void *data, size_t bytes, int *width, int *height) {
    if (bytes == 0) return gs_fail(GS_E_FORMAT, "the file is empty");
    r->kind = is_jpeg(data, bytes) ? JPEG : is_png(data, bytes) ? PNG : NO_PICTURE;
    if (r->kind == JPEG) return begin_jpeg(&r->jpeg, data, bytes, width, height);
    if (r->kind == PNG) return begin_png(&r->png, data, bytes, width, height);
    const gs_foreign *f = gs_foreign_of(data, bytes);
    if (!f) return gs_fail(GS_E_FORMAT, "it is neither a JPEG nor a PNG");
    return gs_fail(GS_E_FORMAT, "it is %s, neither a JPEG nor a PNG%s%s", f->what, f->todo ? "; " : "",
                   f->todo ? f->todo : "");
}

gs_status gs_picture_decode(gs_picture_reader *r, int shrink, const unsigned char **rgb, int *width,
                            int *height) {
    if (r->kind == NO_PICTURE) gs_bug("gs_picture_decode: no picture was begun");
    const bool jpeg = r->kind == JPEG;
    GS_TRY(jpeg ? size_jpeg(&r->jpeg, shrink, width, height) : size_png(&r->png, width, height));
    const size_t bytes = (size_t)*width * (size_t)*height * 3 + 1;
    if (bytes > r->room) {
        free(r->rgb);
        r->rgb = malloc(bytes);
        r->room = r->rgb ? bytes : 0;
    }
    if (!r->rgb) return gs_fail(GS_E_MEMORY, "no memory for a picture of %d x %d", *width, *height);
    GS_TRY(jpeg ? decode_jpeg(&r->jpeg, r->rgb, *width, *height)
                : decode_png(&r->png, r->rgb, *width, *height));
    *rgb = r->rgb;
    return GS_OK;
}
