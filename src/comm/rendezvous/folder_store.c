/* A store (store.h) as a folder that all processes see: each pair is a file, whose name is the key.
 *
 *     rank-1      the info of rank 1 (rank_info.h), which only its owner can read
 *     fault       the message of the first rank that failed while the ranks were being connected
 *     absent-2    the message of rank 2, which failed before it arrived
 *     left-1      rank 1 is done, or its process has ended
 *
 * Therefore several faults are reported at once, without a timeout: a folder left from an earlier run, two runs in one
 * folder, ranks that were started differently, and a rank that arrived and died.
 */
#include "comm/rendezvous/store.h"
#include "core/clock.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH = 4200 };
static const double LOOK = 0.01; /* s; polling works on network folders too */

struct gs_folder_store {
    const gs_rendezvous *r;
    long owner;   /* of this rank's files, as the file system reports it; only this user's files are valid */
    double since; /* when this rank arrived, by the clock of that file system */
    bool looked;  /* it has looked at the folder at least once */
};

int gs_rank_of_key(const char *name, const char *what, int size) {
    char own[80];
    const size_t length = strlen(what);
    if (strncmp(name, what, length) != 0 || name[length] != '-') return -1;
    const long rank = strtol(name + length + 1, NULL, 10);
    snprintf(own, sizeof own, "%s-%ld", what, rank);
    return rank >= 0 && rank < size && strcmp(name, own) == 0 ? (int)rank : -1;
}

/* The path of file "what-rank"; if rank is -1, of file "what". */
static const char *path_of(const gs_rendezvous *r, const char *what, int rank, char path[PATH]) {
    snprintf(path, PATH, rank < 0 ? "%s/%s" : "%s/%s-%d", r->directory, what, rank);
    return path;
}

static void remove_file(const gs_rendezvous *r, const char *what, int rank) {
    char path[PATH];
    unlink(path_of(r, what, rank, path));
}

/* ---- opening ---- */

/* GS_E_FILE: the folder holds a file that no rank of this run can have put there. */
static gs_status check_folder(const gs_rendezvous *r) {
    DIR *folder = opendir(r->directory);
    if (!folder) return gs_fail(GS_E_FILE, "rendezvous folder %s: %s", r->directory, strerror(errno));
    gs_status status = GS_OK;
    for (const struct dirent *e; status == GS_OK && (e = readdir(folder));) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
        if (gs_rank_of_key(e->d_name, "rank", r->size) >= 0 ||
            gs_rank_of_key(e->d_name, "absent", r->size) >= 0 ||
            gs_rank_of_key(e->d_name, "left", r->size) >= 0)
            continue;
        status = gs_fail(GS_E_FILE,
                         "rendezvous folder %s holds '%s'; use a new folder for each run, with nothing in it "
                         "but the files of its %d ranks",
                         r->directory, e->d_name, r->size);
    }
    closedir(folder);
    return status;
}

/* ---- files: each holds a value and a newline ---- */

/* *whole: the file exists, and its writer has finished. A message of early failure that is older than the timeout is
 * ignored, because it is left from an earlier run. */
static gs_status read_file(const gs_folder_store *f, const char *name, char value[GS_STORE_VALUE],
                           bool *whole) {
    char path[PATH];
    struct stat s;
    path_of(f->r, name, -1, path);
    *whole = false;
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (file < 0 && errno == ENOENT) return GS_OK;
    if (file < 0) return gs_fail(GS_E_FILE, "cannot read %s: %s", path, strerror(errno));
    gs_status status = GS_OK;
    char text[GS_STORE_VALUE] = "";
    ssize_t n = 0;
    if (fstat(file, &s) != 0 || !S_ISREG(s.st_mode))
        status = gs_fail(GS_E_FILE, "%s is not a regular file, so it is not a rank's file", path);
    else if ((long)s.st_uid != f->owner)
        status = gs_fail(GS_E_FILE, "%s belongs to user %ld, but user %ld runs this rank", path,
                         (long)s.st_uid, f->owner);
    else if ((n = read(file, text, sizeof text)) < 0)
        status = gs_fail(GS_E_FILE, "cannot read %s: %s", path, strerror(errno));
    close(file);
    const bool old =
        gs_rank_of_key(name, "absent", f->r->size) >= 0 && f->since - (double)s.st_mtime > f->r->timeout;
    *whole = n > 0 && text[n - 1] == '\n' && !old;
    if (*whole) snprintf(value, GS_STORE_VALUE, "%.*s", (int)n - 1, text);
    return status;
}

gs_status gs_folder_store_put(gs_folder_store *f, const char *key, char *value, bool *there) {
    char path[PATH], text[GS_STORE_VALUE + 1];
    struct stat s;
    path_of(f->r, key, -1, path);
    const int length = snprintf(text, sizeof text, "%s\n", value);
    int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    *there = file < 0 && errno == EEXIST;
    if (*there) {
        bool whole = false;
        for (int ms = 0; ms < 100 && !whole; ms++) {
            if (ms > 0) gs_sleep(1e-3); /* another rank is writing it */
            GS_TRY(read_file(f, key, value, &whole));
        }
        return GS_OK;
    }
    if (file < 0) return gs_fail(GS_E_FILE, "cannot make %s: %s", path, strerror(errno));
    const bool whole = fstat(file, &s) == 0 && write(file, text, (size_t)length) == length;
    if (close(file) != 0 || !whole) {
        gs_status status = gs_fail(GS_E_FILE, "cannot write %s: %s", path, strerror(errno));
        unlink(path);
        return status;
    }
    f->owner = (long)s.st_uid;
    if (f->since <= 0) f->since = (double)s.st_mtime;
    return GS_OK;
}

/* ---- looking ---- */

gs_status gs_folder_store_poll(gs_folder_store *f, double seconds, gs_store_seen *seen, void *context) {
    char value[GS_STORE_VALUE];
    if (f->looked) gs_sleep(seconds < LOOK ? seconds : LOOK);
    f->looked = true;
    DIR *folder = opendir(f->r->directory);
    if (!folder)
        return gs_fail(GS_E_FILE, "rank %d: rendezvous folder %s is gone", f->r->rank, f->r->directory);
    gs_status status = GS_OK;
    bool whole;
    for (const struct dirent *e; status == GS_OK && (e = readdir(folder));) {
        if (e->d_name[0] == '.') continue;
        status = read_file(f, e->d_name, value, &whole);
        if (status == GS_OK && whole) status = seen(context, e->d_name, value);
    }
    closedir(folder);
    return status;
}

/* ---- opening, leaving ---- */

gs_status gs_folder_store_open(const gs_rendezvous *r, gs_folder_store **out) {
    GS_TRY(check_folder(r));
    gs_folder_store *f = *out = calloc(1, sizeof *f);
    if (!f) return gs_fail(GS_E_MEMORY, "no memory to meet the other ranks");
    f->r = r;
    f->owner = (long)geteuid();
    remove_file(r, "absent", r->rank); /* this rank has arrived after all */
    remove_file(r, "left", r->rank);
    return GS_OK;
}

static bool holds(const gs_rendezvous *r, const char *what, int rank) {
    char path[PATH];
    return access(path_of(r, what, rank, path), F_OK) == 0;
}

/* Remove the folder, unless a rank is still here. If a rank failed early, or a launcher asks (`wait`), the folder stays
 * until each rank has left or failed early, so that late ranks can read why. Once all have met, it is not needed. */
static void tidy(const gs_rendezvous *r, bool met, bool wait) {
    bool unread = false;
    for (int k = 0; k < r->size; k++) {
        if (holds(r, "rank", k)) return;
        const bool early = holds(r, "absent", k);
        wait |= early;
        unread |= !early && !holds(r, "left", k);
    }
    if (!met && wait && unread) return;
    for (int k = 0; k < r->size; k++) {
        remove_file(r, "absent", k);
        remove_file(r, "left", k);
    }
    remove_file(r, "fault", -1);
    rmdir(r->directory);
}

static void mark_left(const gs_rendezvous *r, int rank) {
    char here[PATH], left[PATH];
    if (rename(path_of(r, "rank", rank, here), path_of(r, "left", rank, left)) != 0)
        close(open(left, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
}

void gs_folder_store_leave(const gs_folder_store *f, bool met) {
    mark_left(f->r, f->r->rank);
    tidy(f->r, met, false);
}

void gs_store_leave_folder(const char *folder, int size, int first, int count) {
    const gs_rendezvous r = {.directory = folder, .size = size};
    for (int k = first; k < first + count; k++) mark_left(&r, k);
    tidy(&r, false, true);
}
