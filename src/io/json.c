#include "io/json.h"

#include <math.h>
#include <pthread.h>
#include <string.h>
#include "core/text.h"

cJSON *gs_json_parse(const char *text, size_t length, const char **end) {
    static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&one_at_a_time);
    const locale_t own = gs_c_locale();
    cJSON *parsed = cJSON_ParseWithLengthOpts(text, length, end, false);
    uselocale(own);
    pthread_mutex_unlock(&one_at_a_time);
    return parsed;
}

gs_status gs_json_object(const char *where, const char *text, size_t length, cJSON **json) {
    const char *end = text;
    *json = gs_json_parse(text, length, &end);
    if (*json) end += strspn(end, " \t\r\n");
    if (!*json || end < text + length)
        return gs_fail(GS_E_FORMAT, "%s is not valid JSON: wrong at byte %td of %zu", where, end - text,
                       length);
    if (cJSON_IsObject(*json)) return GS_OK;
    return gs_fail(GS_E_FORMAT, "%s is not a JSON object, such as {\"a\": 0}", where);
}

/* Escape each byte that is not part of valid UTF-8; such bytes occur only in strings. */
static char *escaped(char *text) {
    enum { LONGEST = 5 };
    char *out = malloc(LONGEST * strlen(text) + 1), *to = out;
    uint32_t code;
    for (const char *at = text; out && *at;) {
        const int length = gs_utf8_read(at, &code);
        to += length ? snprintf(to, LONGEST + 1, "%.*s", length, at)
                     : snprintf(to, LONGEST + 1, "\\\\x%02x", (unsigned char)*at);
        at += length ? length : 1;
    }
    free(text);
    return out;
}

char *gs_json_to_text(const cJSON *json, bool indented) {
    const locale_t own = gs_c_locale();
    char *text = indented ? cJSON_Print(json) : cJSON_PrintUnformatted(json);
    uselocale(own);
    uint32_t code;
    const char *at = text;
    for (int length = 1; at && *at && length > 0; at += length) length = gs_utf8_read(at, &code);
    return at && *at ? escaped(text) : text;
}

cJSON *gs_json_number(double x) {
    return isfinite(x) ? cJSON_CreateNumber(x) : cJSON_CreateNull();
}

cJSON *gs_json_text(const char *x) {
    return x ? cJSON_CreateString(x) : cJSON_CreateNull();
}

cJSON *gs_json_same(cJSON *x) {
    return x;
}

cJSON *gs_json_rounded(double x, int digits) {
    char text[32];
    snprintf(text, sizeof text, "%.*g", digits, x);
    return gs_json_number(strtod(text, NULL));
}

cJSON *gs_json_add(cJSON *object, const gs_json_field *fields) {
    for (; fields->name; fields++) cJSON_AddItemToObject(object, fields->name, fields->value);
    return object;
}

cJSON *gs_json_array(size_t count, cJSON *const *items) {
    cJSON *array = cJSON_CreateArray();
    for (size_t i = 0; i < count; i++) cJSON_AddItemToArray(array, items[i]);
    return array;
}
