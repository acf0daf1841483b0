#include "cpu/product16.h"
#include "cpu/round16.h"
#include "tests/support/operators.h"
#include "tests/support/test.h"

#include <float.h>
#include <math.h>

/* Products of matrices rounded to 16 bits (cpu/product16.h), with every instruction set of this processor. The
 * reference is a product, in double, of values rounded by a second formula (rounded, below). */

#if defined(__x86_64__) /* a build contains the versions whose GS_HAS_ISA_... the Makefile defines */
void gs_cpu_product16_v3(const gs_product16 *, float *);
void gs_cpu_product16_v4(const gs_product16 *, float *);
size_t gs_cpu_product16_memory_v3(int, int);
size_t gs_cpu_product16_memory_v4(int, int);
#endif

typedef struct way {
    const char *name;
    void (*product)(const gs_product16 *, float *);
    size_t (*memory)(int, int);
    bool instruction;
} way;

enum { MOST_WAYS = 4 };

static int ways_of(way out[MOST_WAYS]) {
    int count = 0;
#if defined(GS_HAS_ISA_base)
    out[count++] = (way){"base", gs_cpu_product16_base, gs_cpu_product16_memory_base, false};
#endif
#if defined(GS_HAS_ISA_v3)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        out[count++] = (way){"AVX2", gs_cpu_product16_v3, gs_cpu_product16_memory_v3, false};
#endif
#if defined(GS_HAS_ISA_v4)
    if (gs_cpu_has_avx512()) {
        out[count++] = (way){"AVX-512", gs_cpu_product16_v4, gs_cpu_product16_memory_v4, false};
        if (__builtin_cpu_supports("avx512bf16"))
            out[count++] = (way){"AVX512-BF16", gs_cpu_product16_v4, gs_cpu_product16_memory_v4, true};
    }
#endif
    return count;
}

/* ---- rounding ---- */

/* The unit in the last place is 2^(exponent - fraction), but at least that of the smallest normal number. Values of
 * 2^top and above become infinite. */
static double rounded(gs_precision precision, double x) {
    const int fraction = precision == GS_PRECISION_BF16 ? 7 : 10,
              lowest = precision == GS_PRECISION_BF16 ? -126 : -14,
              top = precision == GS_PRECISION_BF16 ? 128 : 16;
    int exponent;
    if (!isfinite(x) || x == 0) return x;
    (void)frexp(x, &exponent); /* |x| in [2^(exponent - 1), 2^exponent) */
    if (precision == GS_PRECISION_BF16 && exponent - 1 < lowest) return copysign(0, x);
    const int unit = (exponent - 1 < lowest ? lowest : exponent - 1) - fraction;
    const double y = ldexp(nearbyint(ldexp(x, -unit)), unit);
    return fabs(y) >= ldexp(1, top) ? copysign(INFINITY, x) : y;
}

static void check_rounding(gs_precision precision, float x) {
    const float got = precision == GS_PRECISION_BF16 ? gs_round_bf16(x) : gs_round_f16(x),
                want = (float)rounded(precision, (double)x);
    if (isnan(x) ? !isnan(got) : bits_of(got) != bits_of(want))
        fail_msg("%a becomes %a in %s, wanted %a", (double)x, (double)got,
                 precision == GS_PRECISION_BF16 ? "bf16" : "f16", (double)want);
}

/* Every upper half of a float, combined with lower halves at, near and between ties. */
TEST(to_the_nearest) {
    static const uint32_t lower[] = {0,      1,      0xfff,  0x1000, 0x1001, 0x1fff, 0x2000, 0x2fff, 0x3000,
                                     0x3001, 0x7fff, 0x8000, 0x8001, 0xefff, 0xf000, 0xf001, 0xffff};
    for (uint32_t upper = 0; upper < 1u << 16; upper++)
        for (size_t i = 0; i < sizeof lower / sizeof *lower; i++) {
            check_rounding(GS_PRECISION_BF16, gs_float_of(upper << 16 | lower[i]));
            check_rounding(GS_PRECISION_F16, gs_float_of(upper << 16 | lower[i]));
        }
}

/* The rounding error of a normal number is at most half a unit in the last place: 2^-7 or 2^-10 of a power of two. */
TEST(as_near_as_promised) {
    for (size_t i = 0; i < 10000; i++) {
        const double x = (double)test_value(i, 1);
        if (fabs(x) < 1e-4) continue;
        assert_near((double)gs_round_bf16((float)x), x, 0, ldexp(1, -8));
        assert_near((double)gs_round_f16((float)x), x, 0, ldexp(1, -11));
    }
}

/* ---- products ---- */

typedef struct sizes {
    int rows, depth, columns;
} sizes;

static const sizes shapes[] = {{1, 1, 1},     {3, 2, 5},    {8, 32, 48},   {7, 33, 47},   {9, 257, 49},
                               {17, 513, 97}, {16, 31, 16}, {2, 255, 71},  {33, 64, 33},  {270, 3, 50},
                               {257, 40, 24}, {3, 9, 1601}, {33, 300, 97}, {128, 20, 10}, {23, 17, 73}};

static float *floats(size_t count) {
    float *x = malloc((count + 1) * sizeof *x);
    assert_non_null(x);
    return x;
}

/* A matrix (across, depth), where element (i, k) is values[i][k], in lines `gap` apart. */
static gs_lines lines_of(const float *values, int across, int depth, bool deep, bool listed, float **memory,
                         size_t **table) {
    const int lines = deep ? across : depth, length = deep ? depth : across, gap = length + 3;
    *memory = floats((size_t)lines * (size_t)gap);
    *table = calloc((size_t)lines, sizeof **table);
    assert_non_null(*table);
    for (int l = 0; l < lines; l++) {
        const int place =
            listed ? (l * 7 + 3) % lines : l; /* not if 7 divides `lines`, as some would coincide */
        (*table)[l] = (size_t)(lines % 7 == 0 && listed ? lines - 1 - l : place) * (size_t)gap;
        for (int e = 0; e < length; e++)
            (*memory)[(*table)[l] + (size_t)e] = deep ? values[l * depth + e] : values[e * depth + l];
        for (int e = length; e < gap; e++) (*memory)[(*table)[l] + (size_t)e] = NAN;
    }
    return (gs_lines){*memory, (size_t)gap, listed ? *table : NULL, deep};
}

static void fill(float *x, size_t count, uint32_t salt) {
    for (size_t i = 0; i < count; i++) x[i] = test_value(i, salt) * 3;
}

/* To first order, the error of an f32 sum of `depth` products, in any order, is at most depth 2^-24 times the sum of
 * their magnitudes. Bias and the earlier c are two more terms. `want` includes the rounding to 16 bits. */
static void check(const way *w, const gs_product16 *t, const double *a, const double *b,
                  const float *before) {
    for (int i = 0; i < t->rows; i++)
        for (int j = 0; j < t->columns; j++) {
            const size_t at = (size_t)i * t->c_row + (size_t)j;
            double want = t->bias ? (double)t->bias[j] : 0, size = fabs(want);
            if (t->add) want += (double)before[at], size += fabs((double)before[at]);
            for (int k = 0; k < t->depth; k++) {
                const double x = a[i * t->depth + k] * b[j * t->depth + k];
                want += x;
                size += fabs(x);
            }
            if (t->relu && want < 0) want = 0;
            if (!(fabs((double)t->c[at] - want) <= 1.01 * (t->depth + 2) * ldexp(1, -24) * size))
                fail_msg("%s, %s, %d x %d x %d: c[%d][%d] is %.9g, wanted %.9g", w->name,
                         t->precision == GS_PRECISION_BF16 ? "bf16" : "f16", t->rows, t->depth, t->columns, i,
                         j, (double)t->c[at], want);
        }
}

static double *all_rounded(gs_precision precision, const float *x, size_t count) {
    double *y = malloc((count + 1) * sizeof *y);
    assert_non_null(y);
    for (size_t i = 0; i < count; i++) y[i] = rounded(precision, (double)x[i]);
    return y;
}

/* `form` encodes which of a and b are deep, and whether their lines are listed */
static void one_product(const way *w, sizes s, gs_precision precision, int form) {
    const size_t c_row = (size_t)s.columns + 2, size = (size_t)s.rows * c_row;
    float *a = floats((size_t)s.rows * (size_t)s.depth), *b = floats((size_t)s.columns * (size_t)s.depth),
          *c = floats(size), *before = floats(size), *bias = floats((size_t)s.columns), *a_memory, *b_memory,
          *memory = floats(w->memory(s.rows, s.columns));
    size_t *a_at, *b_at;
    fill(a, (size_t)s.rows * (size_t)s.depth, 1);
    fill(b, (size_t)s.columns * (size_t)s.depth, 2);
    fill(before, size, 3);
    fill(bias, (size_t)s.columns, 4);
    memcpy(c, before, size * sizeof *c);
    const gs_product16 t = {.precision = precision,
                            .instruction = w->instruction,
                            .rows = s.rows,
                            .depth = s.depth,
                            .columns = s.columns,
                            .a = lines_of(a, s.rows, s.depth, form & 1, form & 4, &a_memory, &a_at),
                            .b = lines_of(b, s.columns, s.depth, form & 2, form & 4, &b_memory, &b_at),
                            .c = c,
                            .c_row = c_row,
                            .bias = form & 8 ? bias : NULL,
                            .add = form & 1,
                            .relu = form & 8};
    w->product(&t, memory);
    double *a16 = all_rounded(precision, a, (size_t)s.rows * (size_t)s.depth),
           *b16 = all_rounded(precision, b, (size_t)s.columns * (size_t)s.depth);
    check(w, &t, a16, b16, before);
    for (int i = 0; i < s.rows; i++) /* nothing was written between the rows */
        for (size_t j = (size_t)s.columns; j < c_row; j++)
            assert_true(c[(size_t)i * c_row + j] == before[(size_t)i * c_row + j]);
    free(a), free(b), free(c), free(before), free(bias), free(memory), free(a_memory), free(b_memory),
        free(a16), free(b16);
    free(a_at), free(b_at);
}

TEST(as_in_double) {
    way ways[MOST_WAYS];
    const int count = ways_of(ways);
    for (int w = 0; w < count; w++)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
            for (int form = 0; form < 16; form++) {
                one_product(&ways[w], shapes[s], GS_PRECISION_BF16, form);
                if (!ways[w].instruction) one_product(&ways[w], shapes[s], GS_PRECISION_F16, form);
            }
}

/* Dividing the rows and columns anywhere gives the same bits as one call. */
TEST(the_same_bits_for_any_cut) {
    enum { ROWS = 41, DEPTH = 530, COLUMNS = 115 };
    way ways[MOST_WAYS];
    const int count = ways_of(ways);
    float *a = floats((size_t)ROWS * DEPTH), *b = floats((size_t)DEPTH * COLUMNS),
          *whole = floats((size_t)ROWS * COLUMNS), *parts = floats((size_t)ROWS * COLUMNS);
    fill(a, (size_t)ROWS * DEPTH, 1);
    fill(b, (size_t)DEPTH * COLUMNS, 2);
    for (int w = 0; w < count; w++) {
        float *memory = floats(ways[w].memory(ROWS, COLUMNS));
        gs_product16 t = {.precision = GS_PRECISION_BF16,
                          .instruction = ways[w].instruction,
                          .rows = ROWS,
                          .depth = DEPTH,
                          .columns = COLUMNS,
                          .a = {a, DEPTH, NULL, true},
                          .b = {b, COLUMNS, NULL, false},
                          .c = whole,
                          .c_row = COLUMNS};
        ways[w].product(&t, memory);
        for (int row = 0, rows; row < ROWS; row += rows)
            for (int column = 0, columns; column < COLUMNS; column += columns) {
                rows = ROWS - row < 13 ? ROWS - row : 13;
                columns = COLUMNS - column < 37 ? COLUMNS - column : 37;
                gs_product16 part = t;
                part.rows = rows, part.columns = columns;
                part.a = gs_lines_from(t.a, (size_t)row), part.b = gs_lines_from(t.b, (size_t)column);
                part.c = parts + row * COLUMNS + column;
                ways[w].product(&part, memory);
            }
        assert_memory_equal(whole, parts, (size_t)ROWS * COLUMNS * sizeof *whole);
        free(memory);
    }
    free(a), free(b), free(whole), free(parts);
}

static float product_of(const way *w, gs_precision precision, float x, float y) {
    float a[3] = {1, x, 2}, b[3] = {0, y, 0}, c = -1, *memory = floats(w->memory(1, 1));
    w->product(&(gs_product16){.precision = precision,
                               .instruction = w->instruction,
                               .rows = 1,
                               .depth = 3,
                               .columns = 1,
                               .a = {a, 3, NULL, true},
                               .b = {b, 1, NULL, false},
                               .c = &c,
                               .c_row = 1},
               memory);
    free(memory);
    return c;
}

TEST(not_finite_and_tiny) {
    way ways[MOST_WAYS];
    const int count = ways_of(ways);
    for (int i = 0; i < count; i++) {
        const way *w = &ways[i];
        assert_true(isnan(product_of(w, GS_PRECISION_BF16, NAN, 1)));
        assert_true(isnan(product_of(w, GS_PRECISION_BF16, INFINITY, 0)));
        assert_true(product_of(w, GS_PRECISION_BF16, -INFINITY, 2) == -INFINITY);
        assert_true(product_of(w, GS_PRECISION_BF16, FLT_MAX, 1) == INFINITY);     /* to the nearest */
        assert_true(product_of(w, GS_PRECISION_BF16, 1e30f, -1e30f) == -INFINITY); /* an f32 product */
        assert_true(product_of(w, GS_PRECISION_BF16, 0x1p-127f, 0x1p127f) ==
                    0); /* too small for a normal bf16 */
        assert_true(product_of(w, GS_PRECISION_BF16, 0x1p-126f, 0x1p126f) == 1);
        if (w->instruction) continue;
        assert_true(isnan(product_of(w, GS_PRECISION_F16, NAN, 1)));
        assert_true(product_of(w, GS_PRECISION_F16, 65519, 1) == 65504);
        assert_true(product_of(w, GS_PRECISION_F16, 65520, 1) == INFINITY);
        assert_true(product_of(w, GS_PRECISION_F16, -1e6f, 1) == -INFINITY);
        assert_true(product_of(w, GS_PRECISION_F16, 0x1.8p-24f, 1) ==
                    0x1p-23f); /* a tie of multiples of 2^-24 */
        assert_true(product_of(w, GS_PRECISION_F16, 0x1p-25f, 1) == 0);
    }
}

/* The bf16 instruction flushes a subnormal sum to 0, while float arithmetic keeps it. The header allows both. */
TEST(a_sum_below_the_normal_numbers) {
    way ways[MOST_WAYS];
    const int count = ways_of(ways);
    for (int i = 0; i < count; i++) {
        const float got = product_of(&ways[i], GS_PRECISION_BF16, 0x1p-70f, 0x1p-60f);
        assert_true(got == (ways[i].instruction ? 0 : 0x1p-130f));
    }
}
