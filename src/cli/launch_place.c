/* What the processes of a launch find around them: a folder to meet in, a cache for OpenCL's compiler, and an
 * environment that says who they are. */
#include "cli/launch.h"
#include "comm/comm.h"
#include "io/file.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATH = 4096 };

/* Processes that share PoCL's cache of compiled kernels damage each other's files (pocl issue 1480), so each
 * rank has a cache of its own, which stays for the next time. "": no place for it, so the rank makes itself a temporary
 * one (gs_cl_choose_cache). NULL: no memory. */
static char *cache_of(const gs_launch_place *place, const gs_launch *launch, int rank) {
    const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    char *path = NULL;
    int length = 0;
    if (place->cache && launch->size == 1) return strdup(place->cache);
    if (place->cache)
        length = asprintf(&path, "%s/rank-%d", place->cache, rank);
    else if (xdg && *xdg)
        length = asprintf(&path, "%s/gradsum/pocl-rank-%d", xdg, rank);
    else if (home && *home)
        length = asprintf(&path, "%s/.cache/gradsum/pocl-rank-%d", home, rank);
    if (length < 0) return NULL;
    if (path && gs_file_make_folders(path) && access(path, W_OK | X_OK) == 0) return path;
    free(path);
    return strdup("");
}

void gs_launch_cache_under_mpirun(void) {
    gs_rendezvous r;
    char *cache = getenv("POCL_CACHE_DIR");
    if (gs_rendezvous_from_environment(&r) != GS_OK || r.size == 1 || r.directory) return;
    gs_launch_place place = {.cache = cache && *cache ? cache : NULL};
    cache = cache_of(&place, &(gs_launch){.size = r.size}, r.rank);
    if (cache) setenv("POCL_CACHE_DIR", cache, 1);
    free(cache);
}

const char *gs_launch_option(const gs_launch *launch, const char *name) {
    const char *value = NULL;
    size_t length = strlen(name);
    for (char **word = launch->command; word && *word; word++) {
        if (strcmp(*word, name) == 0 && word[1]) value = word[1];
        if (strncmp(*word, name, length) == 0 && (*word)[length] == '=') value = *word + length + 1;
    }
    return value; /* the last one counts */
}

/* A value that is no time is not reported here: the ranks say what is wrong with it. */
double gs_launch_timeout(const gs_launch *launch) {
    const char *own = gs_launch_option(launch, "--timeout"), *environment = getenv("GRADSUM_TIMEOUT");
    const double values[] = {own ? strtod(own, NULL) : 0, launch->timeout,
                             environment ? strtod(environment, NULL) : 0};
    for (int i = 0; i < 3; i++)
        if (values[i] > 0 && isfinite(values[i])) return values[i];
    return GS_TIMEOUT;
}

gs_status gs_launch_place_create(gs_launch_place *place) {
    const char *tmp = getenv("TMPDIR"), *cache = getenv("POCL_CACHE_DIR");
    if (!tmp || !*tmp) tmp = "/tmp";
    *place = (gs_launch_place){.cache = cache && *cache ? strdup(cache) : NULL};
    bool fits =
        snprintf(place->folder, sizeof place->folder, "%s/gradsum-XXXXXX", tmp) < (int)sizeof place->folder;
    if (!fits) errno = ENAMETOOLONG;
    if (!fits || !mkdtemp(place->folder)) {
        place->folder[0] = '\0'; /* there is nothing to remove */
        return gs_fail(GS_E_FILE, "cannot make a folder in %.200s (TMPDIR says where): %s", tmp,
                       strerror(errno));
    }
    return GS_OK;
}

gs_status gs_launch_place_for(const gs_launch_place *place, const gs_launch *launch, int rank) {
    char number[16], size[16], timeout[32];
    char *cache = cache_of(place, launch, rank);
    if (!cache) return gs_fail(GS_E_MEMORY, "no memory for the environment of rank %d", rank);
    snprintf(number, sizeof number, "%d", rank);
    snprintf(size, sizeof size, "%d", launch->size);
    snprintf(timeout, sizeof timeout, "%.9g", launch->timeout);
    bool set = setenv("GRADSUM_RANK", number, 1) == 0 && setenv("GRADSUM_WORLD_SIZE", size, 1) == 0 &&
               setenv("GRADSUM_RENDEZVOUS", place->folder, 1) == 0 &&
               setenv("POCL_CACHE_DIR", cache, 1) == 0 &&
               setenv("OPENBLAS_NUM_THREADS", "1", 1) == 0 && /* its threads are never used: cpu/pool.h */
               (!(launch->timeout > 0) || setenv("GRADSUM_TIMEOUT", timeout, 1) == 0) &&
               setenv("GRADSUM_TRANSPORT", launch->transport, 1) == 0;
    free(cache);
    return set ? GS_OK : gs_fail(GS_E_MEMORY, "no memory for the environment of rank %d", rank);
}

void gs_launch_place_remove(gs_launch_place *place) {
    if (place->folder[0]) gs_file_remove_folder(place->folder);
    free(place->cache);
}
