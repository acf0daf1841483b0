#include "persist/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/text.h"
#include "io/file.h"
#include "io/json.h"
#include "persist/state_file.h"

#define PREFIX "step-"
static const char WEIGHTS[] = ".safetensors", MANIFEST[] = ".json";
enum { MANIFEST_MOST = 1 << 20 /* bytes */, TRIES = 1000 };

bool gs_checkpoint_is_folder(const char *path) {
    struct stat s;
    return stat(path, &s) == 0 && S_ISDIR(s.st_mode);
}

/* ---- names ---- */

/* The path of a file. If a path does not fit, it is too long to exist. */
typedef struct path {
    char text[PATH_MAX + 64];
} path;

/* "DIR/step-000000200.json" */
static path path_of(const char *folder, uint64_t step, const char *ending) {
    const size_t length = strlen(folder);
    const char *slash = length > 0 && folder[length - 1] == '/' ? "" : "/";
    path p;
    snprintf(p.text, sizeof p.text, "%s%s" PREFIX "%09" PRIu64 "%s", folder, slash, step, ending);
    return p;
}

static path lock_of(const char *folder) {
    path p;
    snprintf(p.text, sizeof p.text, "%s/.lock", folder);
    return p;
}

/* Read the step from a name: "step-000000200" plus `ending` -> 200. False if the name has another form. */
static bool step_of(const char *name, const char *ending, uint64_t *step) {
    char again[64];
    if (sscanf(name, PREFIX "%15" SCNu64, step) != 1) return false;
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

static const uint64_t NONE = UINT64_MAX; /* no step; greater than any step */

/* *step = the largest step below *step that has a file with this ending; if there is none, NONE. */
static gs_status step_before(const char *folder, const char *ending, uint64_t *step) {
    const uint64_t end = *step;
    uint64_t found;
    *step = NONE;
    DIR *d = opendir(folder);
    if (!d) return gs_fail(GS_E_FILE, "cannot read the folder %s: %s", folder, strerror(errno));
    for (const struct dirent *e = readdir(d); e; e = readdir(d))
        if (step_of(e->d_name, ending, &found) && found < end && (*step == NONE || found > *step))
            *step = found;
    closedir(d);
    return GS_OK;
}

/* ---- manifests ---- */

static const char *text_of(const cJSON *o, const char *name) {
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, name));
}

/* The caller frees *o. */
static gs_status read_manifest(const char *path, cJSON **o) {
    char *text;
    size_t size;
    const char *end;
    GS_TRY(gs_file_read(path, MANIFEST_MOST, &text, &size));
    *o = gs_json_parse(text, size, &end);
    free(text);
    if (cJSON_IsObject(*o) && text_of(*o, "sha256")) return GS_OK;
    cJSON_Delete(*o);
    *o = NULL;
    return gs_fail(GS_E_FORMAT, "%s is damaged: %s", path,
                   size > 0 ? "it is no JSON object with a 'sha256'" : "it is empty");
}

/* GS_E_FORMAT: the file does not match its manifest. */
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

static gs_status check_pair(const char *file, const char *manifest) {
    cJSON *o;
    GS_TRY(read_manifest(manifest, &o));
    const gs_status status = check_hash(file, o);
    cJSON_Delete(o);
    return status;
}

static gs_status check(const char *folder, uint64_t step) {
    const path file = path_of(folder, step, WEIGHTS), manifest = path_of(folder, step, MANIFEST);
    return check_pair(file.text, manifest.text);
}

/* True if there is a manifest beside the file. */
static bool has_manifest(const char *file, path *manifest) {
    const size_t length = strlen(file), ending = strlen(WEIGHTS);
    uint64_t step;
    if (!step_of(name_of(file), WEIGHTS, &step)) return false;
    snprintf(manifest->text, sizeof manifest->text, "%.*s%s", (int)(length - ending), file, MANIFEST);
    return access(manifest->text, F_OK) == 0;
}

gs_status gs_checkpoint_check_file(const char *file) {
    path manifest;
    return has_manifest(file, &manifest) ? check_pair(file, manifest.text) : GS_OK;
}

static bool lies_in(const char *file, const char *folder) {
    path of_file;
    snprintf(of_file.text, sizeof of_file.text, "%.*s.", (int)(name_of(file) - file), file);
    return gs_file_is_same(of_file.text, folder);
}

gs_status gs_checkpoint_check_save(const char *file) {
    char target[PATH_MAX];
    path manifest;
    uint64_t step;
    const bool is_one = realpath(file, target) && has_manifest(target, &manifest);
    if (!is_one && !step_of(name_of(file), WEIGHTS, &step)) return GS_OK;
    return gs_fail(GS_E_USAGE, "--save %s is a checkpoint%s, and would be lost; choose another name", file,
                   is_one ? "" : " by its name");
}

bool gs_checkpoint_is_there(const char *folder, uint64_t step) {
    return access(path_of(folder, step, MANIFEST).text, F_OK) == 0;
}

/* ---- the newest whole checkpoint ---- */

bool gs_checkpoint_is_empty(const char *folder) {
    uint64_t step = NONE;
    if (access(folder, F_OK) != 0) return true; /* rank 0 may be about to make the folder */
    return step_before(folder, MANIFEST, &step) == GS_OK && step == NONE;
}

static atomic_int held = -1; /* the file found by gs_checkpoint_find, under a shared lock */

void gs_checkpoint_let_go(void) {
    const int file = atomic_exchange(&held, -1);
    if (file >= 0) close(file);
}

/* False if another run is removing this checkpoint. */
static bool hold(const char *folder, uint64_t step) {
    gs_checkpoint_let_go();
    const int file = open(path_of(folder, step, WEIGHTS).text, O_RDONLY | O_CLOEXEC);
    atomic_store(&held, file);
    return file < 0 || flock(file, LOCK_SH | LOCK_NB) == 0 || errno != EWOULDBLOCK;
}

static gs_status copy_path(const char *folder, uint64_t step, char **file) {
    *file = strdup(path_of(folder, step, WEIGHTS).text);
    return *file ? GS_OK : gs_fail(GS_E_MEMORY, "no memory for the path of a checkpoint");
}

/* *gone: true if another run has removed a checkpoint in the meantime, so that there may be newer ones. */
static gs_status find(const char *folder, char **file, char note[GS_CHECKPOINT_NOTE], bool *gone) {
    for (uint64_t step = NONE;;) {
        const bool first = step == NONE;
        GS_TRY(step_before(folder, MANIFEST, &step));
        if (first && step == NONE)
            return gs_fail(GS_E_FILE, "there is no checkpoint in %s (" PREFIX "N%s)", folder, MANIFEST);
        if (step == NONE) return gs_fail(GS_E_FORMAT, "no checkpoint in %s is whole: %s", folder, note);
        if ((*gone = !hold(folder, step))) return GS_OK;
        if (check(folder, step) == GS_OK) {
            if (*note)
                gs_append(note, GS_CHECKPOINT_NOTE, "; the checkpoint of step %" PRIu64 " is taken instead",
                          step);
            return copy_path(folder, step, file);
        }
        gs_checkpoint_let_go();
        if ((*gone = !gs_checkpoint_is_there(folder, step))) return GS_OK;
        gs_append(note, GS_CHECKPOINT_NOTE - 60, "%s%s", *note ? "; " : "", gs_message());
    }
}

gs_status gs_checkpoint_find(const char *folder, char **file, char note[GS_CHECKPOINT_NOTE]) {
    for (int i = 0; i < TRIES; i++) {
        bool gone = false;
        if (i > 0) gs_sleep(0.01);
        *file = NULL;
        *note = '\0';
        const gs_status status = find(folder, file, note, &gone);
        if (!gone) return status;
    }
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
    hold(folder, step); /* never fails, because rank 0 holds it too */
    GS_TRY(check(folder, step));
    return copy_path(folder, step, file);
}

/* ---- old checkpoints ---- */

/* If another run holds the checkpoint, it stays until the next removal. */
static void remove_one(const char *folder, uint64_t step) {
    const path file = path_of(folder, step, WEIGHTS);
    const int held_by = open(file.text, O_RDWR | O_CLOEXEC);
    if (held_by < 0 || flock(held_by, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) {
        unlink(path_of(folder, step, MANIFEST).text);
        unlink(file.text);
    }
    if (held_by >= 0) close(held_by);
}

/* Of the checkpoints up to `step`, keep the `keep` newest. Later ones are damaged, and do not count. */
static void remove_old(const char *folder, uint64_t step, int keep) {
    step++;
    while (step_before(folder, MANIFEST, &step) == GS_OK && step != NONE)
        if (keep-- <= 0) remove_one(folder, step);
}

/* ---- before a run ---- */

/* Remove files without a manifest: they were never finished, or only half removed. The file from which the run resumes
 * stays. In a folder without any manifest, a killed run leaves at most one such file; if there are more, somebody has
 * copied files or removed the manifests, and all files stay. */
static gs_status clean(const char *folder, const char *resume, char note[GS_CHECKPOINT_NOTE]) {
    size_t count = 0;
    gs_file_clean_folder(folder);
    for (uint64_t step = NONE;; count++) {
        GS_TRY(step_before(folder, WEIGHTS, &step));
        if (step == NONE) break;
    }
    if (count > 1 && gs_checkpoint_is_empty(folder))
        return gs_fail(
            GS_E_USAGE,
            "--checkpoint %s: it has %zu files " PREFIX "N%s without their manifests " PREFIX
            "N%s, and would lose them; choose another folder, or go on from one with --resume FILE",
            folder, count, WEIGHTS, MANIFEST);
    for (uint64_t step = NONE;;) {
        GS_TRY(step_before(folder, WEIGHTS, &step));
        if (step == NONE) return GS_OK;
        const path file = path_of(folder, step, WEIGHTS);
        if (gs_checkpoint_is_there(folder, step) || (resume && gs_file_is_same(file.text, resume))) continue;
        if (unlink(file.text) == 0)
            gs_append(note, GS_CHECKPOINT_NOTE, "%s%s, which has no manifest, was removed", *note ? "; " : "",
                      file.text);
    }
}

/* A new run replaces another run's damaged checkpoint only if no state can be read from it; `note` then says so. */
static gs_status check_damaged(const char *folder, uint64_t step, char note[GS_CHECKPOINT_NOTE]) {
    char why[GS_CHECKPOINT_NOTE];
    gs_state *state;
    snprintf(why, sizeof why, "%s", gs_message());
    const path file = path_of(folder, step, WEIGHTS);
    const bool lost = gs_state_read(file.text, &state) != GS_OK;
    if (!lost)
        gs_fail(GS_E_USAGE,
                "--checkpoint %s: %s; a state can still be read from %s, and a new run would replace it; "
                "choose another folder, or move that file away and go on from it with --resume FILE",
                folder, why, file.text);
    else
        gs_append(note, GS_CHECKPOINT_NOTE, "%s%s; this run will replace it", *note ? "; " : "", why);
    gs_state_free(state);
    return lost ? GS_OK : GS_E_USAGE;
}

static gs_status check_others(const char *folder, const char *resume, uint64_t step,
                              char note[GS_CHECKPOINT_NOTE]) {
    const bool ours = resume && lies_in(resume, folder);
    for (uint64_t found = NONE;;) {
        GS_TRY(step_before(folder, MANIFEST, &found));
        if (found == NONE || (ours && found <= step)) return GS_OK;
        if (check(folder, found) == GS_OK)
            return gs_fail(GS_E_USAGE,
                           "--checkpoint %s: it has a %s%s, after step %" PRIu64
                           "; go on from there with --resume %s, or choose another folder",
                           folder, ours ? "later checkpoint than " : "checkpoint of another run",
                           ours ? resume : "", found, folder);
        if (!ours) GS_TRY(check_damaged(folder, found, note)); /* this run will overwrite its own */
    }
}

gs_status gs_checkpoint_check_new(const char *folder) {
    char note[GS_CHECKPOINT_NOTE] = ""; /* gs_checkpoint_prepare will report it */
    return check_others(folder, NULL, 0, note);
}

/* A run removes its lock file when it ends. If we opened the file before its removal, our lock is worthless, and we
 * must lock the new file. On a file system without locks, locking always succeeds. */
static gs_status lock_folder(const char *folder, FILE **lock) {
    const path place = lock_of(folder);
    char who[300] = "", host[64] = "?";
    struct stat s;
    *lock = NULL;
    do {
        if (*lock) fclose(*lock);
        if (!(*lock = fopen(place.text, "a+e")))
            return gs_fail(GS_E_FILE, "--checkpoint %s: cannot write there: %s", folder, strerror(errno));
        if (flock(fileno(*lock), LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) continue;
        if (!fgets(who, sizeof who, *lock)) strcpy(who, "another process");
        fclose(*lock);
        *lock = NULL;
        return gs_fail(
            GS_E_USAGE,
            "--checkpoint %s: %s writes its checkpoints there; choose another folder, or wait until "
            "it has ended",
            folder, who);
    } while (fstat(fileno(*lock), &s) != 0 || s.st_nlink == 0);
    gethostname(host, sizeof host - 1);
    if (ftruncate(fileno(*lock), 0) == 0) fprintf(*lock, "process %ld on host %s", (long)getpid(), host);
    fflush(*lock);
    return GS_OK;
}

void gs_checkpoint_unlock(const char *folder, FILE *lock) {
    char who[300], mine[32];
    if (!lock) return;
    snprintf(mine, sizeof mine, "process %ld on", (long)getpid());
    rewind(lock);
    if (fgets(who, sizeof who, lock) && strncmp(who, mine, strlen(mine)) == 0) unlink(lock_of(folder).text);
    fclose(lock);
}

gs_status gs_checkpoint_prepare(const char *folder, const char *resume, uint64_t step, int keep,
                                char note[GS_CHECKPOINT_NOTE], FILE **lock) {
    *note = '\0';
    *lock = NULL;
    if (!gs_file_make_folders(folder) || !gs_checkpoint_is_folder(folder))
        return gs_fail(GS_E_FILE, "--checkpoint %s: cannot make this folder: %s", folder,
                       errno == EEXIST ? "there is a file of that name" : strerror(errno));
    GS_TRY(lock_folder(folder, lock));
    GS_TRY(clean(folder, resume, note));
    GS_TRY(check_others(folder, resume, step, note));
    GS_TRY(gs_file_check_target(path_of(folder, step, MANIFEST).text, GS_FILE_ANY));
    /* a killed run may have failed to do this */
    if (resume && lies_in(resume, folder)) remove_old(folder, step, keep);
    return GS_OK;
}

/* ---- writing ---- */

static gs_status write_manifest(const char *folder, const gs_state *s, const char *model, uint64_t per_epoch,
                                const gs_written *written) {
    char name[64];
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
    gs_status status = gs_file_writer_open(path_of(folder, s->step, MANIFEST).text, &w);
    if (status == GS_OK) {
        fprintf(w.file, "%s\n", text); /* commit reports write errors */
        status = gs_file_writer_commit(&w);
    }
    cJSON_free(text);
    return status;
}

gs_status gs_checkpoint_write(const char *folder, const gs_model *model, const gs_optimizer_ops *ops,
                              const float *weights, const gs_state *state, uint64_t per_epoch, int keep,
                              uint64_t *bytes) {
    gs_written written;
    const path file = path_of(folder, state->step, WEIGHTS);
    GS_TRY(gs_state_save(file.text, model, ops, weights, state, &written));
    GS_TRY(write_manifest(folder, state, model->text, per_epoch, &written));
    *bytes = written.bytes;
    remove_old(folder, state->step, keep);
    return GS_OK;
}
