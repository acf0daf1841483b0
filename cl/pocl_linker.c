/* The linker. PoCL 3.1 has clang link each kernel that it compiles, and clang looks for `ld` in the folders of PATH.
 * Where it finds none PoCL ends the process. */
#include "cl/platforms.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char usual[] = "/usr/local/bin:/usr/bin:/bin";

static bool has_linker(const char *path) {
    while (*path) {
        char file[4096];
        const int length = (int)strcspn(path, ":");
        snprintf(file, sizeof file, "%.*s/ld", length, path);
        if (length > 0 && access(file, R_OK | X_OK) == 0) return true;
        path += length + (path[length] == ':');
    }
    return false;
}

void gs_cl_choose_path(void) {
    const char *path = getenv("PATH");
    char *longer = NULL;
    if (!path || !*path) {
        setenv("PATH", usual, 1);
        return;
    }
    if (has_linker(path) || !has_linker(usual)) return;
    if (asprintf(&longer, "%s:%s", path, usual) < 0) return;
    setenv("PATH", longer, 1);
    free(longer);
}

gs_status gs_cl_check_linker(const gs_cl *cl) {
    const char *path = getenv("PATH");
    if (!strstr(cl->identity, "PoCL 3.") || (path && has_linker(path))) return GS_OK;
    return gs_fail(GS_E_OPENCL,
                   "PoCL needs the linker ld to compile kernels, but no folder in PATH (%.300s) has it",
                   path ? path : "not set");
}
