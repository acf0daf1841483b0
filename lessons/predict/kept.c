#include "lessons/predict/kept.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "io/file.h"
#include "io/json.h"

enum { MOST = 1 << 18 };

gs_status gs_kept_path(const char *lesson, char *path, size_t size) {
    const char *data = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
    if (data && *data == '/') /* a relative one is to be ignored */
        snprintf(path, size, "%s/gradsum/lesson-%s.json", data, lesson);
    else if (home && *home)
        snprintf(path, size, "%s/.local/share/gradsum/lesson-%s.json", home, lesson);
    else
        return gs_fail(GS_E_FILE, "predictions have no place: neither XDG_DATA_HOME nor HOME is set");
    return GS_OK;
}

/* The whole file, as an object; an empty one where there is none. */
static gs_status read_file(const char *lesson, char path[PATH_MAX], cJSON **all) {
    char *text;
    size_t bytes;
    GS_TRY(gs_kept_path(lesson, path, PATH_MAX));
    *all = NULL;
    if (access(path, F_OK) != 0 && errno == ENOENT) {
        *all = cJSON_CreateObject();
        return *all ? GS_OK : gs_fail(GS_E_MEMORY, "no memory for the predictions");
    }
    GS_TRY(gs_file_read(path, MOST, &text, &bytes));
    *all = cJSON_Parse(text);
    free(text);
    if (cJSON_IsObject(*all)) return GS_OK;
    cJSON_Delete(*all);
    *all = NULL;
    return gs_fail(GS_E_FORMAT,
                   "%s is damaged: it is not a JSON object; gradsum lesson %d --forget removes it", path,
                   atoi(lesson));
}

static void take(const cJSON *o, const char *name, char *text, size_t size) {
    const cJSON *t = cJSON_GetObjectItemCaseSensitive(o, name);
    if (cJSON_IsString(t) && strlen(t->valuestring) < size) snprintf(text, size, "%s", t->valuestring);
}

gs_status gs_kept_get(const char *lesson, const char *id, gs_kept *k) {
    char path[PATH_MAX];
    cJSON *all;
    *k = (gs_kept){.prediction = ""};
    GS_TRY(read_file(lesson, path, &all));
    const cJSON *o = cJSON_GetObjectItemCaseSensitive(all, id);
    take(o, "prediction", k->prediction, sizeof k->prediction);
    take(o, "outcome", k->outcome, sizeof k->outcome);
    take(o, "when", k->when, sizeof k->when);
    cJSON_Delete(all);
    return GS_OK;
}

static gs_status write_file(const char *path, const cJSON *all) {
    gs_file_writer w = {0};
    char folder[PATH_MAX], *text = gs_json_to_text(all, true);
    if (!text) return gs_fail(GS_E_MEMORY, "no memory for the predictions");
    snprintf(folder, sizeof folder, "%s", path);
    *strrchr(folder, '/') = '\0';
    gs_status status = gs_file_make_folders(folder)
                           ? gs_file_writer_open(path, &w)
                           : gs_fail(GS_E_FILE, "cannot make the folder %s: %s", folder, strerror(errno));
    if (status == GS_OK) {
        fprintf(w.file, "%s\n", text); /* commit sees a failure */
        status = gs_file_writer_commit(&w);
    }
    cJSON_free(text);
    return status;
}

gs_status gs_kept_put(const char *lesson, const char *id, gs_kept *k) {
    char path[PATH_MAX];
    cJSON *all;
    GS_TRY(read_file(lesson, path, &all));
    if (!*k->when) {
        time_t now = time(NULL);
        struct tm utc;
        strftime(k->when, sizeof k->when, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
    }
    cJSON *o = GS_JSON_OBJECT(GS_FIELD("prediction", k->prediction), GS_FIELD("when", k->when));
    if (*k->outcome) GS_JSON_ADD(o, GS_FIELD("outcome", k->outcome));
    cJSON_DeleteItemFromObjectCaseSensitive(all, id);
    cJSON_AddItemToObject(all, id, o);
    gs_status status = write_file(path, all);
    cJSON_Delete(all);
    return status;
}

gs_status gs_kept_forget(const char *lesson) {
    char path[PATH_MAX];
    GS_TRY(gs_kept_path(lesson, path, sizeof path));
    if (unlink(path) == 0 || errno == ENOENT) return GS_OK;
    return gs_fail(GS_E_FILE, "cannot remove %s: %s", path, strerror(errno));
}
