/* Random numbers that need no state: Philox4x32-10.
 *
 * Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011).
 *
 * philox(key, counter) works like a block cipher without the secrecy: the same key and counter give the same four words
 * on every device and in every worker, in any order. So worker 3 computes the dropout of *its* samples without knowing
 * how many numbers workers 0 to 2 have drawn, and N workers get exactly the numbers that one worker would have got.
 *
 * The key is the user's seed. The 128-bit counter is (hi, lo): `hi` says what the numbers are for (gs_stream), `lo`
 * counts blocks of four words. */
#pragma once

#include <stdint.h>
#include "core/api.h"

/* The purpose of a stream of random numbers. */
typedef enum gs_stream {
    GS_STREAM_WEIGHTS = 1,  /* sub: index of the parameter in the model, from 0 */
    GS_STREAM_ORDER = 2,    /* sub: the epoch */
    GS_STREAM_DROPOUT = 3,  /* sub: (layer << 40) | step */
    GS_STREAM_JITTER = 4,   /* sub: the worker's rank */
    GS_STREAM_COLOUR = 5,   /* sub: (split << 32) | index of the picture (data/colour.h) */
    GS_STREAM_AUGMENT = 6,  /* sub: the epoch (data/augment.h) */
    GS_STREAM_WINDOWS = 7,  /* sub: the epoch (data/text_set.h) */
    GS_STREAM_GENERATE = 8, /* sub: index of the text (model/generate.h) */
    GS_STREAM_FAILURES = 9, /* sub: index of the run (predict/failures.h) */
} gs_stream;

/* The high half of the counter for `stream`; sub < 2^56. */
static inline uint64_t gs_stream_hi(gs_stream stream, uint64_t sub) {
    return (uint64_t)stream << 56 | sub;
}

/* out[0..3] = Philox4x32-10 of the key (2 x 32 bits) and the counter (4 x 32 bits: lo low, lo high, hi low, hi
 * high). */
GS_API void gs_philox(uint64_t key, uint64_t hi, uint64_t lo, uint32_t out[4]);

/* Maps a word to an integer from 0 to below - 1. Needs no division and no rejection; the relative error of each
 * integer's probability is less than below / 2^32. */
static inline int gs_random_below(uint32_t word, int below) {
    return (int)((uint64_t)word * (uint64_t)below >> 32);
}

/* Maps a word to a float in [0, 1): its upper 24 bits times 2^-24, exact in f32, so the same on every device. */
static inline float gs_uniform(uint32_t word) {
    return (float)(word >> 8) * (1.0f / 16777216.0f);
}
