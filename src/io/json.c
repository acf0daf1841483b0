#include "io/json.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

cJSON *gs_json_parse(const char *text, size_t length, const char **end) {
    static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&one_at_a_time);
    cJSON *parsed = cJSON_ParseWithLengthOpts(text, length, end, false);
    pthread_mutex_unlock(&one_at_a_time);
    return parsed;
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
