/* 21.1: a disk whose power fails after each call, in every way that tasks.h allows. */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CALLS = 40, NAME = 64, BYTES = 200 };

/* A file keeps its index when another takes its name. */
typedef struct file {
    unsigned char data[BYTES];
    size_t bytes;
    bool synced;
} file;

typedef enum change_kind { MAKE, RENAME, REMOVE } change_kind;

/* A change of names that may not have reached the disk. */
typedef struct change {
    change_kind kind;
    char name[NAME], to[NAME];
    int file;
} change;

typedef struct entry {
    char name[NAME];
    int file; /* -1: free */
} entry;

typedef struct folder {
    entry entry[CALLS];
} folder;

static const char checkpoint[] = "state", temporary[] = "state.tmp";

static struct {
    file file[CALLS];
    int files;
    folder now, on_disk;
    change change[CALLS]; /* since the last disk_sync_folder */
    int changes, calls;
    int fails; /* the kind of call that fails (as in `call_names`), or -1 */
    unsigned char old[BYTES], new[BYTES];
    size_t old_bytes, new_bytes; /* old_bytes 0: there is no older checkpoint */
    bool wrong;
    char said[500];
} disk;

enum { WRITE_CALL, SYNC_CALL, RENAME_CALL, REMOVE_CALL, SYNC_FOLDER_CALL };
static const char *const call_names[] = {"disk_write", "disk_sync", "disk_rename", "disk_remove",
                                         "disk_sync_folder"};

/* ---- names ---- */

static entry *find(folder *f, const char *name) {
    for (int i = 0; i < CALLS; i++)
        if (f->entry[i].file >= 0 && strcmp(f->entry[i].name, name) == 0) return &f->entry[i];
    return NULL;
}

static void set(folder *f, const char *name, int to) {
    entry *e = find(f, name);
    for (int i = 0; i < CALLS && !e; i++)
        if (f->entry[i].file < 0) e = &f->entry[i];
    if (!e) return; /* cannot happen: there are as many entries as calls */
    snprintf(e->name, sizeof e->name, "%s", name);
    e->file = to;
}

static void apply(folder *f, const change *c) {
    if (c->kind == MAKE) set(f, c->name, c->file);
    entry *e = find(f, c->name);
    if (c->kind == MAKE || !e) return;
    const int file = e->file;
    e->file = -1;
    if (c->kind == RENAME) set(f, c->to, file);
}

static void note(change_kind kind, const char *name, const char *to, int of) {
    change *c = &disk.change[disk.changes++];
    *c = (change){.kind = kind, .file = of};
    snprintf(c->name, sizeof c->name, "%s", name);
    snprintf(c->to, sizeof c->to, "%s", to);
    apply(&disk.now, c);
}

/* ---- the power fails ---- */

static bool is(const unsigned char *data, size_t bytes, const unsigned char *wanted, size_t size) {
    return bytes == size && memcmp(data, wanted, size) == 0;
}

/* True if the checkpoint's name holds the new one, or, unless must_be_new, the older one. */
static bool is_whole(folder *f, int of_unsynced, bool must_be_new, size_t *bytes) {
    const entry *e = find(f, checkpoint);
    *bytes = 0;
    if (!e) return disk.old_bytes == 0 && !must_be_new;
    const file *x = &disk.file[e->file];
    *bytes = x->synced ? x->bytes : x->bytes * (size_t)of_unsynced / 2;
    return is(x->data, *bytes, disk.new, disk.new_bytes) ||
           (!must_be_new && disk.old_bytes > 0 && is(x->data, *bytes, disk.old, disk.old_bytes));
}

static void say(const char *when, folder *f, size_t bytes, bool must_be_new) {
    char found[80];
    const entry *e = find(f, checkpoint);
    if (disk.wrong) return;
    disk.wrong = true;
    if (!e)
        snprintf(found, sizeof found, "there is no \"%s\"", checkpoint);
    else if (is(disk.file[e->file].data, bytes, disk.old, disk.old_bytes))
        snprintf(found, sizeof found, "\"%s\" is the older one", checkpoint);
    else
        snprintf(found, sizeof found, "\"%s\" has %zu bytes", checkpoint, bytes);
    snprintf(disk.said, sizeof disk.said,
             "a checkpoint of %zu bytes, %s older one; the power fails %s. Then perhaps %s; wanted %s",
             disk.new_bytes, disk.old_bytes > 0 ? "and an" : "no", when, found,
             must_be_new ? "the new one" : "the older one or the new one, whole");
}

/* Checks every state of the disk that a power cut may leave. */
static void cut_power(const char *when, bool must_be_new) {
    folder f = disk.on_disk;
    for (int j = 0;; j++) {
        for (int of_unsynced = 2; of_unsynced >= 0; of_unsynced--) {
            size_t bytes;
            if (!is_whole(&f, of_unsynced, must_be_new, &bytes)) say(when, &f, bytes, must_be_new);
        }
        if (j == disk.changes) return;
        apply(&f, &disk.change[j]);
    }
}

/* ---- the calls ---- */

static gs_status begin(int call, const char *name, const char *to) {
    if (disk.calls + 1 >= CALLS || strlen(name) >= NAME || strlen(to) >= NAME)
        return gs_fail(GS_E_USAGE, "%s: after %d calls, or with a name of %zu letters: wanted fewer",
                       call_names[call], disk.calls, strlen(name) + strlen(to));
    disk.calls++;
    if (disk.fails == call && call != WRITE_CALL)
        return gs_fail(GS_E_FILE, "%s: the disk is broken", call_names[call]);
    return GS_OK;
}

static void end(int call) {
    char when[80];
    snprintf(when, sizeof when, "after call %d, %s", disk.calls, call_names[call]);
    cut_power(when, false);
}

static gs_status missing(int call, const char *name) {
    return gs_fail(GS_E_FILE, "%s: there is no file \"%s\"", call_names[call], name);
}

gs_status disk_write(const char *name, const void *data, size_t bytes) {
    GS_TRY(begin(WRITE_CALL, name, ""));
    if (bytes > BYTES) return gs_fail(GS_E_FILE, "disk_write: %zu bytes; the disk is full", bytes);
    const bool full = disk.fails == WRITE_CALL;
    const entry *e = find(&disk.now, name);
    const int at = e ? e->file : disk.files++;
    file *f = &disk.file[at];
    *f = (file){.bytes = full ? bytes / 2 : bytes};
    if (f->bytes > 0) memcpy(f->data, data, f->bytes);
    if (!e) note(MAKE, name, "", at);
    end(WRITE_CALL);
    return full ? gs_fail(GS_E_FILE, "disk_write: the disk is full") : GS_OK;
}

gs_status disk_sync(const char *name) {
    GS_TRY(begin(SYNC_CALL, name, ""));
    const entry *e = find(&disk.now, name);
    if (!e) return missing(SYNC_CALL, name);
    disk.file[e->file].synced = true;
    end(SYNC_CALL);
    return GS_OK;
}

gs_status disk_rename(const char *from, const char *to) {
    GS_TRY(begin(RENAME_CALL, from, to));
    if (!find(&disk.now, from)) return missing(RENAME_CALL, from);
    note(RENAME, from, to, -1);
    end(RENAME_CALL);
    return GS_OK;
}

gs_status disk_remove(const char *name) {
    GS_TRY(begin(REMOVE_CALL, name, ""));
    if (!find(&disk.now, name)) return missing(REMOVE_CALL, name);
    note(REMOVE, name, "", -1);
    end(REMOVE_CALL);
    return GS_OK;
}

gs_status disk_sync_folder(void) {
    GS_TRY(begin(SYNC_FOLDER_CALL, "", ""));
    disk.on_disk = disk.now;
    disk.changes = 0;
    end(SYNC_FOLDER_CALL);
    return GS_OK;
}

/* ---- cases ---- */

static void clear(folder *f) {
    for (int i = 0; i < CALLS; i++) f->entry[i].file = -1;
}

static void put(const char *name, const unsigned char *data, size_t bytes) {
    file *f = &disk.file[disk.files];
    *f = (file){.bytes = bytes, .synced = true};
    memcpy(f->data, data, bytes);
    set(&disk.now, name, disk.files++);
}

/* A disk that is empty, or has an older checkpoint, or a file that a killed run has left. */
static void begin_case(size_t i, size_t old_bytes, size_t new_bytes, bool left_over, int fails) {
    memset(&disk, 0, sizeof disk);
    clear(&disk.now);
    disk.old_bytes = old_bytes;
    disk.new_bytes = new_bytes;
    disk.fails = fails;
    for (size_t k = 0; k < BYTES; k++) {
        disk.old[k] = (unsigned char)(1 + lab_pick(VALUES_ROW, BYTES * i + k, 127));
        disk.new[k] = (unsigned char)(128 + lab_pick(VALUES_ROW, BYTES * i + k, 128));
    }
    if (old_bytes > 0) put(checkpoint, disk.old, old_bytes);
    if (left_over) put(temporary, disk.old, 3);
    disk.on_disk = disk.now;
}

static gs_status check_case(size_t i, size_t old_bytes, size_t new_bytes, bool left_over, int fails) {
    size_t bytes;
    begin_case(i, old_bytes, new_bytes, left_over, fails);
    gs_status status = lab_save(checkpoint, temporary, disk.new, new_bytes);
    if (status == GS_OK) cut_power("after lab_save has returned GS_OK", true);
    LAB_CHECK(!disk.wrong, "%s", disk.said);
    if (fails < 0) {
        LAB_CHECK(status == GS_OK, "a checkpoint of %zu bytes, no call fails: lab_save returns '%s'",
                  new_bytes, gs_message());
        LAB_CHECK(!find(&disk.now, temporary), "a checkpoint of %zu bytes: \"%s\" is left", new_bytes,
                  temporary);
        return GS_OK;
    }
    LAB_CHECK_HINT(status != GS_OK, "look at what each call returns; on a failure stop, and clean up.",
                   "a checkpoint of %zu bytes, %s fails: lab_save returns GS_OK", new_bytes,
                   call_names[fails]);
    /* The message is that of the failed call, or of a failed removal after it. */
    LAB_CHECK_HINT(strstr(gs_message(), call_names[fails]) || strstr(gs_message(), call_names[REMOVE_CALL]),
                   "return the call's status, so that the user reads why.",
                   "a checkpoint of %zu bytes, %s fails: wanted its failure, got '%.100s'", new_bytes,
                   call_names[fails], gs_message());
    LAB_CHECK(
        is_whole(&disk.now, 2, false, &bytes),
        "a checkpoint of %zu bytes, %s fails: then \"%s\" has %zu bytes; wanted the older one or the new",
        new_bytes, call_names[fails], checkpoint, bytes);
    LAB_CHECK_HINT(!find(&disk.now, temporary), "a full disk stays full if you leave a file there.",
                   "a checkpoint of %zu bytes, %s fails: \"%s\" is left there", new_bytes, call_names[fails],
                   temporary);
    return GS_OK;
}

gs_status check_save(void) {
    GS_TRY(check_case(0, 0, 8, false, -1));
    GS_TRY(check_case(1, 6, 8, false, -1));
    GS_TRY(check_case(2, 8, 8, true, -1));
    static const int fails[] = {WRITE_CALL, SYNC_CALL, RENAME_CALL, SYNC_FOLDER_CALL};
    for (size_t i = 0; i < 4; i++) GS_TRY(check_case(3, 6, 8, false, fails[i]));
    for (size_t i = 0; i < 60; i++) {
        const size_t old = lab_pick(BYTES_ROW, 4 * i, 4) ? 1 + lab_pick(BYTES_ROW, 4 * i + 1, BYTES) : 0,
                     fail = lab_pick(BYTES_ROW, 4 * i + 3, 8);
        GS_TRY(check_case(4 + i, old, 2 + lab_pick(BYTES_ROW, 4 * i + 2, BYTES - 1), i % 3 == 0,
                          fail < 4 ? fails[fail] : -1));
    }
    return GS_OK;
}
