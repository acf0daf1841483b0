/* Values of options: as numbers, names and text. */
#include "core/decimal.h"
#include "layer/memory/recompute.h"
#include "train/offload/offload.h"
#include "train/options/options.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

double gs_option_number(gs_option_kind kind, const void *value) {
    if (kind == GS_OPTION_INT) return *(const int *)value;
    if (kind == GS_OPTION_COUNT) return (double)*(const uint64_t *)value;
    if (kind == GS_OPTION_BATCH) return (double)*(const size_t *)value;
    if (kind == GS_OPTION_FLOAT) return gs_decimal(*(const float *)value);
    return *(const double *)value;
}

void gs_option_set_number(gs_option_kind kind, void *value, double number) {
    if (kind == GS_OPTION_INT) *(int *)value = (int)number;
    if (kind == GS_OPTION_COUNT) *(uint64_t *)value = (uint64_t)number;
    if (kind == GS_OPTION_BATCH) *(size_t *)value = (size_t)number;
    if (kind == GS_OPTION_FLOAT) *(float *)value = (float)number;
    if (kind == GS_OPTION_DOUBLE) *(double *)value = number;
}

/* ---- names ---- */

#define NAME(name) #name,
#define WORD(name) ", " #name
#define TABLE(name) &gs_##name,

static const gs_optimizer_ops *const optimizers[] = {GS_OPTIMIZERS(TABLE)};

static const gs_option_names names[] = {
    [GS_OPTION_LOSS] = {{"cross_entropy", "squared_error", "regression"}, 2, "cross_entropy, squared_error"},
    [GS_OPTION_LABELS] = {{"fine", "coarse"}, 2, "fine, coarse"},
    [GS_OPTION_NAMES] = {{"own", "torchvision", "huggingface"}, 3, "own, torchvision, huggingface"},
    [GS_OPTION_TOKENS] = {{"chars", "bytes", "bpe", "none"}, 3, "chars, bytes, bpe"},
    [GS_OPTION_WIRE] = {{"f32", "f16", "bf16"}, 3, "f32, f16, bf16"},
    [GS_OPTION_PRODUCTS] = {{"f32", "bf16", "f16"}, 3, "f32, bf16, f16"},
    [GS_OPTION_RULE] = {{"none", "linear", "sqrt"}, 3, "none, linear, sqrt"},
    [GS_OPTION_BIND] = {{"none", "cores"}, 2, "cores, none"},
    [GS_OPTION_KEEP] = {{"last", "best"}, 2, "last, best"},
    /* [2]: without the comma before the first */
    [GS_OPTION_OPTIM] = {{GS_OPTIMIZERS(NAME)},
                         sizeof optimizers / sizeof *optimizers,
                         &GS_OPTIMIZERS(WORD)[2]},
};

const gs_option_names *gs_option_names_of(gs_option_kind kind) {
    return kind >= GS_OPTION_LOSS ? &names[kind] : NULL;
}

static bool is_bool(gs_option_kind kind) {
    return kind == GS_OPTION_BIND || kind == GS_OPTION_KEEP;
}

_Static_assert(sizeof(gs_loss) == sizeof(int) && sizeof(gs_labels) == sizeof(int) &&
                   sizeof(gs_tokens) == sizeof(int) && sizeof(gs_names) == sizeof(int) &&
                   sizeof(gs_wire) == sizeof(int) && sizeof(gs_precision) == sizeof(int) &&
                   sizeof(gs_lr_rule) == sizeof(int),
               "a name's number is stored as an int or as a bool");

void gs_option_set_name(gs_option_kind kind, void *value, int i) {
    if (kind == GS_OPTION_OPTIM)
        *(const gs_optimizer_ops **)value = optimizers[i];
    else if (is_bool(kind))
        *(bool *)value = i != 0;
    else
        memcpy(value, &i, sizeof i);
}

/* NULL: there is none for this value, which a program has set. */
static const char *name_of(gs_option_kind kind, const void *value) {
    int i;
    if (kind == GS_OPTION_OPTIM) return (*(const gs_optimizer_ops *const *)value)->name;
    if (is_bool(kind)) return names[kind].name[*(const bool *)value];
    memcpy(&i, value, sizeof i);
    return i >= 0 && i < (int)(sizeof names->name / sizeof *names->name) ? names[kind].name[i] : NULL;
}

bool gs_option_has_name(gs_option_kind kind, const void *value) {
    if (kind == GS_OPTION_OPTIM)
        return *(const gs_optimizer_ops *const *)value != NULL; /* the caller's, too */
    return name_of(kind, value) != NULL;
}

static const char *name_or_number(gs_option_kind kind, const void *value, char *text, size_t size) {
    const char *name = name_of(kind, value);
    int i;
    if (name) return name;
    memcpy(&i, value, sizeof i);
    snprintf(text, size, "%d", i);
    return text;
}

/* ---- text ---- */

/* The shortest that reads back as x. */
static void print_fraction(double x, char *text, size_t size) {
    snprintf(text, size, "%.15g", x + 0.0); /* -0 is 0 */
    if (strtod(text, NULL) < x || strtod(text, NULL) > x) snprintf(text, size, "%.17g", x);
}

const char *gs_option_text(gs_option_kind kind, const void *value, char *text, size_t size) {
    const gs_shape *shape = value;
    const gs_slow *slow = value;
    const gs_step_range *range = value;
    char ms[32];
    if (kind == GS_OPTION_FLAG) return *(const bool *)value ? "yes" : "no";
    if (kind == GS_OPTION_TEXT) return *(const char *const *)value ? *(const char *const *)value : "";
    if (gs_option_names_of(kind)) return name_or_number(kind, value, text, size);
    switch (kind) {
    case GS_OPTION_INT:
    case GS_OPTION_BATCH:
        snprintf(text, size, "%.0f", gs_option_number(kind, value));
        break;
    case GS_OPTION_COUNT:
        snprintf(text, size, "%" PRIu64, *(const uint64_t *)value);
        break;
    case GS_OPTION_SHAPE:
        snprintf(text, size, "%s", gs_shape_product(*shape).text);
        break;
    case GS_OPTION_CHANNELS:
        return gs_by_channel_text(value, text, size);
    case GS_OPTION_SLOW:
        print_fraction(slow->ms, ms, sizeof ms);
        snprintf(text, size, "%d:%s", slow->ms > 0 ? slow->rank : 0, ms);
        break;
    case GS_OPTION_RANGE:
        snprintf(text, size, "%" PRIu64 "-%" PRIu64, range->first, range->last);
        break;
    case GS_OPTION_NORM:
        return gs_batch_norm_text(value, text, size);
    case GS_OPTION_SCHEDULE:
        return gs_lr_schedule_text(value, text, size);
    case GS_OPTION_EVERY:
        return gs_checkpoint_every_text(value, text, size);
    case GS_OPTION_SEGMENTS:
        return gs_recompute_text(*(const int *)value, text, size);
    case GS_OPTION_AUGMENT:
        return gs_augment_text(value, text, size);
    case GS_OPTION_OFFLOAD:
        return gs_offload_text(*(const unsigned *)value, text, size);
    case GS_OPTION_JITTER:
        return gs_jitter_text(value, text, size);
    case GS_OPTION_LINK:
        return gs_link_text(value, text, size);
    default:
        print_fraction(gs_option_number(kind, value), text, size);
    }
    return text;
}

const char *gs_option_wanted(gs_option_kind kind, double min, double max, char *text, size_t size) {
    const char *whole = kind == GS_OPTION_FLOAT || kind == GS_OPTION_DOUBLE ? "" : "whole ";
    if (kind == GS_OPTION_BATCH) return "a whole number of samples from 1 up, or 'all'";
    if (kind == GS_OPTION_SLOW) return "RANK:MS, such as 1:50; at most 1000000 ms";
    if (kind == GS_OPTION_NORM)
        return "global, local, or ghost:G with a whole number G of samples, such as ghost:16";
    if (kind == GS_OPTION_SCHEDULE)
        return "constant, linear, cosine, or step:EPOCHS@FACTOR, such as step:30,60@0.1; up to 8 epochs that "
               "grow, the factor above 0 and at most 1 (--pipeline-schedule is a pipeline's: gpipe, 1f1b, "
               "eager "
               "or interleaved)";
    if (kind == GS_OPTION_EVERY)
        return "a number of steps from 1 up, such as 100, or a time from 1ms to 1000000s, such as 60s";
    if (kind == GS_OPTION_SEGMENTS)
        return "all, blocks, none, or a whole number of layers from 1 to 1000000, such as 4";
    if (kind == GS_OPTION_AUGMENT)
        return "a list: wanted none, or resized_crop, crop:PIXELS, flip, cutout:PIXELS, or several of "
               "these with commas, each once, such as crop:4,flip";
    if (kind == GS_OPTION_OFFLOAD)
        return "none, or some of optimizer, activations and weights with commas, each once, such as "
               "optimizer,activations";
    if (kind == GS_OPTION_JITTER)
        return "RANK:TIME@SHARE%, such as 3:20ms@5%; up to 8 with commas, each rank once; at most 1000 s";
    if (kind == GS_OPTION_LINK)
        return "LATENCY,BANDWIDTH, such as 50us,125MB/s; 0us to 10s (us, ms, s), 1B/s to 1000GB/s (B/s, "
               "kB/s, MB/s, "
               "GB/s, or kbit/s, Mbit/s, Gbit/s)";
    if (kind == GS_OPTION_RANGE) return "FIRST-LAST, such as 4-7, one step, or none; the first step is 1";
    if (kind == GS_OPTION_CHANNELS)
        snprintf(text, size, "a number from %.12g to %.12g, or up to %d with commas, one for each channel",
                 min, max, GS_CHANNELS);
    else if (isfinite(max) && *whole && max > 1e12)
        snprintf(text, size, "a whole number from %.0f to %.0f", min, max);
    else if (isfinite(max))
        snprintf(text, size, "a %snumber from %.12g to %.12g", whole, min, max);
    else
        snprintf(text, size, "a %snumber, at least %.12g", whole, min);
    return text;
}
