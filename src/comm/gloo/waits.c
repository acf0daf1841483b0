/* Before a rank gives up, it tells for whom it waits, and to whom nothing gets through. It does so in a file
 * in the folder where the ranks met, which it creates again. A file reaches the others even where the connection to
 * them is cut.
 *
 *     waits-0   "1 / "      rank 0 waits for rank 1
 *     waits-1   "2 / "      rank 1 waits for rank 2, which has left no file: rank 2 is to blame
 *     waits-1   "2 / 0 "    but so nobody is: rank 0 has not received what rank 1 sent
 *
 * The folder is trusted only if it belongs to this user. Without a folder a rank names those that it waits for itself.
 * But one that cannot see why they are late first gives the others a moment to fail: they may know, and tell it.
 */
#include "core/clock.h"
#include "comm/gloo/state.h"
#include "comm/process.h"
#include "comm/waits.h"
#include "core/text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH = 4200, TEXT = 2 * 6 * 4096 /* twice a number and a blank for each rank */ };

/* Seconds to wait for the files of the others, which give up at about the same time. */
static double grace(double timeout) {
    return timeout / 2 < 0.2 ? 0.2 : timeout / 2 > 2 ? 2 : timeout / 2;
}

static void path_of(const gs_gloo_state *s, int rank, char path[PATH]) {
    snprintf(path, PATH, "%s/waits-%d", s->folder, rank);
}

static bool folder_is_ours(const gs_gloo_state *s) {
    struct stat st;
    if (mkdir(s->folder, 0700) != 0 && errno != EEXIST) return false;
    return lstat(s->folder, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid();
}

/* ---- this rank's own file ---- */

/* Look at the connections again; true if something new was found. */
static bool look_at_links(const gs_comm *c) {
    const gs_gloo_state *s = c->state;
    bool found = false;
    for (int r = 0; r < c->size; r++) {
        if (r == c->rank || s->silent[r] || !gs_gloo_is_silent(s, r)) continue;
        s->silent[r] = found = true;
    }
    return found;
}

static void write_file(const gs_comm *c, const char *text) {
    const gs_gloo_state *s = c->state;
    char path[PATH], draft[PATH + 8];
    path_of(s, c->rank, path);
    snprintf(draft, sizeof draft, "%s.new", path);
    FILE *f = folder_is_ours(s) ? fopen(draft, "we") : NULL;
    if (!f) return;
    bool whole = fputs(text, f) >= 0;
    if (fclose(f) != 0 || !whole || rename(draft, path) != 0) unlink(draft);
}

static void write_own(const gs_comm *c) {
    const gs_gloo_state *s = c->state;
    char text[TEXT] = "";
    for (int r = 0; r < c->size; r++)
        if (s->late[r]) gs_append(text, sizeof text, "%d ", r);
    gs_append(text, sizeof text, "/ ");
    for (int r = 0; r < c->size; r++)
        if (s->silent[r]) gs_append(text, sizeof text, "%d ", r);
    write_file(c, text);
}

void gs_gloo_tell_wait(gs_comm *c, int peer) {
    gs_gloo_state *s = c->state;
    pthread_mutex_lock(&s->waits);
    for (int r = 0; r < c->size; r++)
        if (r != c->rank && (peer < 0 || peer == r)) s->late[r] = true;
    look_at_links(c);
    if (s->folder) write_own(c);
    s->told = true;
    pthread_mutex_unlock(&s->waits);
}

void gs_gloo_forget_wait(const gs_comm *c) {
    const gs_gloo_state *s = c->state;
    char path[PATH];
    if (!s->told || !s->folder) return;
    path_of(s, c->rank, path);
    unlink(path);
    rmdir(s->folder); /* fails as long as others have files in it */
}

/* ---- those of the others ---- */

/* "1 3 / 2 ": a rank waits for ranks 1 and 3, and rank 2 is silent. */
static void read_text(const char *text, const gs_comm *c, double *age, bool *silent) {
    char *end;
    for (long r; (r = strtol(text, &end, 10)), end != text; text = end)
        if (r >= 0 && r < c->size) age[r] = c->timeout;
    text += strspn(text, " ");
    if (*text++ != '/') return;
    for (long r; (r = strtol(text, &end, 10)), end != text; text = end)
        if (r >= 0 && r < c->size) silent[r] = true;
}

/* Read what a waiting rank has left; false: it has left no file. A file of another user does not count, nor does a
 * pipe, which would block this rank. */
static bool read_file(const gs_comm *c, int rank, const gs_gloo_notes *notes) {
    const size_t row = (size_t)rank * (size_t)c->size;
    const gs_gloo_state *s = c->state;
    char path[PATH], text[TEXT];
    struct stat st;
    if (!s->folder) return false;
    path_of(s, rank, path);
    int f = open(path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
    if (f < 0) return false;
    bool ours = fstat(f, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid();
    ssize_t n = ours ? read(f, text, sizeof text - 1) : -1;
    close(f);
    if (n < 0) return false;
    text[n] = '\0';
    read_text(text, c, notes->age + row, notes->silent + row);
    return true;
}

/* Has another rank left the connection, with last words or without? */
static bool somebody_has_gone(const gs_comm *c) {
    char text[GS_LAST_WORDS];
    for (int r = 0; r < c->size; r++)
        if (r != c->rank && gs_gloo_peer(c->state, r, text, sizeof text) != GS_GLOO_CONNECTED) return true;
    return false;
}

static bool is_stopped(const gs_gloo_state *s, int rank) {
    long pid = gs_gloo_process(s, rank);
    return pid > 0 && gs_process_is_stopped(pid);
}

/* Fill in this rank's own row, and write its file again if there is more to tell. Does nothing get through to some
 * rank? */
static bool note_own(const gs_comm *c, const gs_gloo_notes *notes) {
    gs_gloo_state *s = c->state;
    const size_t row = (size_t)c->rank * (size_t)c->size;
    pthread_mutex_lock(&s->waits);
    bool cut = false;
    if (s->told && look_at_links(c) && s->folder) write_own(c);
    for (int r = 0; r < c->size; r++) {
        notes->age[row + (size_t)r] = s->late[r] ? c->timeout : 0;
        notes->silent[row + (size_t)r] = s->silent[r];
        cut = cut || s->silent[r];
    }
    pthread_mutex_unlock(&s->waits);
    return cut;
}

/* Wait until all have left a file; or without a folder until the network is seen to be cut; or until a rank is known to
 * be gone or stopped: then there is nothing more to find out. */
static void wait_for_files(const gs_comm *c, const gs_gloo_notes *notes) {
    const gs_gloo_state *s = c->state;
    for (double end = gs_awake_seconds() + grace(c->timeout);
         gs_awake_seconds() < end && !somebody_has_gone(c);) {
        bool all = true;
        if (note_own(c, notes) && !s->folder) return;
        for (int r = 0; r < c->size; r++) {
            if (r == c->rank) continue;
            if (is_stopped(s, r)) return;
            all = read_file(c, r, notes) && all;
        }
        if (all) return;
        gs_nap(0.01);
    }
}

gs_gloo_notes gs_gloo_hear_waits(gs_comm *c) {
    const gs_gloo_state *s = c->state;
    const size_t squares = (size_t)c->size * (size_t)c->size;
    gs_gloo_notes notes = {calloc(squares, sizeof *notes.age), calloc(squares, sizeof *notes.silent)};
    if (!notes.age || !notes.silent) return notes;
    note_own(c, &notes);
    if (s->told) wait_for_files(c, &notes);
    return notes;
}
