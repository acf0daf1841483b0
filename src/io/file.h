/* Files: opened without waiting, written whole or not at all; and small helpers around them. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include "core/error.h"

/* ---- read (read.c) ---- */

/* Open a regular file to read it; *size: its bytes. Every file that a user or another program may have put there is
 * opened this way: on a FIFO, a terminal or a device a plain open() or its first read could wait forever. GS_E_FILE:
 * not there, not allowed, not a regular file; errno says which too (EISDIR, EINVAL: another kind). */
gs_status gs_file_open(const char *path, int *fd, uint64_t *size);
gs_status gs_file_open_stream(const char *path, FILE **file, uint64_t *size);

/* A whole file, with an uncounted 0 after it; to be freed with free(). GS_E_FILE: also if it has more than `most`
 * bytes. */
gs_status gs_file_read(const char *path, uint64_t most, char **text, size_t *bytes);

/* The same of a file that may be gzipped (RFC 1952), and is unzipped then: by its first bytes, not by its name. Several
 * streams one after the other are one file, as for gzip, and zeros may fill up the last block. GS_E_FORMAT: a stream
 * that is damaged, ends early, has other bytes behind it, or more than `most` bytes. */
gs_status gs_file_unzip(const char *path, size_t most, char **text, size_t *bytes);
/* The first bytes of such a file, at most `most`; *bytes: how many could be read. GS_E_FILE, GS_E_MEMORY. */
gs_status gs_file_unzip_head(const char *path, void *head, size_t most, size_t *bytes);
/* The same of such a stream in memory; its name is for messages. */
gs_status gs_unzip(const char *name, const void *data, size_t bytes, size_t most, char **text,
                   size_t *unzipped);

/* ---- files that are not what their names say (foreign.c) ---- */

/* What lies in the place of another file: a pointer of Git LFS, a page about an error, a pickle. */
typedef struct gs_foreign {
    const char *what; /* "a Git LFS pointer" */
    const char *todo; /* where to get the file itself; NULL: the reader says what it wants */
} gs_foreign;

/* By a file's first bytes, 512 of them if it has so many; NULL: none of those. */
const gs_foreign *gs_foreign_of(const void *data, size_t bytes);
/* GS_E_FORMAT: "PATH is a pickle of Python; wanted ...". */
gs_status gs_foreign_fail(const gs_foreign *, const char *path, const char *wanted);
/* For a reader that has failed with `status`: gs_foreign_fail where the file is one of those, else `status` and its
 * message as they are. */
gs_status gs_foreign_explain(gs_status status, const char *path, const char *wanted);
/* Before a text is used: a pointer or a page is a text too. GS_E_FORMAT: it is one; a page whose name ends with .html
 * is what its name says. */
gs_status gs_foreign_check_text(const char *path, const char *text, size_t bytes);

/* ---- write ---- */

/* Begin to write `path`: a temporary file beside it (FILE.PID-N-HOST.tmp) is opened in *file. An existing file
 * keeps its mode, and its owner if that is allowed. A link stays, and its target is written. Files that killed writers
 * have left beside it are removed. GS_E_FILE: `path` is a folder, a pipe, a socket or a device, may not be written, or
 * is where standard output or standard error go. */
typedef struct gs_file_writer {
    char *given, *path, *temporary; /* path: where the links of the given one lead */
    FILE *file;
} gs_file_writer;

gs_status gs_file_writer_open(const char *path, gs_file_writer *w);
/* Can `path` be written? Known before long work, and not after it. GS_E_USAGE: what is there is of another kind, such
 * as a text to train on: a page takes the place of a page alone; or the name promises another kind. */
typedef enum gs_file_kind {
    GS_FILE_ANY,
    GS_FILE_PAGE,
    GS_FILE_WEIGHTS,
    GS_FILE_ARRAY,
    GS_FILE_MARKS,
} gs_file_kind;
gs_status gs_file_check_target(const char *path, gs_file_kind);
/* Do both names mean the same file or folder? False: one of them is not there. */
bool gs_file_is_same(const char *a, const char *b);
/* Flush, fsync, close, rename to `path`, fsync the folder. On any failure, also of a write to the file before, the
 * temporary file is removed, and an older file at `path` stays as it was. */
gs_status gs_file_writer_commit(gs_file_writer *w);
/* Give up: the temporary file is removed. Harmless after commit. */
void gs_file_writer_discard(gs_file_writer *w);

/* Remove a folder's temporary files that nobody writes any more: made on this host, by this user, and not locked. */
void gs_file_clean_folder(const char *folder);
/* Make the folder and those that it lies in; true also where it is there. False: errno says why. */
bool gs_file_make_folders(const char *path);
/* Remove a folder with all that is in it, as far as that is allowed. */
void gs_file_remove_folder(const char *path);

/* Find a file or folder that comes with gradsum, such as "cl" or "datasets/fashion-mnist-small": beside the build
 * tree that the program runs from (a build folder elsewhere links to its tree), or where it is installed
 * (../share/gradsum from the program), or in the prefix that the library was built for. `path` takes up to `size`
 * bytes. GS_E_FILE: the message lists the places that were looked at. */
gs_status gs_file_of_gradsum(const char *relative, char *path, size_t size);

/* SHA-256 of `bytes` bytes as 64 hexadecimal digits and a final 0. */
void gs_sha256(const void *data, size_t bytes, char hex[65]);
/* The same of a file; *bytes: how many it has. GS_E_FILE. */
gs_status gs_sha256_file(const char *path, char hex[65], uint64_t *bytes);
/* The same of what was put into a context of nettle's. */
struct sha256_ctx;
void gs_sha256_end(struct sha256_ctx *, char hex[65]);
