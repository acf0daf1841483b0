/* A folder as a store (store.h). Each entry is a file, which is whole when it appears:
 *
 *     doctor-key       the key of the run in hex, made by the first that comes
 *     doctor-rank-0    the value of the key "rank-0"
 *
 * A process removes what it has put when it leaves, except for a fault; the last one removes that, the key and the
 * folder.
 */
#include "comm/meet/route.h"
#include "comm/meet/store.h"
#include "core/clock.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH = 3000, NAMES = 8 + GS_STORE_KEY, DRAFT = PATH + 64 };
#define PREFIX "doctor-"
static const double pause_s = 0.02;

typedef struct names {
    char (*key)[GS_STORE_KEY];
    int count;
} names;

typedef struct folder_store {
    gs_store store;
    char folder[PATH - NAMES - 32];
    names put, seen; /* seen: shown by look */
} folder_store;

static void path_of(const folder_store *f, const char *key, char path[PATH]) {
    snprintf(path, PATH, "%s/" PREFIX "%s", f->folder, key);
}

static gs_status cannot(const folder_store *f, const char *what) {
    return gs_fail(GS_E_FILE, "cannot %s in the folder %s, where the ranks meet: %s", what, f->folder,
                   strerror(errno));
}

static gs_status note(names *n, const char *key) {
    char(*more)[GS_STORE_KEY] = realloc(n->key, ((size_t)n->count + 1) * sizeof *more);
    if (!more) return gs_fail(GS_E_MEMORY, "no memory for what the machines say");
    n->key = more;
    snprintf(more[n->count++], GS_STORE_KEY, "%s", key);
    return GS_OK;
}

static bool is_among(const names *n, const char *key) {
    for (int i = 0; i < n->count; i++)
        if (strcmp(n->key[i], key) == 0) return true;
    return false;
}

/* The value of a key; false: it is not there, or it is another user's. */
static bool read_value(const folder_store *f, const char *key, char value[GS_STORE_VALUE]) {
    char path[PATH];
    struct stat s;
    path_of(f, key, path);
    const int file = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (file < 0) return false;
    const bool ours = fstat(file, &s) == 0 && S_ISREG(s.st_mode) && (s.st_uid == geteuid() || s.st_uid == 0);
    const ssize_t n = ours ? read(file, value, GS_STORE_VALUE - 1) : -1;
    close(file);
    value[n > 0 ? n : 0] = '\0';
    return n >= 0;
}

/* The key in "doctor-rank-0"; NULL: it is a draft, or something else. */
static const char *key_in(const char *name) {
    const size_t length = strlen(PREFIX);
    if (strncmp(name, PREFIX, length) != 0 || strlen(name + length) >= GS_STORE_KEY) return NULL;
    return strchr(name, '.') || strcmp(name + length, "key") == 0 ? NULL : name + length;
}

/* ---- the store's functions ---- */

static gs_status folder_put(gs_store *s, const char *key, char *value, bool *there) {
    folder_store *f = (folder_store *)s;
    char path[PATH], draft[DRAFT];
    path_of(f, key, path);
    snprintf(draft, sizeof draft, "%s.%ld", path, (long)getpid());
    const int file = open(draft, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file < 0) return cannot(f, "write");
    bool whole = write(file, value, strlen(value)) == (ssize_t)strlen(value);
    whole = close(file) == 0 && whole;
    const bool made = whole && link(draft, path) == 0;
    const int error = errno;
    unlink(draft);
    errno = error;
    *there = whole && !made && error == EEXIST;
    if (!made && !*there) return cannot(f, "write");
    if (*there) return read_value(f, key, value) ? GS_OK : cannot(f, "read");
    if (gs_store_is_fault(key)) return GS_OK; /* it stays for the others, when this process has gone */
    return note(&f->put, key);
}

static gs_status look_once(folder_store *f, gs_store_seen *seen, void *context, bool *any) {
    char value[GS_STORE_VALUE];
    DIR *d = opendir(f->folder);
    if (!d) return cannot(f, "look");
    gs_status status = GS_OK;
    for (const struct dirent *e; status == GS_OK && (e = readdir(d));) {
        const char *key = key_in(e->d_name);
        if (!key || is_among(&f->seen, key) || !read_value(f, key, value)) continue;
        status = note(&f->seen, key);
        if (status == GS_OK) status = seen(context, key, value);
        *any = true;
    }
    closedir(d);
    return status;
}

static gs_status folder_look(gs_store *s, double seconds, gs_store_seen *seen, void *context) {
    const double until = gs_seconds() + seconds;
    for (bool any = false;;) {
        GS_TRY(look_once((folder_store *)s, seen, context, &any));
        if (any || gs_seconds() >= until) return GS_OK;
        gs_nap(pause_s);
    }
}

static void folder_strangers(gs_store *s, char *text, size_t size) {
    (void)s, (void)size;
    text[0] = '\0';
}

/* The last one finds nothing but the key, and maybe a fault. */
static void remove_rest(const folder_store *f) {
    char path[PATH];
    DIR *d = opendir(f->folder);
    bool others = false;
    if (!d) return;
    for (const struct dirent *e; (e = readdir(d));) {
        const char *key = key_in(e->d_name);
        others = others || (key && !gs_store_is_fault(key));
    }
    closedir(d);
    if (others) return;
    path_of(f, "fault", path);
    unlink(path);
    path_of(f, "key", path);
    unlink(path);
    rmdir(f->folder);
}

static void folder_leave(gs_store *s) {
    folder_store *f = (folder_store *)s;
    char path[PATH];
    for (int i = 0; i < f->put.count; i++) {
        path_of(f, f->put.key[i], path);
        unlink(path);
    }
    f->put.count = 0;
    remove_rest(f);
}

static void folder_free(gs_store *s) {
    folder_store *f = (folder_store *)s;
    folder_leave(s);
    free(f->put.key);
    free(f->seen.key);
    free(f);
}

static const gs_store_ops folder_ops = {folder_put, folder_look, folder_strangers, folder_leave, folder_free};

/* ---- opening ---- */

/* A run wants a folder with nothing in it. */
static gs_status check_folder(const folder_store *f) {
    DIR *d = opendir(f->folder);
    if (!d) return cannot(f, "look");
    gs_status status = GS_OK;
    for (const struct dirent *e; status == GS_OK && (e = readdir(d));) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
        if (strncmp(e->d_name, PREFIX, strlen(PREFIX)) == 0) continue;
        status =
            gs_fail(GS_E_FILE, "the folder %s holds '%s': use a new folder for each run, with nothing in it",
                    f->folder, e->d_name);
    }
    closedir(d);
    return status;
}

/* Made by the first that comes, and read by the others. */
static gs_status find_key(folder_store *f, unsigned char key[GS_SECRET]) {
    char text[GS_STORE_VALUE] = "";
    unsigned byte;
    bool there;
    GS_TRY(gs_secret_make(key, GS_SECRET));
    for (int i = 0; i < GS_SECRET; i++) snprintf(text + (size_t)2 * (size_t)i, 3, "%02x", key[i]);
    GS_TRY(folder_put(&f->store, "key", text, &there));
    f->put.count = 0; /* it stays until the last one leaves */
    for (int i = 0; there && i < GS_SECRET; i++) {
        if (sscanf(text + (size_t)2 * (size_t)i, "%2x", &byte) != 1)
            return gs_fail(GS_E_FILE, "%s/" PREFIX "key is no key: use a new folder", f->folder);
        key[i] = (unsigned char)byte;
    }
    return GS_OK;
}

gs_status gs_store_open_folder(const gs_rendezvous *r, const gs_meet_place *p, unsigned char key[GS_SECRET],
                               gs_store **out) {
    folder_store *f = calloc(1, sizeof *f);
    *out = NULL;
    if (!f) return gs_fail(GS_E_MEMORY, "no memory to meet the other ranks");
    f->store.ops = &folder_ops;
    gs_status status = GS_OK;
    if (snprintf(f->folder, sizeof f->folder, "%s", p->folder) >= (int)sizeof f->folder)
        status = gs_fail(GS_E_USAGE, "rank %d: the name of the folder is too long", r->rank);
    else if (mkdir(f->folder, 0700) != 0 && errno != EEXIST)
        status = cannot(f, "write");
    if (status == GS_OK) status = check_folder(f);
    if (status == GS_OK) status = find_key(f, key);
    snprintf(f->store.address, sizeof f->store.address, "127.0.0.1");
    gs_route_default(f->store.address, sizeof f->store.address);
    if (status == GS_OK)
        *out = &f->store;
    else
        folder_free(&f->store);
    return status;
}
