/* JPEG and PNG files, decoded to RGB bytes and resized: compared with Pillow (golden/make_pictures.py), in every PNG
 * format, and with every kind of damage. */
#include "data/view.h"
#include "io/picture.h"
#include "tests/support/pictures.h"

#include <png.h>
#include <zlib.h>

enum { LINE = 1 << 15 };

static gs_picture_reader *reader(void) {
    static gs_picture_reader *r;
    if (!r) assert_ok(gs_picture_reader_create(&r));
    return r;
}

/* The *bytes bytes of a line of the golden values. Free the result. */
static unsigned char *golden_bytes(const char *name, size_t *bytes) {
    static char line[LINE];
    char of[64];
    FILE *f = gs_test_open(gs_test_source("tests/golden/pictures.txt"), "r");
    const int length = snprintf(of, sizeof of, "%s ", name);
    do
        if (!fgets(line, sizeof line, f)) fail_msg("no golden values of %s", name);
    while (strncmp(line, of, (size_t)length) != 0);
    fclose(f);
    *bytes = strcspn(line + length, "\n") / 2;
    unsigned char *out = gs_test_malloc(*bytes);
    for (size_t i = 0; i < *bytes; i++) {
        unsigned x;
        assert_int_equal(sscanf(line + length + 2 * i, "%2x", &x), 1);
        out[i] = (unsigned char)x;
    }
    return out;
}

static gs_status decode(const void *data, size_t bytes, int shrink, const unsigned char **rgb, int *w,
                        int *h) {
    GS_TRY(gs_picture_begin(reader(), data, bytes, w, h));
    return gs_picture_decode(reader(), shrink, rgb, w, h);
}

TEST(decoded_as_pillow_does) {
    static const char *const names[] = {"colour", "progressive", "grey", "cmyk"};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        char name[64];
        size_t bytes, wanted;
        const unsigned char *rgb;
        int w, h;
        snprintf(name, sizeof name, "%s.file", names[k]);
        unsigned char *file = golden_bytes(name, &bytes);
        snprintf(name, sizeof name, "%s.rgb", names[k]);
        unsigned char *want = golden_bytes(name, &wanted);
        assert_ok(decode(file, bytes, 1, &rgb, &w, &h));
        assert_int_equal(w, 13);
        assert_int_equal(h, 11);
        assert_int_equal(wanted, 13 * 11 * 3);
        /* within 1: other versions of libjpeg may round differently */
        for (size_t i = 0; i < wanted; i++) assert_true(abs(rgb[i] - want[i]) <= 1);
    }
}

TEST(resized_as_pillow_does) {
    static const int cases[][3] = {{41, 29, 12}, {29, 41, 12}, {100, 37, 8}, {9, 7, 16},
                                   {16, 16, 14}, {5, 90, 8},   {1, 1, 4},    {37, 100, 8}};
    gs_resizer r = {0};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        const int w = cases[k][0], h = cases[k][1], n = cases[k][2];
        size_t bytes;
        unsigned char out[3 * 16 * 16];
        const char *name = gs_test_format("size-%d-%d-%d", w, h, n);
        unsigned char *want = golden_bytes(name, &bytes), *x = make_colours(3, w, h);
        assert_int_equal(bytes, 3 * n * n);
        const gs_view v = gs_view_centre(w, h, n);
        assert_true(gs_resize(&r, x, w, v.across, v.down, n, out));
        assert_memory_equal(out, want, bytes);
    }
    gs_resizer_free(&r);
}

/* [3][n][n] with rows and columns exchanged. */
static void transpose(const unsigned char *x, int n, unsigned char *out) {
    for (int c = 0; c < 3; c++)
        for (int i = 0; i < n; i++)
            for (int j = 0; j < n; j++) out[(c * n + j) * n + i] = x[(c * n + i) * n + j];
}

/* Pillow 13 resizes this picture's rows first, as we do for the transposed picture. Our own result is within 1. */
TEST(pillow_13_is_one_level_away) {
    enum { W = 37, H = 100, N = 8 };
    gs_resizer r = {0};
    size_t bytes;
    unsigned char own[3 * N * N], lying[3 * N * N], out[3 * N * N], side[W * H * 3 + 1];
    unsigned char *want = golden_bytes("rows-37-100-8", &bytes), *x = make_colours(3, W, H);
    for (int i = 0; i < H; i++)
        for (int j = 0; j < W; j++) memcpy(side + 3 * (j * H + i), x + 3 * (i * W + j), 3);
    const gs_view v = gs_view_centre(W, H, N), turned = gs_view_centre(H, W, N);
    assert_true(gs_resize(&r, x, W, v.across, v.down, N, own));
    assert_true(gs_resize(&r, side, H, turned.across, turned.down, N, lying));
    transpose(lying, N, out);
    assert_memory_equal(out, want, bytes);
    int differ = 0;
    for (size_t i = 0; i < bytes; i++) {
        assert_true(abs(own[i] - want[i]) <= 1);
        differ += own[i] != want[i];
    }
    assert_true(differ > 0);
    gs_resizer_free(&r);
}

/* A picture reduced eightfold holds the means of blocks of 8 x 8 pixels, up to rounding; its size is rounded up. */
TEST(shrunk) {
    enum { W = 43, H = 33 };
    unsigned char x[W * H * 3];
    memset(x, 77, sizeof x);
    for (int p = 0; p < 6; p++) {
        size_t bytes;
        unsigned char *file =
            make_jpeg(x, W, H, (jpeg_form){.progressive = p % 2, .subsampling = p / 3 + 1}, &bytes);
        for (int shrink = 1; shrink <= 8; shrink *= 2) {
            const unsigned char *rgb;
            int w, h;
            assert_ok(decode(file, bytes, shrink, &rgb, &w, &h));
            assert_int_equal(w, (W + shrink - 1) / shrink);
            assert_int_equal(h, (H + shrink - 1) / shrink);
            for (int i = 0; i < w * h * 3; i++) assert_true(abs(rgb[i] - 77) <= 1);
        }
    }
}

/* The byte for a PNG sample of `depth` bits: the upper 8 of 16 bits; fewer bits are scaled to 0 .. 255. */
static int byte_of(unsigned x, int depth) {
    return depth == 16 ? (int)(x >> 8) : (int)(x * 255 / ((1u << depth) - 1));
}

static void check_png(int type, int depth, bool interlaced) {
    enum { W = 11, H = 9 };
    const int channels = type == PNG_COLOR_TYPE_RGB          ? 3
                         : type == PNG_COLOR_TYPE_RGB_ALPHA  ? 4
                         : type == PNG_COLOR_TYPE_GRAY_ALPHA ? 2
                                                             : 1;
    const size_t row = ((size_t)(W * channels * depth) + 7) / 8;
    unsigned char rows[H * W * 8] = {0};
    unsigned value[H][W][4];
    for (int i = 0; i < H; i++)
        for (int j = 0; j < W; j++)
            for (int c = 0; c < channels; c++) {
                const unsigned x = value[i][j][c] =
                    (unsigned)(i * 7919 + j * 4241 + c * 12007) % (1u << depth);
                const size_t bit = (size_t)((j * channels + c) * depth);
                unsigned char *at = rows + (size_t)i * row + bit / 8;
                if (depth == 16) *at++ = (unsigned char)(x >> 8);
                *at = (unsigned char)(depth >= 8 ? x : *at | x << (8 - depth - (int)(bit % 8)));
            }
    size_t bytes;
    unsigned char *file = make_png(rows, row, W, H, (png_form){type, depth, interlaced}, &bytes);
    const unsigned char *rgb;
    int w, h;
    assert_ok(decode(file, bytes, 4, &rgb, &w, &h)); /* a PNG is not reduced while decoding */
    assert_int_equal(w, W);
    assert_int_equal(h, H);
    for (int i = 0; i < H; i++)
        for (int j = 0; j < W; j++) {
            const unsigned *v = value[i][j];
            const unsigned char *got = rgb + (i * W + j) * 3;
            const int colour[] = {(int)v[0], (int)(unsigned char)(2 * v[0]), 255 - (int)v[0]};
            for (size_t c = 0; c < sizeof colour / sizeof *colour; c++)
                assert_int_equal(got[c], type == PNG_COLOR_TYPE_PALETTE ? colour[c]
                                         : channels <= 2                ? byte_of(v[0], depth)
                                                                        : byte_of(v[c], depth));
        }
}

TEST(every_form_of_png) {
    static const int forms[][2] = {
        {PNG_COLOR_TYPE_GRAY, 1},        {PNG_COLOR_TYPE_GRAY, 2},      {PNG_COLOR_TYPE_GRAY, 4},
        {PNG_COLOR_TYPE_GRAY, 8},        {PNG_COLOR_TYPE_GRAY, 16},     {PNG_COLOR_TYPE_GRAY_ALPHA, 8},
        {PNG_COLOR_TYPE_GRAY_ALPHA, 16}, {PNG_COLOR_TYPE_PALETTE, 1},   {PNG_COLOR_TYPE_PALETTE, 2},
        {PNG_COLOR_TYPE_PALETTE, 4},     {PNG_COLOR_TYPE_PALETTE, 8},   {PNG_COLOR_TYPE_RGB, 8},
        {PNG_COLOR_TYPE_RGB, 16},        {PNG_COLOR_TYPE_RGB_ALPHA, 8}, {PNG_COLOR_TYPE_RGB_ALPHA, 16}};
    for (size_t k = 0; k < 2 * sizeof forms / sizeof *forms; k++)
        check_png(forms[k / 2][0], forms[k / 2][1], k % 2);
}

/* ---- damaged ---- */

#define assert_broken(part, data, bytes)                                                                     \
    do {                                                                                                     \
        const unsigned char *broken_rgb;                                                                     \
        int broken_w, broken_h;                                                                              \
        assert_fails(GS_E_FORMAT, part, decode(data, bytes, 1, &broken_rgb, &broken_w, &broken_h));          \
    } while (0)

TEST(no_pictures) {
    assert_broken("the file is empty", "", 0);
    assert_broken("it is a GIF picture, neither a JPEG nor a PNG", "GIF89a", 6);
    assert_broken("it is a Git LFS pointer, neither a JPEG nor a PNG; fetch the file that it stands for",
                  "version https://git-lfs.github.com/spec/v1\n", 43);
    assert_broken("neither a JPEG nor a PNG", "\x89PNG", 4);
    assert_broken("the JPEG is damaged", "\xff\xd8\xff", 3);
    assert_broken("the PNG is damaged: the file ends too early", "\x89PNG\r\n\x1a\n", 8);
}

/* A file truncated at any byte is reported as broken and gives no picture. The reader can still read the next file. */
TEST(cut_off) {
    for (int kind = 0; kind < 4; kind++) {
        size_t bytes;
        unsigned char *x = make_colours(kind, 24, 20), *file;
        if (kind < 2)
            file = make_jpeg(x, 24, 20, (jpeg_form){.progressive = kind == 1}, &bytes);
        else
            file = make_png(x, 72, 24, 20, (png_form){PNG_COLOR_TYPE_RGB, 8, kind == 3}, &bytes);
        for (size_t n = 1; n < bytes; n += n < 30 ? 1 : 7) {
            if (kind < 2 && n > bytes - 3) break; /* only the end marker is missing: still complete */
            unsigned char *part = malloc(n);      /* so that a sanitizer detects reads past its end */
            assert_non_null(part);
            memcpy(part, file, n);
            assert_broken(n < (kind < 2 ? 3u : 8u) ? "neither a JPEG" : "is damaged: ", part, n);
            free(part);
        }
        const unsigned char *rgb;
        int w, h;
        assert_ok(decode(file, bytes, 1, &rgb, &w, &h));
        assert_int_equal(w * h, 480);
    }
}

static void put32(unsigned char *to, unsigned x) {
    for (int k = 0; k < 4; k++) to[k] = (unsigned char)(x >> (24 - 8 * k));
}

/* Sizes are checked before memory is allocated: a header with 60,000 x 60,000 is rejected. */
TEST(too_large) {
    static const unsigned sizes[][2] = {{60000, 60000}, {8193, 8192}, {65501, 1}, {0x7fffffff, 0x7fffffff}};
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        unsigned char png[33 + 12] = "\x89PNG\r\n\x1a\n\0\0\0\rIHDR";
        put32(png + 16, sizes[k][0]);
        put32(png + 20, sizes[k][1]);
        memcpy(png + 24, "\x08\x02\0\0\0", 5);
        put32(png + 29, (unsigned)crc32_z(0, png + 12, 17));
        memcpy(png + 37, "IDAT", 4);
        put32(png + 41, (unsigned)crc32_z(0, png + 37, 4));
        const char *wanted = gs_test_format("the PNG says that it is %u x %u; at most 65500 on a side",
                                            sizes[k][0], sizes[k][1]);
        assert_broken(wanted, png, sizeof png);
    }
    size_t bytes;
    unsigned char x[3 * 8 * 8] = {0}, *jpeg = make_jpeg(x, 8, 8, (jpeg_form){0}, &bytes);
    for (size_t i = 0; i + 9 < bytes; i++)
        if (jpeg[i] == 0xff && jpeg[i + 1] == 0xc0) memcpy(jpeg + i + 5, "\x3a\x98\x3a\x98", 4);
    assert_broken("the JPEG says that it is 15000 x 15000", jpeg, bytes);
}

/* ---- the visible part ---- */

TEST(views) {
    double least = 1, most = 0;
    for (int w = 1; w < 3000; w = w * 3 + 1)
        for (int h = 1; h < 3000; h = h * 2 + 1)
            for (size_t sample = 0; sample < 40; sample++) {
                const gs_view v = gs_view_resized(w, h, 32, 7, 3, sample),
                              again = gs_view_resized(w, h, 32, 7, 3, sample);
                const double area =
                    (double)(v.across.hi - v.across.lo) * (v.down.hi - v.down.lo) / ((double)w * h);
                assert_memory_equal(&v, &again, sizeof v);
                assert_true(v.across.lo >= 0 && v.across.lo < v.across.hi && v.across.hi <= w);
                assert_true(v.down.lo >= 0 && v.down.lo < v.down.hi && v.down.hi <= h);
                if (w > 300 && h > 300 && w < 2 * h && h < 2 * w) {
                    least = area < least ? area : least;
                    most = area > most ? area : most;
                    const double ratio = (double)(v.across.hi - v.across.lo) / (v.down.hi - v.down.lo);
                    assert_true(ratio > 0.74 && ratio < 1.35);
                }
                const int shrink = gs_view_shrink(&v), sw = (w + shrink - 1) / shrink,
                          sh = (h + shrink - 1) / shrink;
                const gs_view small = gs_view_of_small(&v, w, h, sw, sh);
                assert_true(small.across.lo < small.across.hi && small.across.hi <= sw);
                assert_true(small.down.lo < small.down.hi && small.down.hi <= sh);
                assert_true(shrink == 1 || small.across.hi - small.across.lo >= 64);
            }
    assert_true(least > 0.07 && least < 0.2 && most > 0.8);
    const gs_view centre =
        gs_view_centre(500, 375, 224); /* 341 x 256, rows 16 to 239 and columns 58 to 281 */
    assert_int_equal(centre.across.full, 341);
    assert_int_equal(centre.across.first, 58);
    assert_int_equal(centre.down.full, 256);
    assert_int_equal(centre.down.first, 16);
}
