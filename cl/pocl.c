/* What PoCL needs: a folder for compiled kernels; and separate kernels for each device.
 *
 * PoCL writes compiled kernels to a folder. Without one it lists no devices, and on a full disk its compiler ends the
 * process. So the folder is tested beforehand. If the test fails, PoCL gets a temporary folder, which is removed when
 * the program ends. A killed program leaves the folder behind, with at most 3 MB. */
#include "cl/cl.h"
#include "io/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    PATH = 4096,
    NEEDED = 8 << 20 /* bytes: all kernels of all models take less than 3 MB */
};

static char problem[2 * PATH]; /* why PoCL has no folder; "" if it has one */
static char temporary[PATH];
static pid_t owner; /* a process forked from this one must not remove the folder */

/* Try to write: permission bits do not reveal full disks, quotas or read-only file systems. Sets errno on failure. */
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

/* PoCL's default folder; "" if the environment asks for a temporary one. */
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

static void remove_temporary(void) {
    if (getpid() == owner) gs_file_remove_folder(temporary);
}

static gs_status use_temporary(void) {
    const char *tmp = getenv("TMPDIR"), *above = tmp && *tmp ? tmp : "/tmp";
    snprintf(temporary, sizeof temporary, "%s/gradsum-pocl-XXXXXX", above);
    if (!mkdtemp(temporary)) return gs_fail(GS_E_FILE, "%s: %s", temporary, strerror(errno));
    owner = getpid();
    if (can_hold(temporary) && setenv("POCL_CACHE_DIR", temporary, 1) == 0 && atexit(remove_temporary) == 0)
        return GS_OK;
    const int error = errno;
    remove_temporary();
    return gs_fail(GS_E_FILE, "%s: %s", temporary, strerror(error));
}

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

/* ---- copies ----
 *
 * Gives each of several PoCL 5 devices that are open at once its own kernels.
 *
 * PoCL 5.0 looks up a loaded kernel by its hash, its local size and the width of the global size, and counts references
 * to it. But when a command ends, it looks up the kernel by hash and local size alone. If two devices run a kernel at
 * the same time over different global sizes, one entry's count is decremented twice, and PoCL ends the process:
 * "Assertion 'found->ref_count > 0' failed" in pocl_release_dlhandle_cache. The hash covers the compiler options, so
 * these include a number unique to each open device. The cost: each further device compiles once more. */

static uint64_t numbers; /* bit n set: an open device has number n; protected by gs_cl_lock */

int gs_cl_take_number(void) {
    const int n =
        __builtin_ctzll(~numbers | (uint64_t)1 << (GS_CL_NUMBERS - 1)); /* the last is always available */
    numbers |= (uint64_t)1 << n;
    return n;
}

void gs_cl_give_number_back(int n) {
    numbers &= ~((uint64_t)1 << n);
}

void gs_cl_copy_option(const char *identity, int number, char *option, size_t size) {
    option[0] = '\0';
    if (number > 0 && strstr(identity, "PoCL 5.")) snprintf(option, size, " -D GS_COPY=%d", number);
}
