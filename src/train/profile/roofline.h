/* What a device can do at most, measured on the spot, and what follows from it for a piece of work.
 *
 * Work that needs some floating-point operations and moves some bytes takes at least
 *
 *     max(flops / (most FLOP/s), bytes / (most bytes/s))
 *
 * Which of the two is larger says what bounds it: the units that compute, or the memory. Caches are faster than memory,
 * so the bandwidth is measured for several sizes, and a piece of work is compared with one that moves as many bytes as
 * it.
 *
 * Source: Williams, Waterman, Patterson, "Roofline: an insightful visual performance model for multicore architectures"
 * (CACM 52, 2009).
 */
#pragma once

#include "backend.h"

enum { GS_ROOFLINE_SIZES = 4 };

typedef struct gs_roofline {
    double flops; /* a second, by an FMA loop on all cores */
    /* By a triad that moves bytes[i] bytes, increasing, in all: rate[i] bytes a second, never increasing. */
    double bytes[GS_ROOFLINE_SIZES], rate[GS_ROOFLINE_SIZES];
} gs_roofline;

/* Measure, for about `seconds` (a device that is slow may take longer). */
gs_status gs_roofline_measure(gs_device *, double seconds, gs_roofline *out);

/* Bytes per second for work that moves `bytes` bytes. Between two measured sizes it lies on the line between them, over
 * the logarithm of the size; beyond the ends it is that of the end. */
double gs_roofline_rate(const gs_roofline *, double bytes);

/* The seconds that such work takes at least. */
double gs_roofline_seconds(const gs_roofline *, double flops, double bytes);
