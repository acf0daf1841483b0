#include "io/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>
#include <zlib.h>
#include "core/text.h"

/* ---- the temporary file beside the real one: FILE.PID-N-HOST.tmp ----
 *
 * The writer locks the file. The lock ends with the process, so files of killed writers are recognized even if their
 * PID is in use again. Files from other hosts stay: their locks may be invisible here. */

enum { MORE = 64 }; /* maximum bytes that the temporary name adds to the file's name */

/* The ending of temporary names from this host: "-1a2b3c4d.tmp". */
static void ending(char text[16]) {
    struct utsname host;
    if (uname(&host) != 0) host.nodename[0] = '\0';
    unsigned long sum = crc32_z(0, (const unsigned char *)host.nodename, strlen(host.nodename));
    snprintf(text, 16, "-%08lx.tmp", sum & 0xffffffff);
}

/* False: another process holds the lock. On file systems without locks, always true. */
static bool lock(int fd) {
    return flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
}

/* Make and lock a temporary file for `path`; its name is stored in `name`, which has room for MORE bytes more than
 * `path`. Returns the descriptor; -1: see errno. */
static int make_temporary(const char *path, mode_t mode, char *name, size_t size) {
    char end[16];
    ending(end);
    for (int try = 0; try < 1000; try++) {
        struct stat s;
        snprintf(name, size, "%s.%ld-%d%s", path, (long)getpid(), try, end);
        int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
        if (fd < 0 && errno != EEXIST) return -1;
        if (fd < 0) continue;
        /* between open and lock, another process may have removed the file as abandoned */
        if (lock(fd) && fstat(fd, &s) == 0 && s.st_nlink > 0) return fd;
        close(fd);
    }
    errno = EEXIST;
    return -1;
}

/* True if the text is .PID-N-HOST.tmp from this host. */
static bool is_ending(const char *text, const char *end) {
    int length = 0;
    sscanf(text, ".%*[0-9]-%*[0-9]%n", &length);
    return length > 0 && strcmp(text + length, end) == 0;
}

/* True if the name is FILE.PID-N-HOST.tmp from this host; `file` NULL: for any FILE. */
static bool is_temporary_of(const char *name, const char *file, const char *end) {
    const size_t length = file ? strlen(file) : 0;
    if (file) return strncmp(name, file, length) == 0 && is_ending(name + length, end);
    for (const char *dot = strchr(name, '.'); dot; dot = strchr(dot + 1, '.'))
        if (is_ending(dot, end)) return true;
    return false;
}

static void remove_if_left(int folder, const char *name) {
    struct stat s, now;
    int fd = openat(folder, name, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) return;
    bool left = fstat(fd, &s) == 0 && S_ISREG(s.st_mode) && s.st_uid == geteuid() &&
                flock(fd, LOCK_EX | LOCK_NB) == 0 && fstatat(folder, name, &now, AT_SYMLINK_NOFOLLOW) == 0 &&
                now.st_ino == s.st_ino && now.st_dev == s.st_dev;
    if (left) unlinkat(folder, name, 0);
    close(fd);
}

static void clean(const char *folder, const char *file) {
    char end[16];
    DIR *d = opendir(folder);
    if (!d) return;
    ending(end);
    for (const struct dirent *e = readdir(d); e; e = readdir(d))
        if (is_temporary_of(e->d_name, file, end)) remove_if_left(dirfd(d), e->d_name);
    closedir(d);
}

/* Split a path into folder and name; NULL: the name is empty, or the folder's path is too long. */
static const char *split(const char *path, char folder[PATH_MAX]) {
    const char *slash = strrchr(path, '/'), *file = slash ? slash + 1 : path;
    const bool fits = snprintf(folder, PATH_MAX, "%.*s.", (int)(file - path), path) < PATH_MAX;
    return fits && *file ? file : NULL;
}

static void clean_beside(const char *path) {
    char folder[PATH_MAX];
    const char *file = split(path, folder);
    if (file) clean(folder, file);
}

void gs_file_clean_folder(const char *folder) {
    clean(folder, NULL);
}

/* ---- files written completely or not at all ---- */

static void forget(gs_file_writer *w) {
    free(w->given);
    free(w->path);
    free(w->temporary);
    *w = (gs_file_writer){0};
}

/* Remove the temporary file and say why; `error` is an errno. */
static gs_status give_up(gs_file_writer *w, const char *path, int error) {
    gs_status st = gs_fail(GS_E_FILE, "cannot write %s: %s", path, strerror(error));
    gs_file_writer_discard(w);
    return st;
}

static const char *kind_of(const struct stat *s) {
    return S_ISFIFO(s->st_mode)   ? "a pipe (FIFO)"
           : S_ISSOCK(s->st_mode) ? "a socket"
           : S_ISCHR(s->st_mode)  ? "a terminal or another device"
                                  : "a device";
}

/* Replacing a file that receives the program's output (--save /dev/stdout >file) would lose the rest of the output. */
static gs_status check_not_printed_to(const char *path, const struct stat *file) {
    struct stat s;
    for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO; fd++)
        if (fstat(fd, &s) == 0 && s.st_dev == file->st_dev && s.st_ino == file->st_ino)
            return gs_fail(GS_E_FILE, "cannot write %s: standard %s already goes there; choose another file",
                           path, fd == STDOUT_FILENO ? "output" : "error");
    return GS_OK;
}

/* rename() replaces files that open() would refuse to write, so refuse them here: files without write permission, and
 * devices (root's `--save /dev/null` would replace the device). */
static gs_status check_target(const char *path) {
    struct stat s;
    if (path[0] == '\0') return gs_fail(GS_E_FILE, "cannot write a file whose name is empty");
    if (strcmp(path, "-") == 0)
        return gs_fail(GS_E_USAGE, "'-' is no file, and nothing goes to standard output; give a name");
    if (stat(path, &s) != 0) {
        const int error = errno;
        if (error == ENOENT && lstat(path, &s) == 0)
            return gs_fail(GS_E_FILE, "cannot write %s: it is a link to a file that is not there", path);
        if (error == ENOENT) return GS_OK;
        return gs_fail(GS_E_FILE, "cannot write %s: %s", path, strerror(error));
    }
    if (S_ISDIR(s.st_mode)) return gs_fail(GS_E_FILE, "cannot write %s: %s", path, strerror(EISDIR));
    if (!S_ISREG(s.st_mode))
        return gs_fail(GS_E_FILE, "cannot write %s: it is not a regular file, but %s", path, kind_of(&s));
    GS_TRY(check_not_printed_to(path, &s));
    if (faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) != 0)
        return gs_fail(GS_E_FILE, "cannot write %s: %s", path, strerror(errno));
    return GS_OK;
}

/* The new file gets the old one's mode and, if permitted, its owner and group. If the group could not be kept, the
 * file's group gets only the rights of others. */
static void keep_rights(int fd, const struct stat *old) {
    mode_t mode = old->st_mode & 0777;
    bool kept = fchown(fd, old->st_uid, old->st_gid) == 0 || fchown(fd, (uid_t)-1, old->st_gid) == 0;
    if (!kept) mode = (mode & 0707) | (mode & 07) << 3;
    (void)!fchmod(fd, mode); /* ignored: some file systems have no modes */
}

static gs_status open_temporary(gs_file_writer *w, size_t size) {
    struct stat old;
    bool replaces = stat(w->path, &old) == 0;
    clean_beside(w->path);
    /* A replacement is private until it has the old file's rights; the umask limits the rights of a new file. */
    int fd = make_temporary(w->path, replaces ? 0600 : 0666, w->temporary, size), error = errno;
    if (fd >= 0) {
        if (replaces) keep_rights(fd, &old);
        w->file = fdopen(fd, "wb");
        if (w->file) return GS_OK;
        error = errno;
        close(fd);
        unlink(w->temporary);
    }
    free(w->temporary); /* not ours, or already removed */
    w->temporary = NULL;
    return give_up(w, w->path, error);
}

gs_status gs_file_writer_open(const char *path, gs_file_writer *w) {
    *w = (gs_file_writer){0};
    GS_TRY(check_target(path));
    w->given = strdup(path);
    w->path = realpath(path, NULL); /* a link stays; its target is replaced */
    if (!w->path) w->path = strdup(path);
    size_t size = (w->path ? strlen(w->path) : 0) + MORE;
    w->temporary = malloc(size);
    if (!w->given || !w->path || !w->temporary) {
        forget(w);
        return gs_fail(GS_E_MEMORY, "cannot write %s: %s", path, strerror(ENOMEM));
    }
    return open_temporary(w, size);
}

/* Make the new name survive a power failure. The file is already complete, so errors do not matter. */
static void sync_folder_of(const char *path) {
    char folder[PATH_MAX];
    const int fd = split(path, folder) ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (fd < 0) return;
    fsync(fd);
    close(fd);
}

/* An earlier write failed, and its errno is lost: writing another byte fails for the same reason. */
static int error_of_lost_write(FILE *file) {
    clearerr(file);
    return fputc('\n', file) == EOF || fflush(file) != 0 ? errno : EIO;
}

bool gs_file_is_same(const char *a, const char *b) {
    struct stat s, t;
    return stat(a, &s) == 0 && stat(b, &t) == 0 && s.st_dev == t.st_dev && s.st_ino == t.st_ino;
}

/* The first bytes and the file name extension of each kind. */
static const struct {
    const char *what, *format, *ending, *begins[4];
} kinds[] = {
    [GS_FILE_PAGE] = {"page", "a page in HTML", ".html", {"<!doctype html", "<!DOCTYPE html"}},
    [GS_FILE_WEIGHTS] = {"weights", "safetensors", ".safetensors", {NULL}}, /* see begins_as() */
    [GS_FILE_ARRAY] = {"array of NumPy", "an array of NumPy", ".npy", {"\x93NUMPY"}},
    [GS_FILE_MARKS] = {"marks", NULL, NULL, {"student,", "identifier", "<?xml", "{"}},
};

static bool begins_as(const char begin[16], size_t bytes, gs_file_kind kind) {
    for (int i = 0; i < 4 && kinds[kind].begins[i]; i++)
        if (strncmp(begin, kinds[kind].begins[i], strlen(kinds[kind].begins[i])) == 0) return true;
    return kind == GS_FILE_WEIGHTS && bytes > 8 && begin[7] == 0 && begin[8] == '{';
}

/* Reject names of other formats, because other programs would report a damaged file. */
static gs_status check_name(const char *path, gs_file_kind kind) {
    static const char *const known[] = {".safetensors", ".npy",  ".html",  ".pt",   ".pth",  ".bin", ".onnx",
                                        ".h5",          ".hdf5", ".keras", ".ckpt", ".gguf", ".pb",  ".pkl",
                                        ".npz",         ".zip",  ".json",  ".tar",  ".gz",   ".tgz", ".csv",
                                        ".tsv",         ".txt",  ".pdf",   ".png"};
    const char *slash = strrchr(path, '/'), *end = strrchr(slash ? slash : path, '.');
    for (size_t i = 0; end && kinds[kind].ending && i < sizeof known / sizeof *known; i++)
        if (strcasecmp(end, known[i]) == 0 && strcmp(known[i], kinds[kind].ending) != 0)
            return gs_fail(GS_E_USAGE,
                           "%s: gradsum writes %s, and the name says %s; wanted a name such as %.*s%s", path,
                           kinds[kind].format, end, (int)(end - path), path, kinds[kind].ending);
    return GS_OK;
}

static gs_status check_kind(const char *path, gs_file_kind kind) {
    char begin[16] = "";
    FILE *f = fopen(path, "re");
    if (!f) return GS_OK;
    const size_t bytes = fread(begin, 1, sizeof begin - 1, f);
    fclose(f);
    if (bytes == 0 || begins_as(begin, bytes, kind)) return GS_OK;
    return gs_fail(GS_E_USAGE, "%s is there already, and holds no %s: it would be lost; choose another name",
                   path, kinds[kind].what);
}

gs_status gs_file_check_target(const char *path, gs_file_kind kind) {
    gs_file_writer w;
    GS_TRY(check_name(path, kind));
    GS_TRY(gs_file_writer_open(path, &w));
    gs_file_writer_discard(&w);
    return kind == GS_FILE_ANY ? GS_OK : check_kind(path, kind);
}

gs_status gs_file_writer_commit(gs_file_writer *w) {
    if (!w->file) gs_bug("gs_file_writer_commit: no file is open");
    bool failed_before = ferror(w->file);
    if (fflush(w->file) != 0) return give_up(w, w->given, errno);
    if (failed_before) return give_up(w, w->given, error_of_lost_write(w->file));
    if (fsync(fileno(w->file)) != 0) return give_up(w, w->given, errno);
    FILE *file = w->file;
    w->file = NULL;
    if (fclose(file) != 0) return give_up(w, w->given, errno);
    if (rename(w->temporary, w->path) != 0) return give_up(w, w->given, errno);
    sync_folder_of(w->path);
    forget(w);
    return GS_OK;
}

void gs_file_writer_discard(gs_file_writer *w) {
    if (w->file) fclose(w->file);
    if (w->temporary) unlink(w->temporary);
    forget(w);
}

/* ---- folders ---- */

bool gs_file_make_folders(const char *path) {
    char part[PATH_MAX];
    /* Ignore errors on the parents: they may exist in read-only folders, so only the last mkdir decides. */
    int error = 0;
    if (snprintf(part, sizeof part, "%s", path) >= (int)sizeof part) {
        errno = ENAMETOOLONG;
        return false;
    }
    for (char *slash = strchr(part + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(part, 0755) != 0 && errno != EEXIST && !error) error = errno;
        *slash = '/';
    }
    if (mkdir(part, 0755) == 0 || errno == EEXIST) return true;
    if (errno == ENOENT && error) errno = error;
    return false;
}

static int remove_one(const char *path, const struct stat *s, int type, struct FTW *at) {
    (void)s, (void)type, (void)at;
    remove(path);
    return 0; /* continue after failures */
}

void gs_file_remove_folder(const char *path) {
    if (rmdir(path) == 0) return; /* unlike nftw, works for an empty folder without free descriptors */
    nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* ---- files that come with gradsum ---- */

enum { SEEN = 700 /* bytes for the list of paths tried, in the message */ };

/* path = FOLDER/RELATIVE. False: no such file, or the path is longer than `size`. */
static bool look(const char *folder, const char *relative, char seen[SEEN], char *path, size_t size) {
    if (snprintf(path, size, "%s/%s", folder, relative) < (int)size && access(path, F_OK) == 0) return true;
    gs_append(seen, SEEN, "%s%s/%s", *seen ? ", " : "", folder, relative);
    return false;
}

/* Look only in gradsum's own source tree, because other programs may have a folder "cl" too. */
static bool look_in_tree(const char *tree, const char *relative, char seen[SEEN], char *path, size_t size) {
    return look(tree, "src/gradsum.h", seen, path, size) && look(tree, relative, seen, path, size);
}

gs_status gs_file_of_gradsum(const char *relative, char *path, size_t size) {
    enum { LEVELS = 7 };
    char seen[SEEN] = "", folder[PATH_MAX], place[PATH_MAX + 32], *slash;
    const ssize_t length = readlink("/proc/self/exe", folder, sizeof folder - 1);
    folder[length > 0 ? length : 0] = '\0';
    for (int up = 0; up < LEVELS && (slash = strrchr(folder, '/')); up++) {
        *slash = '\0';
        /* The program is in a build folder, as build/gradsum or deeper (build/lessons/07/gradsum). A build folder
         * outside the source tree (make B=DIR) holds a link to the tree. */
        snprintf(place, sizeof place, "%s/source-tree", folder);
        if (access(place, F_OK) == 0 && look_in_tree(place, relative, seen, path, size)) return GS_OK;
        if (look_in_tree(folder, relative, seen, path, size)) return GS_OK;
        /* The program is installed: PREFIX/bin/gradsum uses PREFIX/share/gradsum, for any PREFIX. */
        snprintf(place, sizeof place, "%s/share/gradsum", folder);
        if (up == 1 && look(place, relative, seen, path, size)) return GS_OK;
    }
    /* The program is another one, which uses the installed library. */
    if (look(GS_PREFIX "/share/gradsum", relative, seen, path, size)) return GS_OK;
    return gs_fail(GS_E_FILE, "cannot find gradsum's own '%s'; looked for %s", relative, seen);
}
