/* Values of options: as numbers, names and text, and read from what was typed. */
#include "core/decimal.h"
#include "core/nearest.h"
#include "core/units.h"
#include "layer/memory/recompute.h"
#include "train/offload/offload.h"
#include "train/options/options.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
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
#define TABLE(name) &gs_##name,

static const gs_optimizer_ops *const optimizers[] = {GS_OPTIMIZERS(TABLE)};

static const gs_option_names names[] = {
    [GS_OPTION_LOSS] = {{"cross_entropy", "squared_error", "regression"}, 2},
    [GS_OPTION_LABELS] = {{"fine", "coarse"}, 2},
    [GS_OPTION_NAMES] = {{"own", "torchvision", "huggingface"}, 3},
    [GS_OPTION_TOKENS] = {{"chars", "bytes", "bpe", "none"}, 3},
    [GS_OPTION_WIRE] = {{"f32", "f16", "bf16"}, 3},
    [GS_OPTION_PRODUCTS] = {{"f32", "bf16", "f16"}, 3},
    [GS_OPTION_RULE] = {{"none", "linear", "sqrt"}, 3},
    [GS_OPTION_BIND] = {{"none", "cores"}, 2},
    [GS_OPTION_KEEP] = {{"last", "best"}, 2},
    [GS_OPTION_OPTIM] = {{GS_OPTIMIZERS(NAME)}, sizeof optimizers / sizeof *optimizers},
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

/* All who are not slow are one text. */
static const char *slow_text(const gs_slow *slow, char *text, size_t size) {
    const bool nobody = slow->rank >= 0 && slow->ms >= 0 && !(slow->ms > 0);
    char ms[40];
    gs_unit_print(slow->ms, gs_units_none, ms, sizeof ms);
    snprintf(text, size, "%d:%s", nobody ? 0 : slow->rank, ms);
    return text;
}

const char *gs_option_text(gs_option_kind kind, const void *value, char *text, size_t size) {
    const gs_shape *shape = value;
    const gs_step_range *range = value;
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
        return slow_text(value, text, size);
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
        gs_decimal_print(gs_option_number(kind, value), text, size);
    }
    return text;
}

/* ---- reading ---- */

enum { SHOWN = 200 };

/* Of a text of any length, so that what was wanted has room behind it. */
static const char *shown(const char *text, char room[SHOWN]) {
    if (strlen(text) < SHOWN) return text;
    snprintf(room, SHOWN, "%.*s...", SHOWN - 4, text);
    return room;
}

static gs_status is_not(const gs_option *o, const char *text, const char *wanted) {
    char room[SHOWN];
    return gs_fail(GS_E_USAGE, "%s%s: '%s' is not %s", gs_option_dashes(o), o->name, shown(text, room),
                   wanted);
}

static gs_status is_no_number(const gs_option *o, const char *text) {
    const char *whole = o->kind == GS_OPTION_FLOAT || o->kind == GS_OPTION_DOUBLE ? "" : "whole ";
    char wanted[96];
    if (isfinite(o->max) && *whole && o->max > 1e12)
        snprintf(wanted, sizeof wanted, "a whole number from %.0f to %.0f", o->min, o->max);
    else if (isfinite(o->max))
        snprintf(wanted, sizeof wanted, "a %snumber from %.12g to %.12g", whole, o->min, o->max);
    else
        snprintf(wanted, sizeof wanted, "a %snumber, at least %.12g", whole, o->min);
    return is_not(o, text, wanted);
}

static gs_status parse_number(const gs_option *o, const char *text, double *out) {
    char *end;
    bool whole = o->kind != GS_OPTION_FLOAT && o->kind != GS_OPTION_DOUBLE;
    errno = 0;
    double value = strtod(text, &end);
    bool digits_only = strspn(text, whole ? "0123456789" : "0123456789.eE+-") == strlen(text);
    if (end == text || *end || !digits_only || value < o->min || value > o->max || !isfinite(value))
        return o->kind == GS_OPTION_BATCH ? is_not(o, text, "a whole number of samples from 1 up, or 'all'")
                                          : is_no_number(o, text);
    *out = value;
    return GS_OK;
}

static gs_status parse_by_channel(const gs_option *o, const char *text) {
    gs_by_channel x;
    char wanted[96];
    if (gs_by_channel_read(text, &x) && gs_by_channel_within(&x, o->min, o->max)) {
        *(gs_by_channel *)o->value = x;
        return GS_OK;
    }
    snprintf(wanted, sizeof wanted,
             "a number from %.12g to %.12g, or up to %d with commas, one for each channel", o->min, o->max,
             GS_CHANNELS);
    return is_not(o, text, wanted);
}

static gs_status parse_slow(const gs_option *o, const char *text) {
    char *colon, *end;
    unsigned long rank = strtoul(text, &colon, 10);
    double ms = *colon == ':' ? strtod(colon + 1, &end) : -1;
    bool plain = strspn(text, "0123456789:.") == strlen(text) && *text != ':';
    if (!plain || !(ms >= 0 && ms <= 1e6) || end == colon + 1 || *end || rank > INT_MAX)
        return is_not(o, text, "RANK:MS, such as 1:50; at most 1000000 ms");
    *(gs_slow *)o->value = (gs_slow){(int)rank, ms};
    return GS_OK;
}

static gs_status parse_range(const gs_option *o, const char *text) {
    gs_step_range r = {0, 0};
    char *end = NULL;
    bool digits = *text >= '0' && *text <= '9';
    if (strcmp(text, "none") == 0) {
        *(gs_step_range *)o->value = r;
        return GS_OK;
    }
    errno = 0;
    if (digits) r.first = r.last = strtoull(text, &end, 10);
    if (digits && *end == '-' && isdigit((unsigned char)end[1])) r.last = strtoull(end + 1, &end, 10);
    if (!digits || *end || errno || r.first < 1 || r.last < r.first)
        return is_not(o, text, "FIRST-LAST, such as 4-7, one step, or none; the first step is 1");
    *(gs_step_range *)o->value = r;
    return GS_OK;
}

/* One of a few names. */
static gs_status parse_name(const gs_option *o, const char *text) {
    const gs_option_names *names = gs_option_names_of(o->kind);
    const char *typed[sizeof names->name / sizeof *names->name + 1] = {NULL};
    char what[48], room[SHOWN];
    for (int i = 0; i < names->typed; i++) {
        typed[i] = names->name[i];
        if (strcmp(text, typed[i]) == 0) return gs_option_set_name(o->kind, o->value, i), GS_OK;
    }
    snprintf(what, sizeof what, "%s%s", gs_option_dashes(o), o->name);
    return gs_no_such(what, shown(text, room), typed);
}

/* "best", "3", or both with a comma: the number is of checkpoints. */
static gs_status parse_keep(const gs_option *o, const char *text) {
    char term[32];
    gs_keep *keep = o->value;
    for (const char *at = text;; at++) {
        const size_t length = strcspn(at, ",");
        double number = 0;
        snprintf(term, sizeof term, "%.*s", (int)(length < 31 ? length : 31), at);
        if (isdigit((unsigned char)*term)) {
            const gs_option of_number = {o->name, GS_OPTION_INT, NULL, o->min, o->max, NULL, NULL};
            GS_TRY(parse_number(&of_number, term, &number));
            keep->checkpoints = (int)number;
        } else {
            GS_TRY(parse_name(o, term));
        }
        at += length;
        if (!*at) return GS_OK;
    }
}

/* Of kinds that are read in a file of their own: is `text` one, and what one is. */
static bool read_own(const gs_option *o, const char *text, const char **wanted) {
    switch (o->kind) {
    case GS_OPTION_SHAPE:
        *wanted = "CHANNELSxHEIGHTxWIDTH, such as 1x28x28, or with xTOKENS after it";
        return gs_shape_parse(text, o->value);
    case GS_OPTION_AUGMENT:
        *wanted = "a list: wanted none, or resized_crop, crop:PIXELS, flip, cutout:PIXELS, or several of "
                  "these with commas, each once, such as crop:4,flip";
        return gs_augment_read(text, o->value);
    case GS_OPTION_OFFLOAD:
        *wanted = "none, or some of optimizer, activations and weights with commas, each once, such as "
                  "optimizer,activations";
        return gs_offload_read(text, o->value);
    case GS_OPTION_JITTER:
        *wanted = "RANK:TIME@SHARE%, such as 3:20ms@5%; up to 8 with commas, each rank once; at most 1000 s";
        return gs_jitter_read(text, o->value);
    case GS_OPTION_LINK:
        *wanted = "LATENCY,BANDWIDTH, such as 50us,125MB/s; 0us to 10s (us, ms, s), 1B/s to 1000GB/s (B/s, "
                  "kB/s, MB/s, GB/s, or kbit/s, Mbit/s, Gbit/s)";
        return gs_link_read(text, o->value);
    case GS_OPTION_NORM:
        *wanted = "global, local, or ghost:G with a whole number G of samples, such as ghost:16";
        return gs_batch_norm_read(text, o->value);
    case GS_OPTION_SCHEDULE:
        *wanted =
            "constant, linear, cosine, or step:EPOCHS@FACTOR, such as step:30,60@0.1; up to 8 epochs that "
            "grow, the factor above 0 and at most 1 (--pipeline-schedule is a pipeline's: gpipe, 1f1b, eager "
            "or interleaved)";
        return gs_lr_schedule_read(text, o->value);
    case GS_OPTION_SEGMENTS:
        *wanted = "all, blocks, none, or a whole number of layers from 1 to 1000000, such as 4";
        return gs_recompute_read(text, o->value);
    default: /* GS_OPTION_EVERY */
        *wanted = "a number of steps from 1 up, such as 100, or a time from 1ms to 1000000s, such as 60s";
        return gs_checkpoint_every_read(text, o->value);
    }
}

gs_status gs_option_read(const gs_option *o, const char *text) {
    double number;
    const char *wanted;
    if (o->kind == GS_OPTION_TEXT && !*text)
        return gs_fail(GS_E_USAGE, "%s%s is empty; wanted %s", gs_option_dashes(o), o->name, o->argument);
    if (o->kind == GS_OPTION_TEXT) *(const char **)o->value = text;
    if (o->kind == GS_OPTION_TEXT) return GS_OK;
    if (o->kind == GS_OPTION_CHANNELS) return parse_by_channel(o, text);
    if (o->kind == GS_OPTION_SLOW) return parse_slow(o, text);
    if (o->kind == GS_OPTION_RANGE) return parse_range(o, text);
    if (o->kind == GS_OPTION_KEEP) return parse_keep(o, text);
    if (gs_option_names_of(o->kind)) return parse_name(o, text);
    if (!gs_option_is_number(o->kind)) return read_own(o, text, &wanted) ? GS_OK : is_not(o, text, wanted);
    number = 0; /* of a batch: all */
    if (o->kind != GS_OPTION_BATCH || strcmp(text, "all") != 0) GS_TRY(parse_number(o, text, &number));
    gs_option_set_number(o->kind, o->value, number);
    if (o->kind == GS_OPTION_COUNT) *(uint64_t *)o->value = strtoull(text, NULL, 10); /* beyond 2^53 too */
    return GS_OK;
}
