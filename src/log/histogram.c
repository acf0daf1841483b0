/* Histograms that cost little: a float's first 12 bits are its bin. */
#include "log/internal.h"

#include <math.h>
#include <string.h>

enum { SHIFT = 32 - 12, SIGN = GS_BINS / 2, INFINITE = 0x7f8 /* all bits of the exponent */ };
_Static_assert(1 << 12 == GS_BINS, "12 bits");

static uint32_t bits_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* Where the bin of a positive value begins. */
static double bin_begins(uint32_t bin) {
    uint32_t bits = bin << SHIFT;
    float x;
    memcpy(&x, &bits, sizeof x);
    return bin >= INFINITE ? ldexp(1, 128) : (double)x;
}

/* Two tables, because many values lie in few bins, and a counter must not wait for the addition before. */
static void count_bins(gs_histogram *h, const float *x, size_t count, float scale) {
    static _Thread_local uint32_t other[GS_BINS];
    size_t i = 0;
    memset(other, 0, sizeof other);
    for (; i + 2 <= count; i += 2) {
        h->bin[bits_of(x[i] * scale) >> SHIFT]++;
        other[bits_of(x[i + 1] * scale) >> SHIFT]++;
    }
    if (i < count) h->bin[bits_of(x[i] * scale) >> SHIFT]++;
    for (int b = 0; b < GS_BINS; b++) h->bin[b] += other[b];
}

/* One value after the other; others than numbers are left out. */
static void add_up(gs_histogram *h, const float *x, size_t count, float scale) {
    for (size_t i = 0; i < count; i++) {
        double v = (double)(x[i] * scale);
        if (!isfinite(v)) continue;
        h->num++;
        h->sum += v;
        h->sum_squares += v * v;
        h->min = fmin(h->min, v);
        h->max = fmax(h->max, v);
    }
}

enum { LANES = 8 };

/* The same for numbers alone and a multiple of LANES: LANES sums side by side, because vectors can be used then
 * without changing the order of additions. */
static void add_up_lanes(gs_histogram *h, const float *x, size_t count, float scale) {
    double sum[LANES] = {0}, squares[LANES] = {0};
    for (size_t i = 0; i < count; i += LANES)
        for (int k = 0; k < LANES; k++) {
            float v = x[i + (size_t)k] * scale;
            sum[k] += (double)v;
            squares[k] += (double)v * (double)v;
        }
    h->num += (double)count;
    for (int k = 0; k < LANES; k++) h->sum += sum[k], h->sum_squares += squares[k];
}

/* By itself: gcc 12 uses vectors for the sums only where nothing else is in their loop. */
static void find_ends(gs_histogram *h, const float *x, size_t count, float scale) {
    float low[LANES], high[LANES];
    for (int k = 0; k < LANES; k++) low[k] = INFINITY, high[k] = -INFINITY;
    for (size_t i = 0; i < count; i += LANES)
        for (int k = 0; k < LANES; k++) {
            float v = x[i + (size_t)k] * scale;
            low[k] = v < low[k] ? v : low[k];
            high[k] = v > high[k] ? v : high[k];
        }
    for (int k = 0; k < LANES; k++) {
        /* not by fmin and fmax: on arm64 gcc 12 has an internal error then */
        h->min = (double)low[k] < h->min ? (double)low[k] : h->min;
        h->max = (double)high[k] > h->max ? (double)high[k] : h->max;
    }
}

static bool has_other_than_numbers(gs_histogram *h) {
    uint32_t found = 0;
    for (uint32_t b = INFINITE; b < SIGN; b++) {
        found |= h->bin[b] | h->bin[SIGN + b];
        h->bin[b] = h->bin[SIGN + b] = 0;
    }
    return found != 0;
}

void gs_histogram_of(gs_histogram *h, const float *x, size_t count, float scale) {
    memset(h, 0, sizeof *h);
    h->min = INFINITY, h->max = -INFINITY;
    count_bins(h, x, count, scale);
    size_t numbers = has_other_than_numbers(h) ? 0 : count - count % LANES;
    add_up_lanes(h, x, numbers, scale);
    find_ends(h, x, numbers, scale);
    add_up(h, x + numbers, count - numbers, scale);
    if (!(h->num > 0)) h->min = h->max = 0;
}

typedef struct buckets {
    double *limit, *count;
    size_t used;
} buckets;

/* Where the bin does not begin where the last bucket ended, an empty bucket fills the gap. */
static void add_bucket(buckets *b, double begin, double end, uint32_t count) {
    if (count == 0) return;
    if (b->used == 0 || b->limit[b->used - 1] < begin) {
        b->limit[b->used] = begin;
        b->count[b->used++] = 0;
    }
    b->limit[b->used] = end;
    b->count[b->used++] = (double)count;
}

size_t gs_histogram_buckets(const gs_histogram *h, double *limit, double *bucket) {
    buckets b = {limit, bucket, 0};
    for (uint32_t i = INFINITE; i-- > 0;)
        add_bucket(&b, -bin_begins(i + 1), -bin_begins(i), h->bin[SIGN + i]);
    for (uint32_t i = 0; i < INFINITE; i++) add_bucket(&b, bin_begins(i), bin_begins(i + 1), h->bin[i]);
    return b.used;
}
