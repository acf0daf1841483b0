/* Files: opened without blocking, written completely or not at all; and small helpers. */
#pragma once

#include <stdint.h>
#include <stdio.h>
#include "core/error.h"

/* ---- read (read.c) ---- */

/* Open a regular file for reading; *size: its bytes. Use it for every file from users or other programs, because on a
 * FIFO, a terminal or a device, plain open() or the first read could block forever. GS_E_FILE: missing, forbidden, or
 * not a regular file; errno says which (EISDIR, or EINVAL for other kinds of files). */
gs_status gs_file_open(const char *path, int *fd, uint64_t *size);
gs_status gs_file_open_stream(const char *path, FILE **file, uint64_t *size);

/* Read a whole file, and append an uncounted 0; free() the text. GS_E_FILE: also if the file exceeds `most` bytes. */
gs_status gs_file_read(const char *path, uint64_t most, char **text, size_t *bytes);

/* The same, but unzipped if the first bytes are gzip's (RFC 1952), regardless of the file's name. As in gzip, several
 * streams in a row are one file, and zeros (8 or more) may follow. GS_E_FORMAT: a stream that is damaged or ends early,
 * other bytes after it, or more than `most` bytes. */
gs_status gs_file_unzip(const char *path, size_t most, char **text, size_t *bytes);
/* The first bytes of such a file, at most `most`; *bytes: how many could be read. GS_E_FILE, GS_E_MEMORY. */
gs_status gs_file_unzip_head(const char *path, void *head, size_t most, size_t *bytes);
/* Unzip a stream in memory to exactly `size` bytes, followed by a 0; `name` is for messages. */
gs_status gs_unzip(const char *name, const void *data, size_t bytes, size_t size, char **text);

/* ---- files whose names are misleading (foreign.c) ---- */

/* A file found in place of the expected one: a Git LFS pointer, an error page, a pickle. */
typedef struct gs_foreign {
    const char *what; /* "a Git LFS pointer" */
    const char *todo; /* how to get the real file; NULL: the reader says what it wants */
} gs_foreign;

/* Recognize a file by its first bytes (up to 512 are used); NULL: unknown. */
const gs_foreign *gs_foreign_of(const void *data, size_t bytes);
/* Fails with GS_E_FORMAT: "PATH is a pickle of Python; wanted ...". */
gs_status gs_foreign_fail(const gs_foreign *, const char *path, const char *wanted);
/* For a reader that failed with `status`: gs_foreign_fail if the file is recognized, else `status` and its message
 * unchanged. */
gs_status gs_foreign_explain(gs_status status, const char *path, const char *wanted);
/* Reject a Git LFS pointer or an error page, which are texts too, with GS_E_FORMAT. A page named .html is accepted. */
gs_status gs_foreign_check_text(const char *path, const char *text, size_t bytes);

/* ---- write ---- */

/* Start writing `path`: opens a temporary file beside it (FILE.PID-N-HOST.tmp) in *file. An existing file keeps its
 * mode, and its owner if permitted. A link stays; its target is replaced. Removes temporary files left by killed
 * writers. GS_E_FILE: `path` is a folder, a pipe, a socket, a device, a link to a missing file, write-protected, or the
 * target of standard output or standard error. */
typedef struct gs_file_writer {
    char *given, *path, *temporary; /* path: with links resolved */
    FILE *file;
} gs_file_writer;

gs_status gs_file_writer_open(const char *path, gs_file_writer *w);
/* Check before long work that `path` can be written. GS_E_USAGE: a file of another kind is there, such as a training
 * text, or the name is for another kind. */
typedef enum gs_file_kind {
    GS_FILE_ANY,
    GS_FILE_PAGE,
    GS_FILE_WEIGHTS,
    GS_FILE_ARRAY,
    GS_FILE_MARKS,
} gs_file_kind;
gs_status gs_file_check_target(const char *path, gs_file_kind);
/* True if both names refer to the same file or folder; false also if one is missing. */
bool gs_file_is_same(const char *a, const char *b);
/* Flush, fsync, close, rename to `path`, and fsync the folder. On any failure, including a failed earlier write, the
 * temporary file is removed, and an older file at `path` is unchanged. */
gs_status gs_file_writer_commit(gs_file_writer *w);
/* Remove the temporary file. Harmless after commit. */
void gs_file_writer_discard(gs_file_writer *w);

/* Remove the abandoned temporary files in a folder: those of this host and this user that are not locked. */
void gs_file_clean_folder(const char *folder);
/* Create the folder and its parents; true also if it already exists. False: see errno. */
bool gs_file_make_folders(const char *path);
/* Remove a folder and its contents, as far as permitted. */
void gs_file_remove_folder(const char *path);

/* Find a file or folder that comes with gradsum, such as "cl" or "datasets/fashion-mnist-small": in the source tree of
 * the program's build folder, in ../share/gradsum relative to the program, or in the prefix for which the library was
 * built. `path` has room for `size` bytes. GS_E_FILE: the message lists the paths tried. */
gs_status gs_file_of_gradsum(const char *relative, char *path, size_t size);

/* SHA-256 of `bytes` bytes, as 64 hexadecimal digits and a final 0. */
void gs_sha256(const void *data, size_t bytes, char hex[65]);
/* SHA-256 of a file; *bytes: its size. GS_E_FILE. */
gs_status gs_sha256_file(const char *path, char hex[65], uint64_t *bytes);
/* Finish the SHA-256 of a nettle context. */
struct sha256_ctx;
void gs_sha256_end(struct sha256_ctx *, char hex[65]);
