/* Short notation for JSON over cJSON: an object is a list of fields.
 *
 *     cJSON *o = GS_JSON_OBJECT(GS_FIELD("event", "run"), GS_FIELD("batch", r->batch));
 *     GS_JSON_ADD(o, GS_FIELD("reached", r->reached), GS_FIELD("loss", r->loss));
 *
 *     {"event": "run", "batch": 64, "reached": true, "loss": null}
 *
 * JSON has no infinity and no NaN: such numbers become null, as does a NULL text. A comparison in C is an int, so it
 * becomes a number; cast it to bool to get true or false. If memory runs out, fields are missing. */
#pragma once

#include <cjson/cJSON.h>
#include "core/error.h"

typedef struct gs_json_field {
    const char *name;
    cJSON *value;
} gs_json_field;

cJSON *gs_json_number(double);
cJSON *gs_json_text(const char *);
cJSON *gs_json_same(cJSON *);

/* Converts a C value to JSON according to its type: a number, true or false, a text, or JSON itself. */
#define GS_JSON(value)                                                                                       \
    _Generic((value),                                                                                        \
        bool: cJSON_CreateBool,                                                                              \
        char *: gs_json_text,                                                                                \
        const char *: gs_json_text,                                                                          \
        cJSON *: gs_json_same,                                                                               \
        default: gs_json_number)(value)

#define GS_FIELD(name, value) ((gs_json_field){name, GS_JSON(value)})

/* Both return the object. */
#define GS_JSON_ADD(object, ...) gs_json_add(object, (const gs_json_field[]){__VA_ARGS__, {NULL, NULL}})
#define GS_JSON_OBJECT(...) GS_JSON_ADD(cJSON_CreateObject(), __VA_ARGS__)

/* GS_JSON_ARRAY(GS_JSON(1), GS_JSON("two")) */
#define GS_JSON_ARRAY(...)                                                                                   \
    gs_json_array(sizeof((cJSON *[]){__VA_ARGS__}) / sizeof(cJSON *), (cJSON *const[]){__VA_ARGS__})

cJSON *gs_json_add(cJSON *object, const gs_json_field *fields); /* the last has a NULL name */
cJSON *gs_json_array(size_t count, cJSON *const *items);

/* Like cJSON_ParseWithLengthOpts, but for any locale and for several threads (cJSON stores the position of its last
 * error in a global variable). `end` may be NULL. */
cJSON *gs_json_parse(const char *text, size_t length, const char **end);

/* Parse a whole text, followed by a 0, as one object; `where` is for messages. Free *json even after a failure.
 * GS_E_FORMAT. */
gs_status gs_json_object(const char *where, const char *text, size_t length, cJSON **json);

/* The JSON value as text, to be freed; NULL: out of memory. It is the same in any locale, and always UTF-8: other bytes
 * in a string, such as a path, become \xNN as in messages. */
char *gs_json_to_text(const cJSON *, bool indented);

/* A number rounded to `digits` digits: 0.01235 instead of 0.0123456001281738. */
cJSON *gs_json_rounded(double, int digits);
