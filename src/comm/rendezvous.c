/* Processes meet in a folder: see rendezvous.h.
 *
 * A file says who wrote it (passport.h). So several mistakes are found and named at once, instead of being waited for:
 * a folder left over from an earlier run, two runs in one folder, ranks that were started differently, and a rank that
 * came and died.
 */
#include "comm/rendezvous.h"
#include "comm/meet/meeting.h"
#include "comm/waits.h"
#include "core/clock.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH = 4200, TEXT = 1000, FAULT = -1 /* in place of a rank: what one that fails tells */ };
static const double LOOK = 0.01, LINGER = 1; /* seconds */

/* ---- a rank that fails before the meeting ----
 *
 * It leaves word, so the ranks that wait for it fail at once, with its reason: one link for each of the others in
 * the rendezvous folder. A link holds a text, and appears whole. The rank that reads its link removes it:
 *
 *     absent-for-1   "0 3 no data at 'mnist'"      by rank 0: a gs_status, and why
 *
 * Such a link can be left over from an earlier run in which nobody read it. So a link older than the timeout is
 * ignored, and a rank that does reach the meeting removes the links it left before. gs_comm_stay_away (comm.h) leaves
 * them.
 */

#define ABSENT "absent-for"

static atomic_bool comes; /* this process has reached a meeting */

static void absence_of(const gs_rendezvous *r, int reader, char path[PATH]) {
    snprintf(path, PATH, "%s/" ABSENT "-%d", r->directory, reader);
}

/* Where none can be left, the others wait for the whole timeout. */
static void leave_word(const gs_rendezvous *r, int reader, const char *text) {
    char path[PATH];
    absence_of(r, reader, path);
    unlink(path);
    (void)!symlink(text, path);
}

void gs_comm_stay_away(const gs_rendezvous *r, gs_status status, const char *why) {
    char text[TEXT];
    if (r->size < 2 || atomic_load(&comes)) return;
    if (r->meet[0]) gs_meeting_stay_away(r, status, why);
    if (!r->directory) return;
    snprintf(text, sizeof text, "%d %d %s", r->rank, (int)status, why);
    for (int reader = 0; reader < r->size; reader++)
        if (reader != r->rank) leave_word(r, reader, text);
}

/* Read the link in which another rank left word, and return its number. *s tells the link's owner and age. -1: there is
 * no such word. */
static int read_word(const char *path, char text[TEXT], struct stat *s) {
    int from;
    const ssize_t n = lstat(path, s) == 0 ? readlink(path, text, TEXT - 1) : -1;
    text[n > 0 ? n : 0] = '\0';
    return sscanf(text, "%d", &from) == 1 ? from : -1;
}

gs_status gs_absence_fail_as(const gs_rendezvous *r, const char *text, bool absent) {
    int from = -1, status = GS_E_PEER, used = 0;
    sscanf(text, "%d %d %n", &from, &status, &used);
    const bool known = status > GS_OK && status <= GS_E_DIVERGED;
    const gs_status code = known ? (gs_status)status : GS_E_PEER;
    if (!absent) return gs_fail(code, "%s", text + used);
    return gs_fail(code, "rank %d: rank %d failed before it joined: %s", r->rank, from, text + used);
}

void gs_absence_arrived(void) {
    atomic_store(&comes, true);
}

/* Remove from the folder the word that this rank left before. */
static void take_back(const gs_rendezvous *r) {
    char path[PATH], text[TEXT];
    struct stat s;
    for (int reader = 0; reader < r->size; reader++) {
        absence_of(r, reader, path);
        if (read_word(path, text, &s) == r->rank) unlink(path);
    }
}

/* Fail as another rank did, if one has left word for this rank. `own_file`: its owner is the user whose word counts,
 * and its date is the time at which this rank arrived, by the clock of the folder's file system. */
static gs_status look_for_absence(const gs_rendezvous *r, const char *own_file) {
    char path[PATH], text[TEXT];
    struct stat own, word;
    absence_of(r, r->rank, path);
    const int from = read_word(path, text, &word);
    if (from < 0 || stat(own_file, &own) != 0 || word.st_uid != own.st_uid) return GS_OK;
    unlink(path);
    if ((double)own.st_mtime - (double)word.st_mtime > r->timeout) return GS_OK;
    return from >= r->size || from == r->rank ? GS_OK : gs_absence_fail_as(r, text, true);
}

/* ---- the files ---- */

static void file_of(const gs_rendezvous *r, int rank, char path[PATH]) {
    snprintf(path, PATH, rank == FAULT ? "%s/fault" : "%s/rank-%d", r->directory, rank);
}

int gs_rank_in(const char *name, const char *what, int size) {
    char own[80];
    const size_t length = strlen(what);
    if (strncmp(name, what, length) != 0 || name[length] != '-') return -1;
    const long rank = strtol(name + length + 1, NULL, 10);
    snprintf(own, sizeof own, "%s-%ld", what, rank);
    return rank >= 0 && rank < size && strcmp(name, own) == 0 ? (int)rank : -1;
}

/* GS_E_FILE if the folder holds anything that no rank of this run can have put there before this one arrived. */
static gs_status check_folder(const gs_rendezvous *r) {
    DIR *folder = opendir(r->directory);
    if (!folder) return gs_fail(GS_E_FILE, "rendezvous folder %s: %s", r->directory, strerror(errno));
    gs_status status = GS_OK;
    for (const struct dirent *e; status == GS_OK && (e = readdir(folder));) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
        if (gs_rank_in(e->d_name, "rank", r->size) >= 0 || gs_rank_in(e->d_name, ABSENT, r->size) >= 0)
            continue;
        status = gs_fail(GS_E_FILE,
                         "rendezvous folder %s holds '%s'; use a new folder for each run, with nothing in it "
                         "but the files of its %d ranks",
                         r->directory, e->d_name, r->size);
    }
    closedir(folder);
    return status;
}

/* Has `rank` arrived? *arrived says so, and its pid becomes 0 if it runs elsewhere. Fails if its file cannot be
 * true. */
static gs_status look_for(const gs_rendezvous *r, int rank, gs_passport *all, bool *arrived) {
    char path[PATH];
    struct stat s;
    const gs_passport *mine = &all[r->rank];
    gs_passport its = {.rank = rank};
    file_of(r, rank, path);
    GS_TRY(gs_passport_read(mine, rank, path, arrived, &its));
    if (!*arrived && stat(r->directory, &s) != 0)
        return gs_fail(GS_E_FILE, "rank %d: rendezvous folder %s is gone", r->rank, r->directory);
    if (!*arrived) return GS_OK;
    bool here = strcmp(its.place, mine->place) == 0;
    if (here && kill((pid_t)its.pid, 0) != 0 && errno == ESRCH)
        return gs_fail(GS_E_PEER,
                       "rank %d (process %ld) has already ended: it failed, or the folder %s is left from an "
                       "earlier run; use a new one for each run",
                       rank, its.pid, r->directory);
    GS_TRY(gs_passport_compare(mine, &its));
    if (!here) its.pid = 0;
    if (rank != r->rank) all[rank] = its;
    return GS_OK;
}

static gs_status never_came(const gs_rendezvous *r, const bool *missing) {
    char ranks[200] = "";
    gs_append_ranks(ranks, sizeof ranks, "rank", 0, r->size, missing);
    return gs_fail(GS_E_PEER, "rank %d waited %g s for %s of %d, which never arrived (rendezvous folder %s)",
                   r->rank, r->timeout, ranks, r->size, r->directory);
}

/* What a rank that failed has told; false: none has, and the text stays. Only this user's ranks count. */
static bool read_fault(const gs_rendezvous *r, char text[TEXT]) {
    char path[PATH], word[TEXT];
    struct stat s;
    file_of(r, FAULT, path);
    const bool there = read_word(path, word, &s) >= 0 && s.st_uid == geteuid();
    if (there) memcpy(text, word, TEXT);
    return there;
}

/* Only the first can make the link. */
gs_status gs_rendezvous_fail(const gs_rendezvous *r, gs_status status) {
    char path[PATH], text[TEXT];
    if (status == GS_OK || status == GS_E_INTERRUPTED) return status;
    file_of(r, FAULT, path);
    snprintf(text, sizeof text, "%d %d %s", r->rank, (int)status, gs_message());
    if (symlink(text, path) != 0) read_fault(r, text);
    return gs_absence_fail_as(r, text, false);
}

static gs_status wait_for_all(const gs_rendezvous *r, bool *missing, gs_passport *all) {
    double end = gs_awake_seconds() + r->timeout;
    int left = r->size;
    char own[PATH], fault[TEXT];
    file_of(r, r->rank, own);
    for (int k = 0; k < r->size; k++) missing[k] = true;
    for (;;) {
        bool late = gs_awake_seconds() >= end;
        if (r->stop && *r->stop)
            return gs_fail(GS_E_INTERRUPTED,
                           "rank %d: stopped by a signal while it waited for the other ranks", r->rank);
        for (int k = 0; k < r->size; k++) {
            bool arrived = false;
            if (missing[k]) GS_TRY(look_for(r, k, all, &arrived));
            left -= arrived;
            missing[k] = missing[k] && !arrived;
        }
        if (left == 0) return GS_OK;
        if (read_fault(r, fault)) GS_TRY(gs_absence_fail_as(r, fault, false));
        GS_TRY(look_for_absence(r, own));
        if (late) return never_came(r, missing);
        gs_nap(LOOK); /* polling works on network folders too */
    }
}

gs_status gs_rendezvous_check(const gs_rendezvous *r, bool folder) {
    if (r->size < 1 || r->rank < 0 || r->rank >= r->size)
        return gs_fail(GS_E_USAGE, "rank %d of %d process%s: ranks are 0 to %d", r->rank, r->size,
                       gs_es(r->size), r->size - 1);
    if (!(r->timeout > 0))
        return gs_fail(GS_E_USAGE, "the timeout is %g s; it must be more than 0", r->timeout);
    if (folder && (!r->directory || strlen(r->directory) > 4096 - 32))
        return gs_fail(GS_E_USAGE, "%s",
                       r->directory ? "the rendezvous folder's name is too long"
                                    : "no folder was given for the processes to meet in");
    return GS_OK;
}

gs_status gs_rendezvous_meet(const gs_rendezvous *r, gs_passport *all) {
    char path[PATH];
    take_back(r);
    GS_TRY(check_folder(r));
    file_of(r, r->rank, path);
    GS_TRY(gs_passport_write(&all[r->rank], path));
    bool *missing = calloc((size_t)r->size, sizeof *missing);
    gs_status status =
        missing ? wait_for_all(r, missing, all) : gs_fail(GS_E_MEMORY, "no memory for %d ranks", r->size);
    free(missing);
    if (status != GS_OK) {
        /* leave the others time, on busy machines too, to find that this rank cannot be of their run */
        if (status != GS_E_INTERRUPTED) gs_nap(LINGER);
        gs_rendezvous_leave(r);
    }
    return status;
}

void gs_rendezvous_leave(const gs_rendezvous *r) {
    char path[PATH];
    file_of(r, r->rank, path);
    unlink(path);
    for (int k = 0; k < r->size; k++) {
        file_of(r, k, path);
        if (access(path, F_OK) == 0) return; /* the last one tidies up */
    }
    file_of(r, FAULT, path);
    unlink(path);
    rmdir(r->directory);
}
