/* The options of a run as fields of JSON objects. */
#include "core/decimal.h"
#include "train/options/options.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static void add_slow(cJSON *o, const char *key, const gs_slow *slow) {
    char name[64];
    snprintf(name, sizeof name, "%s_rank", key);
    cJSON_AddNumberToObject(o, name, slow->rank);
    snprintf(name, sizeof name, "%s_ms", key);
    cJSON_AddNumberToObject(o, name, slow->ms);
}

/* A number, or an array of one for each channel; nothing where none is given. */
static void add_by_channel(cJSON *o, const char *key, const gs_by_channel *x) {
    cJSON *all = x->count > 1 ? cJSON_AddArrayToObject(o, key) : NULL;
    if (x->count == 1) cJSON_AddNumberToObject(o, key, gs_decimal(x->of[0]));
    for (int c = 0; all && c < x->count; c++)
        cJSON_AddItemToArray(all, cJSON_CreateNumber(gs_decimal(x->of[c])));
}

/* Nothing for a number or a range that there is not. */
static void add(cJSON *o, const char *key, gs_option_kind kind, const void *value) {
    const double number = gs_option_is_number(kind) ? gs_option_number(kind, value) : (double)NAN;
    const gs_step_range *r = value;
    char room[GS_OPTION_TEXT_MOST];
    if (kind == GS_OPTION_SLOW)
        add_slow(o, key, value);
    else if (kind == GS_OPTION_RANGE && r->first)
        cJSON_AddItemToObject(o, key,
                              cJSON_CreateDoubleArray((double[]){(double)r->first, (double)r->last}, 2));
    else if (kind == GS_OPTION_CHANNELS)
        add_by_channel(o, key, value);
    else if (kind == GS_OPTION_FLAG)
        cJSON_AddBoolToObject(o, key, *(const bool *)value);
    else if (!isnan(number))
        cJSON_AddNumberToObject(o, key, number);
    else if (!gs_option_is_number(kind) && kind != GS_OPTION_RANGE)
        cJSON_AddStringToObject(o, key, gs_option_text(kind, value, room, sizeof room));
}

/* "optimizer.lr": the object "optimizer" in o, and *key becomes "lr". A key without a dot: o. */
static cJSON *object_of(cJSON *o, const char **key) {
    char name[32];
    const char *dot = strchr(*key, '.');
    if (!dot) return o;
    snprintf(name, sizeof name, "%.*s", (int)(dot - *key), *key);
    *key = dot + 1;
    cJSON *part = cJSON_GetObjectItem(o, name);
    return part ? part : cJSON_AddObjectToObject(o, name);
}

static bool is_told(const gs_run_option *option, gs_json_place place, const gs_settings *s) {
    if (!option->json[place]) return false;
    if (place != GS_JSON_LOG || !option->log_with) return true;
    return !gs_run_option_is_default(gs_run_option_named(option->log_with), s);
}

void gs_run_options_json(const gs_settings *s, gs_json_place place, cJSON *o) {
    for (const gs_run_option *option = gs_run_table; option->name; option++) {
        const char *key = option->json[place];
        if (!is_told(option, place, s)) continue;
        cJSON *part = object_of(o, &key);
        if (option->null && gs_run_option_is_default(option, s))
            cJSON_AddNullToObject(part, key);
        else
            add(part, key, option->kind, (const char *)s + option->at);
    }
}
