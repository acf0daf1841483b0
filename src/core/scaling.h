/* How the bytes of an image become floats: x = (byte / 255 - mean) / std, with one mean and std for all channels or a
 * pair for each, as in torchvision's Normalize after ToTensor. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum { GS_CHANNELS = 4 }; /* maximum with separate values; images with more channels use one value for all */

/* One value for all channels of an image, or one for each. */
typedef struct gs_by_channel {
    int count; /* 0: not given; 1: of[0] is for all channels; else of[c] is for channel c */
    float of[GS_CHANNELS];
} gs_by_channel;

#define GS_ALL_CHANNELS(x) ((gs_by_channel){1, {x}})

typedef struct gs_scaling {
    gs_by_channel mean, std;
} gs_scaling;

/* Maps bytes to 0 .. 1 and leaves floats unchanged. */
#define GS_NOT_SCALED ((gs_scaling){GS_ALL_CHANNELS(0), GS_ALL_CHANNELS(1)})

/* The value for a channel; x.count is not 0. */
static inline float gs_of_channel(const gs_by_channel *x, int channel) {
    return x->of[x->count > 1 ? channel : 0];
}

bool gs_by_channel_same(const gs_by_channel *, const gs_by_channel *);

/* Does x fit images with this many channels? */
static inline bool gs_by_channel_fits(const gs_by_channel *x, int channels) {
    return x->count <= 1 || x->count == channels;
}

/* "0.5", or "0.49,0.48,0.45": for each value the shortest decimal that reads back as the same float; "nan": not given.
 * Returns `text`, which needs GS_BY_CHANNEL_TEXT bytes. */
enum { GS_BY_CHANNEL_TEXT = 32 * GS_CHANNELS };
const char *gs_by_channel_text(const gs_by_channel *, char *text, size_t size);

/* Parse such a text. False, with *out unchanged, if it is not 1 to GS_CHANNELS finite decimals separated by commas. */
bool gs_by_channel_read(const char *text, gs_by_channel *out);

/* Are all values in low .. high, compared as decimals? */
bool gs_by_channel_within(const gs_by_channel *, double low, double high);
