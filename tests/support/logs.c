#include "tests/support/logs.h"

#include <unistd.h>

cJSON *gs_test_json(const char *folder, const char *name) {
    return gs_test_parse(gs_test_text(in_folder(folder, name), NULL));
}

cJSON *gs_test_metrics(const char *folder) {
    char *text = gs_test_text(in_folder(folder, "metrics.jsonl"), NULL);
    cJSON *all = cJSON_CreateArray();
    for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
        *end = 0;
        cJSON *o = cJSON_Parse(line);
        if (!o) fail_msg("metrics.jsonl: not JSON: %s", line);
        cJSON_AddItemToArray(all, o);
    }
    return gs_test_keep(all);
}

double gs_test_number(const cJSON *o, const char *name) {
    return gs_test_field(o, name)->valuedouble;
}

const char *gs_test_text_of(const cJSON *o, const char *name) {
    return gs_test_field(o, name)->valuestring;
}

bool gs_test_is_kind(const cJSON *line, const char *kind) {
    return strcmp(gs_test_text_of(line, "kind"), kind) == 0;
}

int gs_test_count_kind(const cJSON *lines, const char *kind) {
    int n = 0;
    const cJSON *line;
    cJSON_ArrayForEach(line, lines) n += gs_test_is_kind(line, kind);
    return n;
}

const char *gs_test_new_log(void) {
    return in_folder(gs_test_folder(), "log");
}

bool gs_test_is_there(const char *folder, const char *name) {
    return access(in_folder(folder, name), F_OK) == 0;
}
