#include "comm/descriptors.h"

#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

gs_status gs_fail_descriptor(int error, const char *what, ...) {
    char text[300];
    va_list rest;
    struct rlimit limit;
    va_start(rest, what);
    vsnprintf(text, sizeof text, what, rest);
    va_end(rest);
    if (error == EMFILE && getrlimit(RLIMIT_NOFILE, &limit) == 0)
        return gs_fail(GS_E_FILE, "%s: too many open files: RLIMIT_NOFILE is %llu (ulimit -n)", text,
                       (unsigned long long)limit.rlim_cur);
    return gs_fail(GS_E_FILE, "%s: %s", text, strerror(error));
}

int gs_find_descriptor(bool (*is)(int, const void *), const void *like) {
    DIR *files = opendir("/proc/self/fd");
    int found = -1;
    for (const struct dirent *e; files && found < 0 && (e = readdir(files));)
        if (e->d_name[0] != '.' && is(atoi(e->d_name), like)) found = atoi(e->d_name);
    if (files) closedir(files);
    return found;
}
