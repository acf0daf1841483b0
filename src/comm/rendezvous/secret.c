#include "comm/rendezvous/secret.h"
#include "core/nettle.h"
#include "io/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LEAST = 16, MOST = 1024, PATH = 4096 };

void gs_key_derive(const unsigned char key[GS_SECRET], const char *label, const void *data, size_t bytes,
                   unsigned char out[GS_SECRET]) {
    struct hmac_sha256_ctx context;
    hmac_sha256_set_key(&context, GS_SECRET, key);
    hmac_sha256_update(&context, strlen(label) + 1, (const uint8_t *)label);
    hmac_sha256_update(&context, bytes, data);
    GS_DIGEST(hmac_sha256_digest, &context, out);
}

/* The folder and path of the secret's file. False: there is no place for one. *own: it is the default file, which is
 * created if missing. */
static bool find_file(char folder[PATH], char path[PATH], bool *own) {
    const char *named = getenv("GRADSUM_SECRET_FILE"), *xdg = getenv("XDG_CONFIG_HOME"),
               *home = getenv("HOME");
    *own = !named || !*named;
    folder[0] = '\0';
    if (!*own) return snprintf(path, PATH, "%s", named) < PATH;
    if (xdg && *xdg)
        snprintf(folder, PATH, "%s/gradsum", xdg);
    else if (home && *home)
        snprintf(folder, PATH, "%s/.config/gradsum", home);
    else
        return false;
    return snprintf(path, PATH, "%s/secret", folder) < PATH;
}

const char *gs_secret_source(char *text, size_t size) {
    char folder[PATH], path[PATH];
    bool own;
    if (getenv("GRADSUM_SECRET"))
        snprintf(text, size, "GRADSUM_SECRET");
    else
        snprintf(text, size, "%s", find_file(folder, path, &own) ? path : "no file");
    return text;
}

/* Create the file with a new secret. If several processes do so at once, the first one's secret stays. */
static gs_status make_file(const char *folder, const char *path) {
    unsigned char bytes[GS_SECRET];
    char draft[PATH + 32], text[2 * GS_SECRET + 2];
    GS_TRY(gs_secret_make(bytes, GS_SECRET));
    for (int i = 0; i < GS_SECRET; i++) snprintf(text + (size_t)2 * (size_t)i, 3, "%02x", bytes[i]);
    strcat(text, "\n");
    if (!gs_file_make_folders(folder)) return gs_fail(GS_E_FILE, "cannot make the folder %s", folder);
    snprintf(draft, sizeof draft, "%s.%ld", path, (long)getpid());
    int f = open(draft, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (f < 0) return gs_fail(GS_E_FILE, "cannot write %s: %s", draft, strerror(errno));
    bool whole = write(f, text, strlen(text)) == (ssize_t)strlen(text) && fsync(f) == 0;
    int error = whole ? 0 : errno;
    if (close(f) != 0 || (whole && link(draft, path) != 0 && errno != EEXIST)) error = errno;
    unlink(draft);
    return error == 0 ? GS_OK : gs_fail(GS_E_FILE, "cannot write %s: %s", path, strerror(error));
}

static gs_status check_private(int f, const char *path) {
    struct stat s;
    if (fstat(f, &s) != 0 || !S_ISREG(s.st_mode))
        return gs_fail(GS_E_FILE, "the file of the run's secret, %s, is not a regular file", path);
    if (s.st_uid != geteuid() && s.st_uid != 0)
        return gs_fail(GS_E_FILE, "the file of the run's secret, %s, belongs to user %ld, not to user %ld",
                       path, (long)s.st_uid, (long)geteuid());
    if (s.st_mode & 077)
        return gs_fail(GS_E_FILE,
                       "the file of the run's secret, %s, is open to others (mode %03o): chmod 600 it", path,
                       (unsigned)s.st_mode & 0777);
    return GS_OK;
}

static gs_status read_file(char text[MOST + 1]) {
    char folder[PATH], path[PATH];
    bool own;
    if (!find_file(folder, path, &own))
        return gs_fail(GS_E_FILE,
                       "no place for the run's secret: set GRADSUM_SECRET, GRADSUM_SECRET_FILE or HOME");
    if (own && access(path, F_OK) != 0 && errno == ENOENT) GS_TRY(make_file(folder, path));
    const int f = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (f < 0) return gs_fail(GS_E_FILE, "cannot read the run's secret from %s: %s", path, strerror(errno));
    gs_status status = check_private(f, path);
    ssize_t n = status == GS_OK ? read(f, text, MOST) : 0;
    close(f);
    text[n > 0 ? n : 0] = '\0';
    return status;
}

gs_status gs_run_key(const char *run, unsigned char key[GS_SECRET]) {
    char text[MOST + 1], source[PATH];
    unsigned char all[GS_SECRET];
    const char *given = getenv("GRADSUM_SECRET");
    if (given)
        snprintf(text, sizeof text, "%s", given);
    else
        GS_TRY(read_file(text));
    size_t length = strlen(text);
    while (length > 0 && strchr(" \t\r\n", text[length - 1])) text[--length] = '\0';
    if (length < LEAST)
        return gs_fail(GS_E_USAGE, "the run's secret (%s) has %zu bytes; it must have %d or more",
                       gs_secret_source(source, sizeof source), length, LEAST);
    struct sha256_ctx context;
    sha256_init(&context);
    sha256_update(&context, length, (const uint8_t *)text);
    GS_DIGEST(sha256_digest, &context, all);
    gs_key_derive(all, "gradsum run", run, strlen(run), key);
    return GS_OK;
}
