#include "io/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- files that are written whole or not at all ---- */

static void forget(gs_file_writer *w) {
    free(w->path);
    free(w->temporary);
    *w = (gs_file_writer){0};
}

/* Remove the temporary file and say why; `error` is an errno. */
static gs_status give_up(gs_file_writer *w, int error) {
    gs_status st = gs_fail(GS_E_FILE, "cannot write %s: %s", w->path, strerror(error));
    gs_file_writer_discard(w);
    return st;
}

/* rename() replaces whatever it may, so what open() would refuse must be refused here: folders, files without
 * write permission, and devices (root's `--save /dev/null` would otherwise replace the device). */
static gs_status check_target(const char *path) {
    struct stat s;
    if (path[0] == '\0') return gs_fail(GS_E_FILE, "cannot write a file without a name");
    if (stat(path, &s) != 0) {
        if (errno == ENOENT) return GS_OK;
        return gs_fail(GS_E_FILE, "cannot write %s: %s", path, strerror(errno));
    }
    if (S_ISDIR(s.st_mode)) return gs_fail(GS_E_FILE, "cannot write %s: %s", path, strerror(EISDIR));
    if (!S_ISREG(s.st_mode)) return gs_fail(GS_E_FILE, "cannot write %s: it is not a regular file", path);
    if (faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) != 0)
        return gs_fail(GS_E_FILE, "cannot write %s: %s", path, strerror(errno));
    return GS_OK;
}

gs_status gs_file_writer_open(const char *path, gs_file_writer *w) {
    *w = (gs_file_writer){0};
    GS_TRY(check_target(path));
    w->path = realpath(path, NULL); /* through symbolic links: the file changes, the link stays */
    if (!w->path) w->path = strdup(path);
    size_t size = (w->path ? strlen(w->path) : 0) + 64;
    w->temporary = malloc(size);
    if (!w->path || !w->temporary) {
        forget(w);
        return gs_fail(GS_E_MEMORY, "cannot write %s: %s", path, strerror(ENOMEM));
    }
    /* Not mkstemp: it makes private files (mode 0600), while this one becomes the real one, whose mode the
     * umask sets. */
    int fd = -1;
    for (int try = 0; fd < 0 && try < 1000; try++) {
        snprintf(w->temporary, size, "%s.%ld-%d.tmp", w->path, (long)getpid(), try);
        fd = open(w->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd < 0 && errno != EEXIST) break;
    }
    int error = errno;
    if (fd >= 0) {
        w->file = fdopen(fd, "wb");
        if (w->file) return GS_OK;
        error = errno;
        close(fd);
        unlink(w->temporary);
    }
    free(w->temporary); /* it is not ours, or not there any more */
    w->temporary = NULL;
    return give_up(w, error);
}

/* Make the new name last through a power cut. The file is whole and in its place already, so a file system
 * that cannot do this for folders is no failure. */
static void sync_folder_of(const char *path) {
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    size_t length = slash ? (size_t)(slash - path) + 1 : 0;
    if (length + 2 > sizeof folder) return;
    memcpy(folder, path, length);
    strcpy(folder + length, ".");
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return;
    fsync(fd);
    close(fd);
}

/* A write failed whose result nobody looked at, and its errno is lost: what hindered it will hinder another byte too. */
static int error_of_lost_write(FILE *file) {
    clearerr(file);
    return fputc('\n', file) == EOF || fflush(file) != 0 ? errno : EIO;
}

gs_status gs_file_writer_commit(gs_file_writer *w) {
    if (!w->file) gs_bug("gs_file_writer_commit: no file is open");
    bool failed_before = ferror(w->file);
    if (fflush(w->file) != 0) return give_up(w, errno);
    if (failed_before) return give_up(w, error_of_lost_write(w->file));
    if (fsync(fileno(w->file)) != 0) return give_up(w, errno);
    FILE *file = w->file;
    w->file = NULL;
    if (fclose(file) != 0) return give_up(w, errno);
    if (rename(w->temporary, w->path) != 0) return give_up(w, errno);
    sync_folder_of(w->path);
    forget(w);
    return GS_OK;
}

void gs_file_writer_discard(gs_file_writer *w) {
    if (w->file) fclose(w->file);
    if (w->temporary) unlink(w->temporary);
    forget(w);
}

/* ---- files that come with gradsum ---- */

/* The places looked at so far, for the message. */
typedef struct places {
    char text[700];
    size_t used;
} places;

static bool exists(places *p, const char *path) {
    if (access(path, F_OK) == 0) return true;
    int n = snprintf(p->text + p->used, sizeof p->text - p->used, "%s%s", p->used ? ", " : "", path);
    p->used += (size_t)n < sizeof p->text - p->used ? (size_t)n : 0; /* one that does not fit is cut off */
    return false;
}

static gs_status give(const char *found, char *path, size_t size) {
    if (strlen(found) >= size)
        return gs_fail(GS_E_FILE, "%s: the path is longer than %zu bytes", found, size);
    strcpy(path, found);
    return GS_OK;
}

/* "/a/b/c" -> "/a/b", "/a" -> ""; false when nothing is left to cut. */
static bool cut_last(char *path) {
    char *slash = strrchr(path, '/');
    if (slash) *slash = '\0';
    return slash != NULL;
}

gs_status gs_file_of_gradsum(const char *relative, char *path, size_t size) {
    if (strlen(relative) > 255) return gs_fail(GS_E_FILE, "cannot find gradsum's own '%s'", relative);
    places seen = {.used = 0};
    char program[PATH_MAX], place[PATH_MAX + 300], tree[PATH_MAX + 300];
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    program[length > 0 ? length : 0] = '\0';

    /* The build tree: build/gradsum, or deeper for other build folders and for labs (build/lessons/07/gradsum). A
     * parent counts only if it is gradsum's source tree, so that a folder called "cl" of something else is never taken for ours. */
    char *folder = program, parent[PATH_MAX];
    cut_last(folder);
    strcpy(parent, folder);
    for (int up = 0; up < 6 && cut_last(parent); up++) {
        snprintf(tree, sizeof tree, "%s/src/gradsum.h", parent);
        snprintf(place, sizeof place, "%s/%s", parent, relative);
        if (exists(&seen, tree) && exists(&seen, place)) return give(place, path, size);
    }
    /* Installed: PREFIX/bin/gradsum beside PREFIX/share/gradsum, wherever PREFIX was moved to. */
    if (cut_last(folder)) {
        snprintf(place, sizeof place, "%s/share/gradsum/%s", folder, relative);
        if (exists(&seen, place)) return give(place, path, size);
    }
    /* A program of someone else's that uses the installed library. */
    snprintf(place, sizeof place, "%s/share/gradsum/%s", GS_PREFIX, relative);
    if (exists(&seen, place)) return give(place, path, size);
    return gs_fail(GS_E_FILE, "cannot find gradsum's own '%s'; looked for %s", relative, seen.text);
}
