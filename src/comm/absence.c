#include "comm/absence.h"
#include "comm/meet/meeting.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH = 4200, TEXT = 1200 };
#define NAME "absent-for-"
#define BY ".by-"

static atomic_bool comes; /* this process has reached a meeting */

static void path_of(const gs_rendezvous *r, int reader, char path[PATH]) {
    snprintf(path, PATH, "%s/" NAME "%d", r->directory, reader);
}

/* The finished file, or its draft: "absent-for-1.by-0". */
bool gs_absence_is_file(const gs_rendezvous *r, const char *name) {
    char own[80], *rest;
    if (strncmp(name, NAME, strlen(NAME)) != 0) return false;
    long reader = strtol(name + strlen(NAME), &rest, 10);
    long writer = strncmp(rest, BY, strlen(BY)) == 0 ? strtol(rest + strlen(BY), NULL, 10) : -1;
    snprintf(own, sizeof own, writer < 0 ? NAME "%ld" : NAME "%ld" BY "%ld", reader, writer);
    return reader >= 0 && reader < r->size && writer < r->size && strcmp(name, own) == 0;
}

/* ---- who stays away ---- */

static void leave_word(const gs_rendezvous *r, int reader, const char *text) {
    char path[PATH], draft[PATH + 16];
    path_of(r, reader, path);
    snprintf(draft, sizeof draft, "%s" BY "%d", path, r->rank);
    int f = open(draft, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (f < 0) return; /* then the others wait for the whole timeout */
    bool whole = write(f, text, strlen(text)) == (ssize_t)strlen(text);
    if (close(f) != 0 || !whole || rename(draft, path) != 0) unlink(draft);
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

/* ---- who comes ---- */

/* Read what another rank left, and return its number. *s tells the file's owner and age. -1: there is no such word. */
static int read_word(const char *path, char text[TEXT], struct stat *s) {
    int from, f = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (f < 0) return -1;
    ssize_t n = fstat(f, s) == 0 && S_ISREG(s->st_mode) ? read(f, text, TEXT - 1) : -1;
    close(f);
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

void gs_absence_take_back(const gs_rendezvous *r) {
    char path[PATH], text[TEXT];
    struct stat s;
    for (int reader = 0; reader < r->size; reader++) {
        path_of(r, reader, path);
        if (read_word(path, text, &s) == r->rank) unlink(path);
    }
}

gs_status gs_absence_look(const gs_rendezvous *r, const char *own_file) {
    char path[PATH], text[TEXT];
    struct stat own, word;
    path_of(r, r->rank, path);
    if (access(path, F_OK) != 0 || stat(own_file, &own) != 0) return GS_OK;
    const int from = read_word(path, text, &word);
    if (from < 0 || word.st_uid != own.st_uid) return GS_OK;
    unlink(path);
    if ((double)own.st_mtime - (double)word.st_mtime > r->timeout) return GS_OK;
    return from >= r->size || from == r->rank ? GS_OK : gs_absence_fail_as(r, text, true);
}
