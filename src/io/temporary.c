#include "io/temporary.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>
#include <zlib.h>

/* "-1a2b3c4d.tmp": this host. */
static void ending(char text[16]) {
    struct utsname host;
    if (uname(&host) != 0) host.nodename[0] = '\0';
    unsigned long sum = crc32_z(0, (const unsigned char *)host.nodename, strlen(host.nodename));
    snprintf(text, 16, "-%08lx.tmp", sum & 0xffffffff);
}

/* Lock it, unless another does; false: it is locked. Where the file system knows no locks, nobody has one. */
static bool lock(int fd) {
    return flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
}

int gs_temporary_open(const char *path, mode_t mode, char *name, size_t size) {
    char end[16];
    ending(end);
    for (int try = 0; try < 1000; try++) {
        struct stat s;
        snprintf(name, size, "%s.%ld-%d%s", path, (long)getpid(), try, end);
        int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
        if (fd < 0 && errno != EEXIST) return -1;
        if (fd < 0) continue;
        /* between the two calls another process may have taken it for one that was left behind */
        if (lock(fd) && fstat(fd, &s) == 0 && s.st_nlink > 0) return fd;
        close(fd);
    }
    errno = EEXIST;
    return -1;
}

/* The rest of a name behind its digits, at least one; NULL: there is none. */
static const char *behind_digits(const char *text) {
    if (!text || !isdigit((unsigned char)*text)) return NULL;
    return text + strspn(text, "0123456789");
}

/* Is it .PID-N-HOST.tmp, and made here? */
static bool is_ending(const char *text, const char *end) {
    const char *rest = *text == '.' ? behind_digits(text + 1) : NULL;
    if (rest) rest = *rest == '-' ? behind_digits(rest + 1) : NULL;
    return rest && strcmp(rest, end) == 0;
}

/* Is it FILE.PID-N-HOST.tmp, and made here? FILE NULL: any. */
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

void gs_temporary_clean(const char *path) {
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/'), *file = slash ? slash + 1 : path;
    int length = slash ? (int)(slash - path) + 1 : 0;
    if (snprintf(folder, sizeof folder, "%.*s.", length, path) >= (int)sizeof folder || !*file) return;
    clean(folder, file);
}

void gs_temporary_clean_folder(const char *folder) {
    clean(folder, NULL);
}
