/* Processes meet in a folder: see rendezvous.h.
 *
 * A file says who wrote it: "rank 1 of 4, process 4711 on node7 pid:[4026531836]". So a folder that is left
 * from an earlier run, two runs in one folder, and a rank that came and died are all found at once and named,
 * instead of being waited for.
 */
#include "sync/rendezvous.h"
#include "sync/rank_list.h"
#include "core/clock.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { MAX_PROCESSES = 4096, PATH = 4096, LINE = 512 };

/* ---- from the environment, as `gradsum launch` or `mpirun` sets it ---- */

static gs_status whole_number(const char *name, const char *text, int least, int most, int *out) {
    char *rest;
    errno = 0;
    long value = strtol(text, &rest, 10);
    if (rest == text || *rest != '\0' || errno != 0 || value < least || value > most)
        return gs_fail(GS_E_USAGE, "%s is '%s'; it must be a whole number from %d to %d", name, text, least,
                       most);
    *out = (int)value;
    return GS_OK;
}

/* As `mpirun` sets it. */
static gs_status from_mpirun(gs_rendezvous *r) {
    const char *rank = getenv("OMPI_COMM_WORLD_RANK"), *size = getenv("OMPI_COMM_WORLD_SIZE");
    const char *transport = getenv("GRADSUM_TRANSPORT");
    if (!rank || !size) return GS_OK;
    GS_TRY(whole_number("OMPI_COMM_WORLD_SIZE", size, 1, MAX_PROCESSES, &r->size));
    GS_TRY(whole_number("OMPI_COMM_WORLD_RANK", rank, 0, r->size - 1, &r->rank));
    if (r->size > 1 && transport && strcmp(transport, "mpi") != 0 && strcmp(transport, "auto") != 0)
        return gs_fail(
            GS_E_USAGE,
            "mpirun started this process, and GRADSUM_TRANSPORT is '%s'; for processes of mpirun it is "
            "mpi, for others use gradsum launch",
            transport);
    r->transport = "mpi";
    return GS_OK;
}

gs_status gs_rendezvous_from_environment(gs_rendezvous *r) {
    const char *rank = getenv("GRADSUM_RANK"), *size = getenv("GRADSUM_WORLD_SIZE");
    const char *directory = getenv("GRADSUM_RENDEZVOUS"), *timeout = getenv("GRADSUM_TIMEOUT");
    *r = (gs_rendezvous){.rank = 0, .size = 1, .timeout = GS_TIMEOUT};
    if (timeout) {
        char *rest;
        r->timeout = strtod(timeout, &rest);
        if (rest == timeout || *rest != '\0' || !(r->timeout > 0) || !isfinite(r->timeout))
            return gs_fail(GS_E_USAGE, "GRADSUM_TIMEOUT is '%s'; it must be a number of seconds, more than 0",
                           timeout);
    }
    if (!rank && !size && !directory) return from_mpirun(r);
    if (!rank || !size || !directory)
        return gs_fail(GS_E_USAGE,
                       "%s is not set, but %s is; set all of GRADSUM_RANK, GRADSUM_WORLD_SIZE and "
                       "GRADSUM_RENDEZVOUS, or none",
                       !rank   ? "GRADSUM_RANK"
                       : !size ? "GRADSUM_WORLD_SIZE"
                               : "GRADSUM_RENDEZVOUS",
                       rank   ? "GRADSUM_RANK"
                       : size ? "GRADSUM_WORLD_SIZE"
                              : "GRADSUM_RENDEZVOUS");
    if (*directory == '\0') return gs_fail(GS_E_USAGE, "GRADSUM_RENDEZVOUS is empty; it must name a folder");
    GS_TRY(whole_number("GRADSUM_WORLD_SIZE", size, 1, MAX_PROCESSES, &r->size));
    GS_TRY(whole_number("GRADSUM_RANK", rank, 0, r->size - 1, &r->rank));
    r->directory = directory;
    r->address = getenv("GRADSUM_ADDRESS");
    r->transport = getenv("GRADSUM_TRANSPORT");
    return GS_OK;
}

/* ---- the files ---- */

static void file_of(const gs_rendezvous *r, int rank, char path[PATH]) {
    snprintf(path, PATH, "%s/rank-%d", r->directory, rank);
}

void gs_rendezvous_place(char *text, size_t size) {
    char host[256] = "", space[64] = "";
    if (gethostname(host, sizeof host - 1) != 0) host[0] = '\0';
    ssize_t n = readlink("/proc/self/ns/pid", space, sizeof space - 1);
    if (n < 0) n = 0;
    space[n] = '\0';
    snprintf(text, size, "%s %s", host, space);
}

/* GS_E_FILE if there is anything in the folder that no rank of this run can have put there before this one
 * came. */
static gs_status check_folder(const gs_rendezvous *r) {
    DIR *folder = opendir(r->directory);
    if (!folder) return gs_fail(GS_E_FILE, "rendezvous folder %s: %s", r->directory, strerror(errno));
    gs_status status = GS_OK;
    for (const struct dirent *e; status == GS_OK && (e = readdir(folder));) {
        int rank, used = 0;
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
        if (sscanf(e->d_name, "rank-%d%n", &rank, &used) == 1 && e->d_name[used] == '\0' && rank >= 0 &&
            rank < r->size)
            continue;
        status = gs_fail(
            GS_E_FILE,
            "rendezvous folder %s holds '%s'; the folder must be new for each run, with nothing in it but "
            "the files of its %d ranks",
            r->directory, e->d_name, r->size);
    }
    closedir(folder);
    return status;
}

static gs_status write_own(const gs_rendezvous *r) {
    char path[PATH], place[LINE / 2], line[LINE];
    file_of(r, r->rank, path);
    gs_rendezvous_place(place, sizeof place);
    int length = snprintf(line, sizeof line, "rank %d of %d, process %ld on %s\n", r->rank, r->size,
                          (long)getpid(), place);
    int f = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (f < 0 && errno == EEXIST)
        return gs_fail(
            GS_E_FILE,
            "%s is there already: either rank %d was started twice, or the folder is left from an earlier "
            "run; it must be new for each run",
            path, r->rank);
    if (f < 0) return gs_fail(GS_E_FILE, "cannot make %s: %s", path, strerror(errno));
    bool whole = write(f, line, (size_t)length) == length;
    if (close(f) != 0 || !whole) {
        gs_status status = gs_fail(GS_E_FILE, "cannot write %s: %s", path, strerror(errno));
        unlink(path);
        return status;
    }
    return GS_OK;
}

/* Has `rank` come? *come says, and *its_pid is 0 if it runs elsewhere; a failure if what its file says cannot be. */
static gs_status look_for(const gs_rendezvous *r, int rank, const char *my_place, bool *come, long *its_pid) {
    char path[PATH], line[LINE] = "";
    *come = false;
    file_of(r, rank, path);
    FILE *f = fopen(path, "re");
    if (!f && errno == ENOENT) {
        struct stat s;
        if (stat(r->directory, &s) != 0)
            return gs_fail(GS_E_FILE, "rank %d: rendezvous folder %s has gone", r->rank, r->directory);
        return GS_OK;
    }
    if (!f) return gs_fail(GS_E_FILE, "cannot read %s: %s", path, strerror(errno));
    bool read = fgets(line, sizeof line, f) != NULL;
    fclose(f);
    if (!read || !strchr(line, '\n')) return GS_OK; /* its writer has not finished */
    line[strcspn(line, "\n")] = '\0';

    int its_rank, its_size, used = 0;
    long pid;
    if (sscanf(line, "rank %d of %d, process %ld on %n", &its_rank, &its_size, &pid, &used) != 3 ||
        used == 0 || its_rank != rank)
        return gs_fail(GS_E_FILE, "%s holds '%.80s'; it is not the file of a rank", path, line);
    if (its_size != r->size)
        return gs_fail(GS_E_PEER, "rank %d is one of %d process%s, but rank %d is one of %d", r->rank,
                       r->size, gs_es(r->size), rank, its_size);
    if (strcmp(line + used, my_place) == 0 && kill((pid_t)pid, 0) != 0 && errno == ESRCH)
        return gs_fail(
            GS_E_PEER,
            "rank %d (process %ld) has ended already: it failed, or the folder %s is left from an earlier "
            "run; it must be new for each run",
            rank, pid, r->directory);
    *its_pid = strcmp(line + used, my_place) == 0 ? pid : 0;
    *come = true;
    return GS_OK;
}

static gs_status never_came(const gs_rendezvous *r, const bool *missing) {
    char ranks[200] = "";
    gs_append_ranks(ranks, sizeof ranks, "rank", 0, r->size, missing);
    return gs_fail(GS_E_PEER, "rank %d waited %g s for %s of %d, which never came (rendezvous folder %s)",
                   r->rank, r->timeout, ranks, r->size, r->directory);
}

static gs_status wait_for_all(const gs_rendezvous *r, bool *missing, long *pid) {
    char place[LINE / 2];
    gs_rendezvous_place(place, sizeof place);
    double end = gs_seconds() + r->timeout;
    int left = r->size;
    for (int k = 0; k < r->size; k++) missing[k] = true;
    for (;;) {
        bool late = gs_seconds() >= end;
        for (int k = 0; k < r->size; k++) {
            bool come = false;
            if (missing[k]) GS_TRY(look_for(r, k, place, &come, &pid[k]));
            left -= come;
            missing[k] = missing[k] && !come;
        }
        if (left == 0) return GS_OK;
        if (late) return never_came(r, missing);
        nanosleep(&(struct timespec){.tv_nsec = 10 * 1000 * 1000},
                  NULL); /* polling works on network folders too */
    }
}

gs_status gs_rendezvous_meet(const gs_rendezvous *r, long *pid) {
    if (r->size < 1 || r->rank < 0 || r->rank >= r->size)
        return gs_fail(GS_E_USAGE, "rank %d of %d process%s: ranks are 0 to %d", r->rank, r->size,
                       gs_es(r->size), r->size - 1);
    if (!(r->timeout > 0))
        return gs_fail(GS_E_USAGE, "the timeout is %g s; it must be more than 0", r->timeout);
    if (!r->directory || strlen(r->directory) > PATH - 32)
        return gs_fail(GS_E_USAGE, "%s",
                       r->directory ? "the rendezvous folder's name is too long"
                                    : "no folder is given in which the processes can meet");
    GS_TRY(check_folder(r));
    GS_TRY(write_own(r));
    bool *missing = calloc((size_t)r->size, sizeof *missing);
    gs_status status =
        missing ? wait_for_all(r, missing, pid) : gs_fail(GS_E_MEMORY, "no memory for %d ranks", r->size);
    free(missing);
    if (status != GS_OK) gs_rendezvous_leave(r);
    return status;
}

void gs_rendezvous_leave(const gs_rendezvous *r) {
    char path[PATH];
    file_of(r, r->rank, path);
    unlink(path);
    rmdir(r->directory); /* fails as long as others have files in it; the last one's does not */
}
