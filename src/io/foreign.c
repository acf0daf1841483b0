/* Recognizes files whose format differs from what their names suggest. */
#include <fcntl.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>
#include "core/text.h"
#include "io/file.h"

enum { HEAD = 512, ZIP_NAME_LENGTH = 26, ZIP_NAME = 30 };

/* A kind of file, recognized by the bytes `begin` at offset `at`. */
typedef struct kind {
    size_t at, length;
    const char *begin;
    gs_foreign is;
} kind;

#define BEGINS(at, text) at, sizeof(text) - 1, text

static const kind kinds[] = {
    {BEGINS(0, "version https://git-lfs.github.com/spec/"),
     {"a Git LFS pointer", "fetch the file that it stands for: git lfs pull"}},
    {BEGINS(0, "/annex/objects/"),
     {"a git-annex pointer", "fetch the file that it stands for: git annex get"}},
    {BEGINS(0, "\x89HDF\r\n\x1a\n"), {"an HDF5 file", NULL}},
    {BEGINS(0, "GGUF"), {"a GGUF file", NULL}},
    {BEGINS(4, "TFL3"), {"a model of TensorFlow Lite", NULL}},
    {BEGINS(0, "%PDF-"), {"a PDF file", NULL}},
    {BEGINS(0, "GIF8"), {"a GIF picture", NULL}},
    {BEGINS(8, "WEBP"), {"a WebP picture", NULL}},
    {BEGINS(4, "ftypavif"), {"an AVIF picture", NULL}},
    {BEGINS(4, "ftyphei"), {"a HEIC picture", NULL}},
    {BEGINS(0, "II*\0"), {"a TIFF picture", NULL}},
    {BEGINS(0, "MM\0*"), {"a TIFF picture", NULL}},
};

static const gs_foreign html = {"an HTML page", "such a page often comes in place of a download"},
                        torch = {"a PyTorch checkpoint, a zip archive of pickles", NULL},
                        npz = {"an archive of NumPy (.npz)", NULL}, zip = {"a zip archive", NULL},
                        pickle = {"a pickle of Python", NULL}, empty = {"empty", NULL},
                        gzipped = {"compressed with gzip", "gunzip it first"},
                        hole = {"a file that begins with zeros, as a download that has not ended leaves one",
                                NULL};

/* The first entry's name reveals the kind of archive. */
static const gs_foreign *kind_of_zip(const char *head, size_t bytes) {
    size_t length = bytes > ZIP_NAME ? (unsigned char)head[ZIP_NAME_LENGTH] : 0;
    if (length > bytes - ZIP_NAME) length = 0;
    return gs_ends_with(head + ZIP_NAME, length, "data.pkl") ? &torch
           : gs_ends_with(head + ZIP_NAME, length, ".npy")   ? &npz
                                                             : &zip;
}

/* True for "<!DOCTYPE html>", "<html lang=...>" and so on, after a byte order mark and white space. */
static bool is_html(const char *head, size_t bytes) {
    static const char *const tags[] = {"<!doctype html", "<html", "<head"};
    size_t at = bytes >= 3 && memcmp(head, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    while (at < bytes && strchr(" \t\r\n", head[at]) && head[at]) at++;
    for (int i = 0; i < 3; i++) {
        const size_t length = strlen(tags[i]);
        if (bytes - at > length && strncasecmp(head + at, tags[i], length) == 0 &&
            strchr(" \t\r\n>", head[at + length]))
            return true;
    }
    return false;
}

const gs_foreign *gs_foreign_of(const void *data, size_t bytes) {
    const char *head = data;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (bytes >= kinds[i].at + kinds[i].length &&
            memcmp(head + kinds[i].at, kinds[i].begin, kinds[i].length) == 0)
            return &kinds[i].is;
    if (bytes >= 4 && memcmp(head, "PK\3\4", 4) == 0) return kind_of_zip(head, bytes);
    /* protocol 2 to 5, then an instruction; a safetensors file has a 0 there */
    if (bytes >= 3 && head[0] == '\x80' && head[1] >= 2 && head[1] <= 5 && head[2]) return &pickle;
    return is_html(head, bytes) ? &html : NULL;
}

gs_status gs_foreign_fail(const gs_foreign *f, const char *path, const char *wanted) {
    if (!f->todo) return gs_fail(GS_E_FORMAT, "%s is %s; wanted %s", path, f->what, wanted);
    return gs_fail(GS_E_FORMAT, "%s is %s, not %s; %s", path, f->what, wanted, f->todo);
}

/* Errors in opening the file are ignored, so that the message of `status` remains. */
gs_status gs_foreign_explain(gs_status status, const char *path, const char *wanted) {
    char head[HEAD];
    if (status != GS_E_FORMAT && status != GS_E_FILE) return status;
    const int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    const ssize_t bytes = fd >= 0 ? read(fd, head, sizeof head) : -1;
    if (fd >= 0) close(fd);
    const gs_foreign *f = bytes > 0                             ? gs_foreign_of(head, (size_t)bytes)
                          : bytes == 0 && status == GS_E_FORMAT ? &empty
                                                                : NULL;
    if (bytes > 2 && memcmp(head, "\x1f\x8b", 2) == 0 && !strstr(wanted, "gzip")) f = &gzipped;
    if (bytes == HEAD && head[0] == 0 && memcmp(head, head + 1, HEAD - 1) == 0) f = &hole;
    return f ? gs_foreign_fail(f, path, wanted) : status;
}

gs_status gs_foreign_check_text(const char *path, const char *text, size_t bytes) {
    const gs_foreign *f = gs_foreign_of(text, bytes);
    size_t length = strlen(path);
    if (gs_ends_with(path, length, ".gz")) length -= 3;
    const bool named = gs_ends_with(path, length, ".html") || gs_ends_with(path, length, ".htm");
    if (!f || !f->todo || (f == &html && named)) return GS_OK;
    return gs_foreign_fail(
        f, path, f == &html ? "the text; a page that is to be the text has a name with .html" : "the text");
}
