/* A place for PoCL's compiled kernels. PoCL writes them to a folder while it compiles: without one it shows no device,
 * and where the disk is full its compiler ends the process. So the folder is tried beforehand. If it does not serve,
 * PoCL gets a temporary one.
 *
 * A second process removes the temporary folder. It waits at the end of a pipe until this process has gone, so the
 * folder goes too when this process is killed.
 */
#include "backend.h"
#include "cl/platforms.h"
#include "io/file.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PATH = 4096, NEEDED = 8 << 20 /* bytes: all kernels of all models take less than 3 MB */ };

static char problem[2 * PATH]; /* why PoCL has no folder; "" if it has one */
static pid_t remover;
static int pipe_end = -1;

/* ---- is it a place to write to? ---- */

/* Writing is tried, because permission bits do not tell of full disks, quotas and read-only file systems. If not,
 * errno. */
static bool can_hold(const char *folder) {
    char path[PATH + 32];
    if (!gs_file_make_folders(folder)) return false;
    snprintf(path, sizeof path, "%s/.gradsum-XXXXXX", folder);
    int file = mkstemp(path);
    if (file < 0) return false;
    unlink(path);
    int error = fallocate(file, 0, 0, NEEDED) == 0 || errno == EOPNOTSUPP ? 0 : errno;
    close(file);
    errno = error;
    return error == 0;
}

/* PoCL's own choice; "" where the environment asks for a temporary folder. */
static void default_folder(char *path, size_t size) {
    const char *cache = getenv("POCL_CACHE_DIR"), *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (cache)
        snprintf(path, size, "%s", cache);
    else if (xdg && *xdg)
        snprintf(path, size, "%s/pocl/kcache", xdg);
    else if (home)
        snprintf(path, size, "%s/.cache/pocl/kcache", home);
    else
        snprintf(path, size, "/tmp/pocl/kcache");
}

/* ---- a temporary one ---- */

/* It holds nothing open but its end of the pipe: whoever reads the program's output sees its end. */
static void remove_when_closed(const char *folder, int pipe) {
    char byte;
    setsid();
    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    if (dup2(pipe, 0) != 0) _exit(1);
    close_range(1, ~0u, 0);
    while (read(0, &byte, 1) < 0 && errno == EINTR) continue;
    gs_file_remove_folder(folder);
    _exit(0);
}

static void end_remover(void) {
    close(pipe_end);
    waitpid(remover, NULL, 0);
}

static gs_status remove_at_the_end(const char *folder) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return gs_fail(GS_E_FILE, "no pipe: %s", strerror(errno));
    remover = fork();
    if (remover == 0) {
        close(ends[1]);
        remove_when_closed(folder, ends[0]);
    }
    close(ends[0]);
    pipe_end = ends[1];
    if (remover > 0 && atexit(end_remover) == 0) return GS_OK;
    return gs_fail(GS_E_MEMORY, "cannot start a process to remove %s at the end", folder);
}

static gs_status use_temporary(void) {
    const char *tmp = getenv("TMPDIR");
    char folder[PATH];
    snprintf(folder, sizeof folder, "%s/gradsum-pocl-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (!mkdtemp(folder)) return gs_fail(GS_E_FILE, "%s: %s", folder, strerror(errno));
    if (!can_hold(folder)) {
        int error = errno;
        gs_file_remove_folder(folder);
        return gs_fail(GS_E_FILE, "%s: %s", folder, strerror(error));
    }
    gs_status status = remove_at_the_end(folder);
    if (status == GS_OK && setenv("POCL_CACHE_DIR", folder, 1) != 0)
        status = gs_fail(GS_E_MEMORY, "no memory for the environment");
    if (status != GS_OK) gs_file_remove_folder(folder);
    return status;
}

/* ---- for others ---- */

void gs_cl_choose_cache(void) {
    char folder[PATH], why[PATH + 64];
    default_folder(folder, sizeof folder);
    if (*folder && can_hold(folder)) return;
    snprintf(why, sizeof why, "%s%s%s", folder, *folder ? ": " : "", *folder ? strerror(errno) : "");
    if (use_temporary() == GS_OK) return;
    snprintf(problem, sizeof problem, "%.1500s%s%.1500s", why, *why ? "; " : "", gs_message());
}

gs_status gs_cl_check_cache(cl_platform_id platform) {
    char name[200];
    if (!*problem) return GS_OK;
    gs_cl_platform_text(platform, CL_PLATFORM_NAME, name, sizeof name);
    if (!strstr(name, "Portable Computing Language")) return GS_OK;
    return gs_fail(
        GS_E_FILE,
        "PoCL needs a folder for compiled kernels with %d MB free (POCL_CACHE_DIR or TMPDIR name one): %s",
        NEEDED >> 20, problem);
}
