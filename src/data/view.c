#include "data/view.h"

#include <stdlib.h>
#include <string.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif
#include "core/functions.h"
#include "core/philox.h"

/* Resize to `full` pixels and crop the middle. A half pixel is rounded to even, as in Python. */
static gs_resize_axis middle(int pixels, int full, int size) {
    return (gs_resize_axis){0, pixels, full, (int)rint((full - size) / 2.0)};
}

gs_view gs_view_centre(int width, int height, int size) {
    const int64_t edge = ((int64_t)size * 256 + 112) / 224, side = width < height ? width : height;
    return (gs_view){middle(width, (int)(edge * width / side), size),
                     middle(height, (int)(edge * height / side), size)};
}

static gs_view cut(int left, int top, int w, int h, int size) {
    return (gs_view){{left, left + w, size, 0}, {top, top + h, size, 0}};
}

gs_view gs_view_resized(int width, int height, int size, uint64_t seed, uint64_t epoch, size_t sample) {
    const uint64_t stream = gs_stream_hi(GS_STREAM_AUGMENT, epoch);
    for (uint64_t attempt = 0; attempt < 10; attempt++) {
        uint32_t word[4]; /* from the upper half of the counters; augment.c uses the lower half */
        gs_philox(seed, stream, 1ull << 63 | (uint64_t)sample << 4 | attempt, word);
        const double area = (double)width * height * (0.08 + 0.92 * (double)gs_uniform(word[0])),
                     ratio = (double)gs_exp(0.287682072f * (2 * gs_uniform(word[1]) - 1)); /* ln(4/3) */
        const double w = rint(sqrt(area * ratio)), h = rint(sqrt(area / ratio));
        if (w < 1 || h < 1 || w > width || h > height) continue;
        const int left = gs_random_below(word[2], width - (int)w + 1),
                  top = gs_random_below(word[3], height - (int)h + 1);
        return cut(left, top, (int)w, (int)h, size);
    }
    int w = width, h = height;
    if (4 * (int64_t)w < 3 * (int64_t)h)
        h = (int)rint(w * 4.0 / 3);
    else if (3 * (int64_t)w > 4 * (int64_t)h)
        w = (int)rint(h * 4.0 / 3);
    return cut((width - w) / 2, (height - h) / 2, w, h, size);
}

int gs_view_shrink(const gs_view *v) {
    int shrink = 8;
    while (shrink > 1 && (v->across.hi - v->across.lo < 2 * shrink * v->across.full ||
                          v->down.hi - v->down.lo < 2 * shrink * v->down.full))
        shrink /= 2;
    return shrink;
}

static gs_resize_axis of_small(gs_resize_axis a, int pixels, int small) {
    const int64_t lo = (int64_t)a.lo * small / pixels, hi = ((int64_t)a.hi * small + pixels - 1) / pixels;
    return (gs_resize_axis){(int)lo, (int)hi, a.full, a.first};
}

gs_view gs_view_of_small(const gs_view *v, int width, int height, int small_width, int small_height) {
    return (gs_view){of_small(v->across, width, small_width), of_small(v->down, height, small_height)};
}

/* ---- resizing ---- */

enum { BITS = 22 }; /* fractional bits of a weight; 8 bits remain for a pixel, and one for the sign */

/* The input pixels for one output pixel: `count` pixels from `first` on. */
typedef struct span {
    int first, count;
} span;

typedef struct axis {
    int most; /* maximum number of inputs for an output */
    span *spans;
    int32_t *weights; /* [n][most] */
} axis;

static int most_of(const gs_resize_axis *a) {
    const double scale = (double)(a->hi - a->lo) / a->full;
    return 2 * (int)ceil(scale > 1 ? scale : 1) + 1;
}

static double triangle(double x) {
    x = fabs(x);
    return x < 1 ? 1 - x : 0;
}

static void make_axis(const gs_resize_axis *a, int n, double *w, axis *out) {
    const double scale = (double)(a->hi - a->lo) / a->full, wide = scale > 1 ? scale : 1;
    for (int x = 0; x < n; x++) {
        const double centre = (a->first + x + 0.5) * scale; /* relative to lo */
        int first = (int)(centre - wide + 0.5), end = (int)(centre + wide + 0.5);
        if (first < 0) first = 0;
        if (end > a->hi - a->lo) end = a->hi - a->lo;
        double sum = 0;
        for (int i = first; i < end; i++) sum += w[i - first] = triangle((i - centre + 0.5) * (1 / wide));
        for (int i = first; i < end; i++) {
            const double one = sum != 0 ? w[i - first] / sum : 0;
            out->weights[x * out->most + i - first] = (int32_t)(0.5 + one * (1 << BITS));
        }
        out->spans[x] = (span){a->lo + first, end - first};
    }
}

/* ---- the two passes ----
 *
 * Each pass exists twice, because AVX2 multiplies vectors of 32-bit integers in one instruction. The results are the
 * same integers. The weights for an output are at least 0 and add up to 1, so no sum exceeds a byte. */

enum { HALF = 1 << (BITS - 1), AT_ONCE = 8 /* values in a vector */ };

/* The data of both passes. */
typedef struct passes {
    const unsigned char *rgb;
    size_t width;
    axis across, down;
    int lo, n;
    unsigned char *narrow, *row, *out; /* [hi - lo][n][3]; [n][3]; [3][n][n] */
} passes;

/* Narrow one row from [width][3] to [n][3]; writes one extra byte. */
static void narrow_row(const unsigned char *row, const axis *a, int n, unsigned char *out) {
    for (int x = 0; x < n; x++) {
        const unsigned char *from = row + 3 * (size_t)a->spans[x].first;
        const int32_t *w = a->weights + x * a->most;
        int32_t red = HALF, green = HALF, blue = HALF;
        for (int i = 0; i < a->spans[x].count; i++, from += 3) {
            red += w[i] * from[0];
            green += w[i] * from[1];
            blue += w[i] * from[2];
        }
        out[3 * x] = (unsigned char)(red >> BITS);
        out[3 * x + 1] = (unsigned char)(green >> BITS);
        out[3 * x + 2] = (unsigned char)(blue >> BITS);
    }
}

/* Combine `count` rows of `values` bytes into one row; writes up to AT_ONCE - 1 extra bytes. */
static void add_rows(const unsigned char *rows, const int32_t *w, int count, size_t values,
                     unsigned char *out) {
    for (size_t v = 0; v < values; v++) {
        int32_t sum = HALF;
        for (int i = 0; i < count; i++) sum += w[i] * rows[(size_t)i * values + v];
        out[v] = (unsigned char)(sum >> BITS);
    }
}

#ifdef __x86_64__
#define AVX2 __attribute__((target("avx2")))

/* The four elements of a vector are red, green, blue, and the next pixel's red, which the next pixel overwrites. */
AVX2 static void narrow_row_avx2(const unsigned char *row, const axis *a, int n, unsigned char *out) {
    const __m128i lowest = _mm_set1_epi32(0x0c080400); /* the lowest byte of each element */
    for (int x = 0; x < n; x++, out += 3) {
        const unsigned char *from = row + 3 * (size_t)a->spans[x].first;
        const int32_t *w = a->weights + x * a->most;
        __m128i sum = _mm_set1_epi32(HALF);
        for (int i = 0; i < a->spans[x].count; i++, from += 3) {
            int32_t four;
            memcpy(&four, from, sizeof four);
            const __m128i pixel = _mm_cvtepu8_epi32(_mm_cvtsi32_si128(four));
            sum = _mm_add_epi32(sum, _mm_mullo_epi32(pixel, _mm_set1_epi32(w[i])));
        }
        const int32_t made = _mm_cvtsi128_si32(_mm_shuffle_epi8(_mm_srli_epi32(sum, BITS), lowest));
        memcpy(out, &made, sizeof made);
    }
}

AVX2 static void add_rows_avx2(const unsigned char *rows, const int32_t *w, int count, size_t values,
                               unsigned char *out) {
    for (size_t v = 0; v < values; v += AT_ONCE) {
        __m256i sum = _mm256_set1_epi32(HALF);
        for (int i = 0; i < count; i++) {
            const __m128i part = _mm_loadl_epi64((const __m128i *)(rows + (size_t)i * values + v));
            sum = _mm256_add_epi32(sum,
                                   _mm256_mullo_epi32(_mm256_cvtepu8_epi32(part), _mm256_set1_epi32(w[i])));
        }
        sum = _mm256_srli_epi32(sum, BITS);
        const __m128i words = _mm_packus_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1));
        _mm_storel_epi64((__m128i *)(out + v), _mm_packus_epi16(words, words));
    }
}
#endif

/* Separate a row [n][3] into three rows. */
static void separate(const unsigned char *row, size_t n, unsigned char *red, unsigned char *green,
                     unsigned char *blue) {
    for (size_t j = 0; j < n; j++) {
        red[j] = row[3 * j];
        green[j] = row[3 * j + 1];
        blue[j] = row[3 * j + 2];
    }
}

static void run(const passes *p) {
    void (*narrow)(const unsigned char *, const axis *, int, unsigned char *) = narrow_row;
    void (*add)(const unsigned char *, const int32_t *, int, size_t, unsigned char *) = add_rows;
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2")) {
        narrow = narrow_row_avx2;
        add = add_rows_avx2;
    }
#endif
    const axis *y = &p->down;
    const size_t n = (size_t)p->n, plane = n * n;
    const int top = y->spans[0].first, bottom = y->spans[n - 1].first + y->spans[n - 1].count;
    for (int i = top; i < bottom; i++)
        narrow(p->rgb + (size_t)i * p->width * 3, &p->across, p->n, p->narrow + (size_t)(i - p->lo) * n * 3);
    for (size_t i = 0; i < n; i++) {
        unsigned char *red = p->out + i * n;
        add(p->narrow + (size_t)(y->spans[i].first - p->lo) * n * 3, y->weights + i * (size_t)y->most,
            y->spans[i].count, 3 * n, p->row);
        separate(p->row, n, red, red + plane, red + 2 * plane);
    }
}

bool gs_resize(gs_resizer *r, const unsigned char *rgb, int width, gs_resize_axis across, gs_resize_axis down,
               int n, unsigned char *out) {
    passes p = {.rgb = rgb, .width = (size_t)width, .lo = down.lo, .n = n, .out = out};
    axis *x = &p.across, *y = &p.down;
    x->most = most_of(&across);
    y->most = most_of(&down);
    const size_t count = (size_t)n, most = (size_t)(x->most > y->most ? x->most : y->most),
                 rows = (size_t)(down.hi - down.lo), row = count * 3 + AT_ONCE,
                 need = most * sizeof(double) + 2 * count * sizeof(span) +
                        count * (size_t)(x->most + y->most) * sizeof(int32_t) + row + rows * count * 3 +
                        AT_ONCE;
    if (need > r->room) {
        free(r->memory);
        r->memory = malloc(need);
        r->room = r->memory ? need : 0;
        if (!r->memory) return false;
    }
    double *w = r->memory;
    x->spans = (span *)(w + most);
    y->spans = x->spans + n;
    x->weights = (int32_t *)(y->spans + n);
    y->weights = x->weights + n * x->most;
    p.row = (unsigned char *)(y->weights + n * y->most);
    p.narrow = p.row + row;
    make_axis(&across, n, w, x);
    make_axis(&down, n, w, y);
    run(&p);
    return true;
}

void gs_resizer_free(gs_resizer *r) {
    free(r->memory);
    *r = (gs_resizer){0};
}
