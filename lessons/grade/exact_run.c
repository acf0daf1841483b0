#include "lessons/grade/exact_run.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/text.h"
#include "io/file.h"
#include "io/json.h"
#include "lessons/grade/hand_ins.h"
#include "lessons/grade/mark.h"

static void compare(const cJSON *run, const char *hash, const char *options, const char *name, char *text,
                    size_t size) {
    const char *found = gs_mark_text(cJSON_GetObjectItemCaseSensitive(run, "ended"), "weights_sha256");
    if (!*found)
        gs_append(text, size, "%s is not the run.json of a run that ended (gradsum train --log DIR)", name);
    else if (!cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(run, "exact")))
        gs_append(text, size, "%s: the run was without --exact", name);
    else if (strcmp(found, hash) != 0)
        gs_append(text, size,
                  "%s: the run ended with the weights %.8s; train --exact %s ends with %.8s on every machine",
                  name, found, options, hash);
}

void gs_exact_run_check(const char *wanted, const char *lab, char *text, size_t size) {
    char path[PATH_MAX + 8], hash[65], options[400] = "", *record = NULL;
    const char *dot = strrchr(lab, '.');
    size_t bytes;
    cJSON *run = NULL;
    FILE *f = fopen(wanted, "r");
    *text = '\0';
    const int read = f ? fscanf(f, "%64s %399[^\n]", hash, options) : 0;
    if (f) fclose(f);
    snprintf(path, sizeof path, "%.*s.json", dot ? (int)(dot - lab) : 0, lab);
    if (read < 1 || access(path, F_OK) != 0) return;
    const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    gs_status status = gs_file_read(path, GS_HAND_IN_MOST, &record, &bytes);
    if (status == GS_OK) status = gs_json_object(name, record, bytes, &run);
    if (status == GS_OK)
        compare(run, hash, options, name, text, size);
    else
        gs_append(text, size, "%s", gs_message());
    cJSON_Delete(run);
    free(record);
}
