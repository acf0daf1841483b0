#include "persist/folder.h"

#include <cjson/cJSON.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/memory.h"
#include "core/text.h"
#include "core/version.h"
#include "io/file.h"
#include "io/json.h"
#include "persist/state_file.h"

#define PREFIX "step-"
static const char WEIGHTS[] = ".safetensors", MANIFEST[] = ".json";
enum { MANIFEST_MOST = 1 << 20 /* bytes */, DIGITS_MOST = 15, TRIES = 1000 };

bool gs_checkpoint_is_folder(const char *path) {
    struct stat s;
    return stat(path, &s) == 0 && S_ISDIR(s.st_mode);
}

/* ---- names ---- */

/* "DIR/step-000000200.json" */
static gs_status path_of(const char *folder, uint64_t step, const char *ending, char **path) {
    const size_t length = strlen(folder);
    const char *slash = length > 0 && folder[length - 1] == '/' ? "" : "/";
    if (asprintf(path, "%s%s" PREFIX "%09" PRIu64 "%s", folder, slash, step, ending) >= 0) return GS_OK;
    *path = NULL;
    gs_fail(GS_E_MEMORY, "no memory for the path of a checkpoint");
    return GS_E_MEMORY;
}

/* "step-000000200" and this ending -> 200. */
static bool step_of(const char *name, const char *ending, uint64_t *step) {
    char again[64];
    if (strncmp(name, PREFIX, strlen(PREFIX)) != 0) return false;
    const char *digits = name + strlen(PREFIX);
    const size_t count = strspn(digits, "0123456789");
    if (count == 0 || count > DIGITS_MOST || strcmp(digits + count, ending) != 0) return false;
    *step = strtoull(digits, NULL, 10);
    snprintf(again, sizeof again, PREFIX "%09" PRIu64 "%s", *step, ending);
    return strcmp(again, name) == 0;
}

static const char *name_of(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

uint64_t gs_checkpoint_step(const char *file) {
    uint64_t step = 0;
    return step_of(name_of(file), WEIGHTS, &step) ? step : 0;
}

typedef struct steps {
    uint64_t *step; /* ascending */
    size_t count, room;
} steps;

static int ascending(const void *a, const void *b) {
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* The steps of all files with this ending. s->step is to be freed, even after a failure. */
static gs_status list(const char *folder, const char *ending, steps *s) {
    uint64_t step;
    bool memory = true;
    *s = (steps){0};
    DIR *d = opendir(folder);
    if (!d) return gs_fail(GS_E_FILE, "cannot read the folder %s: %s", folder, strerror(errno));
    for (const struct dirent *e = readdir(d); e && memory; e = readdir(d))
        if (step_of(e->d_name, ending, &step) &&
            (memory = gs_grow(&s->step, s->count, &s->room, sizeof *s->step)))
            s->step[s->count++] = step;
    closedir(d);
    if (!memory) return gs_fail(GS_E_MEMORY, "no memory for a list of the checkpoints in %s", folder);
    if (s->count > 0) qsort(s->step, s->count, sizeof *s->step, ascending);
    return GS_OK;
}

/* ---- manifests ---- */

static bool is_digest(const char *text) {
    return text && strlen(text) == 64 && strspn(text, "0123456789abcdef") == 64;
}

static const char *text_of(const cJSON *o, const char *name) {
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, name));
}

/* *o is to be freed. */
static gs_status read_manifest(const char *path, cJSON **o) {
    char *text;
    size_t size;
    const char *end;
    GS_TRY(gs_file_read(path, MANIFEST_MOST, &text, &size));
    *o = gs_json_parse(text, size, &end);
    free(text);
    if (cJSON_IsObject(*o) && is_digest(text_of(*o, "sha256"))) return GS_OK;
    cJSON_Delete(*o);
    *o = NULL;
    return gs_fail(GS_E_FORMAT, "%s is damaged: %s", path,
                   size > 0 ? "it is no JSON object with a 'sha256'" : "it is empty");
}

/* GS_E_FORMAT: the file is not what was written. */
static gs_status check_hash(const char *file, const cJSON *manifest) {
    const char *wanted = text_of(manifest, "sha256");
    const cJSON *size = cJSON_GetObjectItemCaseSensitive(manifest, "bytes");
    char found[65];
    uint64_t bytes;
    GS_TRY(gs_sha256_file(file, found, &bytes));
    if (cJSON_IsNumber(size) && (size->valuedouble < (double)bytes || size->valuedouble > (double)bytes))
        return gs_fail(GS_E_FORMAT, "%s is damaged: it has %" PRIu64 " bytes, and %.0f were written", file,
                       bytes, size->valuedouble);
    if (strcmp(found, wanted) == 0) return GS_OK;
    return gs_fail(GS_E_FORMAT, "%s is damaged: its SHA-256 is %.12s..., and what was written has %.12s...",
                   file, found, wanted);
}

static gs_status check(const char *folder, uint64_t step) {
    char *manifest = NULL, *file = NULL;
    cJSON *o = NULL;
    gs_status status = path_of(folder, step, MANIFEST, &manifest);
    if (status == GS_OK) status = path_of(folder, step, WEIGHTS, &file);
    if (status == GS_OK) status = read_manifest(manifest, &o);
    if (status == GS_OK) status = check_hash(file, o);
    cJSON_Delete(o);
    free(file);
    free(manifest);
    return status;
}

/* The manifest beside it, to be freed; NULL: there is none. */
static char *manifest_of(const char *file) {
    char *path;
    uint64_t step;
    if (!step_of(name_of(file), WEIGHTS, &step) ||
        asprintf(&path, "%.*s%s", (int)(strlen(file) - strlen(WEIGHTS)), file, MANIFEST) < 0)
        return NULL;
    if (access(path, F_OK) == 0) return path;
    free(path);
    return NULL;
}

gs_status gs_checkpoint_check_file(const char *file) {
    char *manifest = manifest_of(file);
    cJSON *o = NULL;
    gs_status status = manifest ? read_manifest(manifest, &o) : GS_OK;
    if (o) status = check_hash(file, o);
    cJSON_Delete(o);
    free(manifest);
    return status;
}

static bool lies_in(const char *file, const char *folder) {
    char *of_file;
    if (asprintf(&of_file, "%.*s.", (int)(name_of(file) - file), file) < 0) return false;
    const bool same = gs_file_is_same(of_file, folder);
    free(of_file);
    return same;
}

gs_status gs_checkpoint_check_save(const char *file, const char *folder) {
    char *target = realpath(file, NULL), *manifest = target ? manifest_of(target) : NULL;
    uint64_t step;
    const bool is_one = manifest, may_be = folder && step_of(name_of(file), WEIGHTS, &step);
    free(target);
    free(manifest);
    if (!is_one && !(may_be && lies_in(file, folder))) return GS_OK;
    return gs_fail(GS_E_USAGE, "--save %s is a checkpoint%s, and would be lost; choose another name", file,
                   is_one ? "" : " by its name, in the folder of --checkpoint");
}

bool gs_checkpoint_is_there(const char *folder, uint64_t step) {
    char *path;
    if (path_of(folder, step, MANIFEST, &path) != GS_OK) return false;
    const bool there = access(path, F_OK) == 0;
    free(path);
    return there;
}

/* ---- the newest that is whole ---- */

bool gs_checkpoint_is_empty(const char *folder) {
    steps s = {0}; /* rank 0 may make the folder just now */
    const bool empty = access(folder, F_OK) != 0 || (list(folder, MANIFEST, &s) == GS_OK && s.count == 0);
    free(s.step);
    return empty;
}

static atomic_int held = -1; /* the file that gs_checkpoint_find has found, with a shared lock */

void gs_checkpoint_let_go(void) {
    const int file = atomic_exchange(&held, -1);
    if (file >= 0) close(file);
}

/* False: it is being removed just now. */
static bool hold(const char *folder, uint64_t step) {
    char *path;
    gs_checkpoint_let_go();
    const int file = path_of(folder, step, WEIGHTS, &path) == GS_OK ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    free(path);
    atomic_store(&held, file);
    return file < 0 || flock(file, LOCK_SH | LOCK_NB) == 0 || errno != EWOULDBLOCK;
}

/* *gone: one that was there has been removed by another run meanwhile, so there may be newer ones. */
static gs_status find(const char *folder, const steps *s, char **file, char note[GS_CHECKPOINT_NOTE],
                      bool *gone) {
    for (size_t i = s->count; i > 0; i--) {
        if ((*gone = !hold(folder, s->step[i - 1]))) return GS_OK;
        if (check(folder, s->step[i - 1]) == GS_OK) {
            if (*note)
                gs_append(note, GS_CHECKPOINT_NOTE, "; the checkpoint of step %" PRIu64 " is taken instead",
                          s->step[i - 1]);
            return path_of(folder, s->step[i - 1], WEIGHTS, file);
        }
        gs_checkpoint_let_go();
        if ((*gone = !gs_checkpoint_is_there(folder, s->step[i - 1]))) return GS_OK;
        gs_append(note, GS_CHECKPOINT_NOTE - 60, "%s%s", *note ? "; " : "", gs_message());
    }
    if (s->count == 0)
        return gs_fail(GS_E_FILE, "there is no checkpoint in %s (" PREFIX "N%s)", folder, MANIFEST);
    return gs_fail(GS_E_FORMAT, "no checkpoint in %s is whole: %s", folder, note);
}

gs_status gs_checkpoint_find(const char *folder, char **file, char note[GS_CHECKPOINT_NOTE]) {
    steps s;
    gs_status status = GS_OK;
    bool gone = true;
    for (int i = 0; i < TRIES && gone; i++) {
        if (i > 0) gs_sleep(0.01);
        *file = NULL;
        *note = '\0';
        gone = false;
        status = list(folder, MANIFEST, &s);
        if (status == GS_OK) status = find(folder, &s, file, note, &gone);
        free(s.step);
    }
    if (!gone) return status;
    return gs_fail(GS_E_FILE, "another run removes the checkpoints in %s while they are read; try again",
                   folder);
}

gs_status gs_checkpoint_find_step(const char *folder, uint64_t step, char **file) {
    for (int i = 0; i < TRIES && !gs_checkpoint_is_there(folder, step); i++) gs_sleep(0.01);
    if (!gs_checkpoint_is_there(folder, step))
        return gs_fail(GS_E_FILE,
                       "rank 0 goes on from the checkpoint of step %" PRIu64
                       " in %s, which is not there on this machine; all ranks must see the same folder",
                       step, folder);
    hold(folder, step); /* rank 0 holds it too */
    GS_TRY(check(folder, step));
    return path_of(folder, step, WEIGHTS, file);
}

/* ---- the old ones ---- */

/* One that another run has just found stays until the next time. */
static void remove_one(const char *folder, uint64_t step) {
    char *manifest = NULL, *path = NULL;
    if (path_of(folder, step, MANIFEST, &manifest) == GS_OK &&
        path_of(folder, step, WEIGHTS, &path) == GS_OK) {
        const int file = open(path, O_RDWR | O_CLOEXEC);
        if (file < 0 || flock(file, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) {
            unlink(manifest);
            unlink(path);
        }
        if (file >= 0) close(file);
    }
    free(manifest);
    free(path);
}

/* Later ones than `step` are damaged: they do not count. */
static void remove_old(const char *folder, uint64_t step, int keep) {
    steps s;
    size_t up_to = 0;
    if (list(folder, MANIFEST, &s) == GS_OK) {
        while (up_to < s.count && s.step[up_to] <= step) up_to++;
        for (size_t i = 0; i + (size_t)keep < up_to; i++) remove_one(folder, s.step[i]);
    }
    free(s.step);
}

/* ---- before a run ---- */

/* Remove what was never finished, or not wholly removed: a file without its manifest, of which a killed run leaves no
 * second one where there is no manifest at all. Then somebody has copied files, or removed the manifests. The file that
 * the run goes on from stays. */
static gs_status clean(const char *folder, const char *resume, char note[GS_CHECKPOINT_NOTE]) {
    steps s;
    char *path;
    gs_file_clean_folder(folder);
    gs_status status = list(folder, WEIGHTS, &s);
    if (status == GS_OK && s.count > 1 && gs_checkpoint_is_empty(folder))
        status =
            gs_fail(GS_E_USAGE,
                    "--checkpoint %s: it has %zu files " PREFIX "N%s without their manifests " PREFIX
                    "N%s, and would lose them; choose another folder, or go on from one with --resume FILE",
                    folder, s.count, WEIGHTS, MANIFEST);
    for (size_t i = 0; i < s.count && status == GS_OK; i++) {
        if (gs_checkpoint_is_there(folder, s.step[i])) continue;
        if (path_of(folder, s.step[i], WEIGHTS, &path) == GS_OK &&
            !(resume && gs_file_is_same(path, resume)) && unlink(path) == 0)
            gs_append(note, GS_CHECKPOINT_NOTE, "%s%s, which has no manifest, was removed", *note ? "; " : "",
                      path);
        free(path);
    }
    free(s.step);
    return status;
}

/* Another run replaces what is damaged only where no state can be read from it any more, and notes it. */
static gs_status check_damaged(const char *folder, uint64_t step, char note[GS_CHECKPOINT_NOTE]) {
    char why[GS_CHECKPOINT_NOTE], *path;
    gs_state *state;
    snprintf(why, sizeof why, "%s", gs_message());
    GS_TRY(path_of(folder, step, WEIGHTS, &path));
    const bool lost = gs_state_read(path, &state) != GS_OK;
    if (!lost)
        gs_fail(GS_E_USAGE,
                "--checkpoint %s: %s; a state can still be read from %s, and a new run would replace it; "
                "choose another folder, or move that file away and go on from it with --resume FILE",
                folder, why, path);
    else
        gs_append(note, GS_CHECKPOINT_NOTE, "%s%s; this run will replace it", *note ? "; " : "", why);
    gs_state_free(state);
    free(path);
    return lost ? GS_OK : GS_E_USAGE;
}

static gs_status check_others(const char *folder, const char *resume, uint64_t step,
                              char note[GS_CHECKPOINT_NOTE]) {
    const bool ours = resume && lies_in(resume, folder);
    steps s;
    gs_status status = list(folder, MANIFEST, &s);
    for (size_t i = s.count; i > 0 && status == GS_OK; i--) {
        const uint64_t found = s.step[i - 1];
        if (ours && found <= step) break;
        if (check(folder, found) != GS_OK)
            status = ours ? GS_OK : check_damaged(folder, found, note); /* ours will be written again */
        else
            status = gs_fail(GS_E_USAGE,
                             "--checkpoint %s: it has a %s%s, after step %" PRIu64
                             "; go on from there with --resume %s, or choose another folder",
                             folder, ours ? "later checkpoint than " : "checkpoint of another run",
                             ours ? resume : "", found, folder);
    }
    free(s.step);
    return status;
}

gs_status gs_checkpoint_check_new(const char *folder) {
    char note[GS_CHECKPOINT_NOTE] = ""; /* the run says it */
    return check_others(folder, NULL, 0, note);
}

static char *lock_of(const char *folder) {
    char *path;
    return asprintf(&path, "%s/.lock", folder) < 0 ? NULL : path;
}

/* A run that ends removes the file: then what was opened here before is no lock any more. Where the file system knows
 * no locks, nobody has one. */
static gs_status lock_folder(const char *folder, FILE **lock) {
    char who[300] = "", host[64] = "?", *path = lock_of(folder);
    struct stat s;
    *lock = NULL;
    do {
        if (*lock) fclose(*lock);
        if (!path || !(*lock = fopen(path, "a+e"))) break;
        if (flock(fileno(*lock), LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) continue;
        if (!fgets(who, sizeof who, *lock)) strcpy(who, "another process");
        free(path);
        fclose(*lock);
        *lock = NULL;
        return gs_fail(
            GS_E_USAGE,
            "--checkpoint %s: %s writes its checkpoints there; choose another folder, or wait until "
            "it has ended",
            folder, who);
    } while (fstat(fileno(*lock), &s) != 0 || s.st_nlink == 0);
    free(path);
    if (!*lock) return gs_fail(GS_E_FILE, "--checkpoint %s: cannot write there: %s", folder, strerror(errno));
    gethostname(host, sizeof host - 1);
    if (ftruncate(fileno(*lock), 0) == 0) fprintf(*lock, "process %ld on host %s", (long)getpid(), host);
    fflush(*lock);
    return GS_OK;
}

void gs_checkpoint_unlock(const char *folder, FILE *lock) {
    char who[300], mine[32], *path = lock ? lock_of(folder) : NULL;
    if (!lock) return;
    snprintf(mine, sizeof mine, "process %ld on", (long)getpid());
    rewind(lock);
    if (path && fgets(who, sizeof who, lock) && strncmp(who, mine, strlen(mine)) == 0) unlink(path);
    free(path);
    fclose(lock);
}

gs_status gs_checkpoint_prepare(const char *folder, const char *resume, uint64_t step, int keep,
                                char note[GS_CHECKPOINT_NOTE], FILE **lock) {
    *note = '\0';
    *lock = NULL;
    char *path;
    if (!gs_file_make_folders(folder) || !gs_checkpoint_is_folder(folder))
        return gs_fail(GS_E_FILE, "--checkpoint %s: cannot make this folder: %s", folder,
                       errno == EEXIST ? "there is a file of that name" : strerror(errno));
    GS_TRY(lock_folder(folder, lock));
    GS_TRY(clean(folder, resume, note));
    GS_TRY(check_others(folder, resume, step, note));
    GS_TRY(path_of(folder, step, MANIFEST, &path));
    const gs_status status = gs_file_check_target(path, GS_FILE_ANY);
    free(path);
    /* A run that was killed before it could do so, perhaps at its end. */
    if (status == GS_OK && resume && lies_in(resume, folder)) remove_old(folder, step, keep);
    return status;
}

/* ---- written ---- */

static gs_status write_manifest(const char *folder, const gs_state *s, const char *model, uint64_t per_epoch,
                                const gs_written *written) {
    char *path, name[64];
    gs_file_writer w;
    const uint64_t epoch = 1 + s->step / per_epoch;
    snprintf(name, sizeof name, PREFIX "%09" PRIu64 "%s", s->step, WEIGHTS);
    cJSON *o =
        GS_JSON_OBJECT(GS_FIELD("gradsum", GRADSUM_VERSION), GS_FIELD("step", s->step),
                       GS_FIELD("epoch", epoch), GS_FIELD("steps_done_in_epoch", s->step % per_epoch),
                       GS_FIELD("steps_in_epoch", per_epoch), GS_FIELD("file", (const char *)name),
                       GS_FIELD("bytes", written->bytes), GS_FIELD("sha256", (const char *)written->sha256),
                       GS_FIELD("model", model), GS_FIELD("state", gs_state_json(s)));
    char *text = gs_json_to_text(o, true);
    cJSON_Delete(o);
    if (!text) return gs_fail(GS_E_MEMORY, "no memory for the manifest of a checkpoint");
    gs_status status = path_of(folder, s->step, MANIFEST, &path);
    if (status == GS_OK) status = gs_file_writer_open(path, &w);
    if (status == GS_OK) {
        fprintf(w.file, "%s\n", text); /* what cannot be written, commit sees */
        status = gs_file_writer_commit(&w);
    }
    free(path);
    cJSON_free(text);
    return status;
}

gs_status gs_checkpoint_write(const char *folder, const gs_model *model, const gs_optimizer_ops *ops,
                              const float *weights, const gs_state *state, uint64_t per_epoch, int keep,
                              uint64_t *bytes) {
    char *path;
    gs_written written;
    GS_TRY(path_of(folder, state->step, WEIGHTS, &path));
    gs_status status = gs_state_save(path, model, ops, weights, state, &written);
    free(path);
    GS_TRY(status);
    GS_TRY(write_manifest(folder, state, model->text, per_epoch, &written));
    *bytes = written.bytes;
    remove_old(folder, state->step, keep);
    return GS_OK;
}
