/* The environment of a launch's processes: a folder or store to meet in, a cache for OpenCL's compiler, and the
 * variables that tell each process its rank. */
#include "cli/cli.h"
#include "cli/launch/launch.h"
#include "comm/rendezvous/route.h"
#include "comm/rendezvous/secret.h"
#include "comm/rendezvous/store_server.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static const double LINGER = 1; /* seconds for other nodes to learn why this one failed */

/* Processes that share PoCL's cache of compiled kernels damage each other's files (pocl issue 1480). Therefore each of
 * `size` ranks has its own cache next to the user's; it is kept for the next run. Returns "" if there is no folder for
 * it; the rank then makes a temporary one (gs_cl_choose_cache). */
static const char *cache_of(int rank, int size, char path[PATH_MAX]) {
    const char *const places[][2] = {{getenv("POCL_CACHE_DIR"), "/"},
                                     {getenv("XDG_CACHE_HOME"), "/gradsum/pocl-"},
                                     {getenv("HOME"), "/.cache/gradsum/pocl-"}};
    int i = 0;
    while (i < 3 && !(places[i][0] && *places[i][0])) i++;
    if (i == 0 && size == 1) return places[0][0];
    if (i == 3 || snprintf(path, PATH_MAX, "%s%srank-%d", places[i][0], places[i][1], rank) >= PATH_MAX)
        return "";
    return gs_file_make_folders(path) && access(path, W_OK | X_OK) == 0 ? path : "";
}

void gs_launch_cache_under_mpirun(void) {
    gs_rendezvous r;
    if (gs_rendezvous_from_environment(&r) == GS_OK && r.size > 1 && r.engine)
        setenv("POCL_CACHE_DIR", cache_of(r.rank, r.size, (char[PATH_MAX]){0}), 1);
}

const char *gs_launch_option(const gs_launch *launch, const char *name) {
    const char *value = NULL;
    size_t length = strlen(name);
    for (char **word = launch->command; word && *word; word++) {
        if (strcmp(*word, name) == 0 && word[1]) value = word[1];
        if (strncmp(*word, name, length) == 0 && (*word)[length] == '=') value = *word + length + 1;
    }
    return value; /* an option's last value counts */
}

/* Invalid values are skipped: the ranks report them. */
double gs_launch_timeout(const gs_launch *launch) {
    const char *own = gs_launch_option(launch, "--timeout"), *environment = getenv("GRADSUM_TIMEOUT");
    const double values[] = {own ? strtod(own, NULL) : 0, launch->timeout,
                             environment ? strtod(environment, NULL) : 0};
    for (int i = 0; i < 3; i++)
        if (values[i] > 0 && isfinite(values[i])) return values[i];
    return GS_TIMEOUT;
}

/* A folder named by the user and visible to all launchers; the first launcher makes it. */
static gs_status use_folder(const char *folder, gs_launch_rendezvous *r) {
    if (snprintf(r->where, sizeof r->where, "%s", folder) >= (int)sizeof r->where)
        return gs_fail(GS_E_USAGE, "--meet: the name of the folder is too long");
    if (mkdir(r->where, 0700) != 0 && errno != EEXIST)
        return gs_fail(GS_E_FILE, "--meet: cannot make the folder %s: %s", r->where, strerror(errno));
    return GS_OK;
}

/* With only one node the store must not be reachable from other machines. */
static gs_status check_reach(const gs_launch *l, const gs_endpoint *m) {
    const bool here = gs_route_is_local(m->host) || strcmp(m->host, "localhost") == 0;
    if (l->nodes == 1 && !here)
        return gs_fail(
            GS_E_USAGE,
            "--meet %s can be reached from other machines, but there is one node: add --nodes N, or use "
            "--meet tcp://127.0.0.1:%d",
            l->meet, m->port);
    if (l->nodes > 1 && m->port == 0)
        return gs_fail(GS_E_USAGE, "--meet needs a port that all %d nodes know: tcp://HOST:PORT", l->nodes);
    return GS_OK;
}

static gs_status use_store(const gs_launch *l, gs_endpoint *m, gs_launch_rendezvous *r) {
    unsigned char key[GS_SECRET];
    GS_TRY(check_reach(l, m));
    if (l->secret_file && setenv("GRADSUM_SECRET_FILE", l->secret_file, 1) != 0)
        return gs_fail(GS_E_MEMORY, "no memory for the environment");
    GS_TRY(gs_run_key("", key));
    if (l->node == 0) {
        GS_TRY(gs_store_server_create(m, 1, key, &r->server));
        m->port = gs_store_server_port(r->server);
        gs_tell("launch", "the ranks meet at %s", gs_store_server_where(r->server));
    }
    snprintf(r->where, sizeof r->where, strchr(m->host, ':') ? "tcp://[%s]:%d" : "tcp://%s:%d", m->host,
             m->port);
    return GS_OK;
}

gs_status gs_launch_rendezvous_create(const gs_launch *l, gs_launch_rendezvous *r) {
    gs_endpoint m;
    *r = (gs_launch_rendezvous){.own_folder = !l->meet};
    if (!l->meet) return gs_temporary_folder("gradsum-XXXXXX", r->where, sizeof r->where);
    GS_TRY(gs_endpoint_read(l->meet, &m));
    return m.folder ? use_folder(m.folder, r) : use_store(l, &m, r);
}

static void end_store(gs_store_server *server, int members) {
    const long strangers = gs_store_server_strangers(server);
    if (strangers > 0)
        gs_tell("launch", "%ld connection%s turned away for not proving knowledge of the run's secret",
                strangers, strangers == 1 ? " was" : "s were");
    if (members > 0) gs_store_server_linger(server, members, LINGER);
    gs_store_server_free(server);
}

void gs_launch_rendezvous_remove(gs_launch_rendezvous *r, const gs_launch *l, bool met, bool awaited) {
    if (r->server) end_store(r->server, awaited ? l->world_size : 0);
    if (!*r->where || !gs_endpoint_is_folder(r->where)) return;
    if (r->own_folder)
        gs_file_remove_folder(r->where);
    else if (!met)
        gs_store_leave_folder(r->where, l->world_size, l->first, l->size);
}

bool gs_launch_set_number(const char *name, int value) {
    char text[16];
    snprintf(text, sizeof text, "%d", value);
    return setenv(name, text, 1) == 0;
}

gs_status gs_launch_set_environment(const gs_launch_rendezvous *r, const gs_launch *launch, int rank) {
    char timeout[32];
    snprintf(timeout, sizeof timeout, "%.9g", launch->timeout);
    bool set = gs_launch_set_number("GRADSUM_NODES", launch->nodes) &&
               gs_launch_set_number("GRADSUM_LOCAL_RANK", rank) &&
               setenv("GRADSUM_RENDEZVOUS", r->where, 1) == 0 && setenv("GRADSUM_STORE", "launch", 1) == 0 &&
               (!launch->interface || setenv("GRADSUM_INTERFACE", launch->interface, 1) == 0) &&
               setenv("POCL_CACHE_DIR", cache_of(rank, launch->size, (char[PATH_MAX]){0}), 1) == 0 &&
               setenv("OPENBLAS_NUM_THREADS", "1", 1) == 0 && /* its threads are never used: cpu/pool.h */
               (!(launch->timeout > 0) || setenv("GRADSUM_TIMEOUT", timeout, 1) == 0) &&
               setenv("GRADSUM_TRANSPORT", launch->transport, 1) == 0;
    return set ? GS_OK : gs_fail(GS_E_MEMORY, "no memory for the environment of rank %d", rank);
}
