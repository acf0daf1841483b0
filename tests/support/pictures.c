#include "tests/support/pictures.h"
#include "tests/support/files.h"

#include <math.h>
#include <jpeglib.h>
#include <png.h>

unsigned char *make_jpeg(const unsigned char *x, int w, int h, jpeg_form form, size_t *bytes) {
    struct jpeg_compress_struct info;
    struct jpeg_error_mgr errors;
    unsigned char *data = NULL;
    unsigned long size = 0;
    const int components = form.components ? form.components : 3;
    info.err = jpeg_std_error(&errors);
    jpeg_create_compress(&info);
    jpeg_mem_dest(&info, &data, &size);
    info.image_width = (unsigned)w;
    info.image_height = (unsigned)h;
    info.input_components = components;
    info.in_color_space = components == 1 ? JCS_GRAYSCALE : components == 3 ? JCS_RGB : JCS_CMYK;
    jpeg_set_defaults(&info);
    jpeg_set_quality(&info, form.quality ? form.quality : 90, TRUE);
    if (components == 3)
        info.comp_info[0].h_samp_factor = info.comp_info[0].v_samp_factor =
            form.subsampling ? form.subsampling : 1;
    if (form.progressive) jpeg_simple_progression(&info);
    jpeg_start_compress(&info, TRUE);
    for (int i = 0; i < h; i++) {
        JSAMPROW row = (JSAMPROW)(uintptr_t)(x + (size_t)i * (size_t)(w * components));
        jpeg_write_scanlines(&info, &row, 1);
    }
    jpeg_finish_compress(&info);
    jpeg_destroy_compress(&info);
    *bytes = size;
    return gs_test_own(data, free);
}

unsigned char *make_png(const unsigned char *rows, size_t row_bytes, int w, int h, png_form form,
                        size_t *bytes) {
    char *data = NULL;
    FILE *m = open_memstream(&data, bytes);
    assert_non_null(m);
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png_create_info_struct(png);
    if (setjmp(png_jmpbuf(png))) fail_msg("libpng cannot write");
    png_init_io(png, m);
    png_set_IHDR(png, info, (unsigned)w, (unsigned)h, form.depth, form.type,
                 form.interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
                 PNG_FILTER_TYPE_DEFAULT);
    if (form.type == PNG_COLOR_TYPE_PALETTE) {
        png_color colours[256];
        for (int i = 0; i < 1 << form.depth; i++)
            colours[i] = (png_color){(png_byte)i, (png_byte)(2 * i), (png_byte)(255 - i)};
        png_set_PLTE(png, info, colours, 1 << form.depth);
    }
    png_write_info(png, info);
    png_bytep *row = gs_test_malloc((size_t)h * sizeof *row);
    for (int i = 0; i < h; i++) row[i] = (png_bytep)(uintptr_t)(rows + (size_t)i * row_bytes);
    png_write_image(png, row);
    png_write_end(png, NULL);
    png_destroy_write_struct(&png, &info);
    assert_int_equal(fclose(m), 0);
    return gs_test_own(data, free);
}

unsigned char *make_colours(int id, int w, int h) {
    unsigned char *x = gs_test_malloc((size_t)(w * h * 3) + 1);
    for (int i = 0; i < h; i++)
        for (int j = 0; j < w; j++)
            for (int c = 0; c < 3; c++)
                x[(i * w + j) * 3 + c] =
                    (unsigned char)((i * (3 + c) + j * (2 + id % 5) + 40 * id + 70 * c) % 256);
    return x;
}

void write_bytes(const char *folder, const char *name, const void *data, size_t bytes) {
    char path[2048];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    *strrchr(path, '/') = '\0';
    assert_true(gs_file_make_folders(path));
    path[strlen(path)] = '/';
    write_raw(path, data, bytes);
}

void write_picture(const char *folder, const char *name, int id, int w, int h) {
    size_t bytes;
    unsigned char *x = make_colours(id, w, h);
    unsigned char *data = strstr(name, ".png") ? make_png(x, (size_t)w * 3, w, h,
                                                          (png_form){PNG_COLOR_TYPE_RGB, 8, false}, &bytes)
                                               : make_jpeg(x, w, h, (jpeg_form){0}, &bytes);
    write_bytes(folder, name, data, bytes);
}
