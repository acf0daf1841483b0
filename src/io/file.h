/* Files that are written whole or not at all, and small helpers around them. */
#ifndef GS_IO_FILE_H
#define GS_IO_FILE_H

#include <stddef.h>
#include <stdio.h>
#include "core/error.h"

/* Begin to write `path`: a temporary file beside it is opened in *file. */
typedef struct gs_file_writer {
    char *path, *temporary;
    FILE *file;
} gs_file_writer;

gs_status gs_file_writer_open(const char *path, gs_file_writer *w);
/* Flush, fsync, close, rename to `path`, fsync the folder. On any failure the temporary file is removed and
 * an older file at `path` is as it was. */
gs_status gs_file_writer_commit(gs_file_writer *w);
/* Give up: the temporary file is removed. Harmless after commit. */
void gs_file_writer_discard(gs_file_writer *w);

/* Find a file or folder that comes with gradsum, such as "cl" or "datasets/fashion-mnist-small": beside the
 * build tree that the program runs from, or where it is installed (../share/gradsum from the program), or in
 * the prefix that the library was built for. `path` takes up to `size` bytes. GS_E_FILE: the message lists
 * the places that were looked at. */
gs_status gs_file_of_gradsum(const char *relative, char *path, size_t size);

/* SHA-256 of `bytes` bytes as 64 hexadecimal digits and a final 0. */
void gs_sha256(const void *data, size_t bytes, char hex[65]);

#endif
