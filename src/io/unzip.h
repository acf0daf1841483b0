/* A file that is read from its beginning to its end, gzipped or not (RFC 1952). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "core/error.h"

typedef struct gs_unzip gs_unzip;

/* A file that begins as a gzip stream does is taken for one, whatever its name is. GS_E_FILE; GS_E_FORMAT: it is
 * empty. */
gs_status gs_unzip_open(const char *path, gs_unzip **out);

/* Read up to `bytes` bytes; fewer only at the end of the file. wanted: how many in all, so far as is known, for
 * messages. Several streams one behind the other are one file, as for gzip, and zeros may fill up the last block.
 * GS_E_FILE; GS_E_FORMAT: a stream that is damaged, ends early, or has other bytes behind it. A stream's checksum
 * is known to be right when the next byte was asked for. */
gs_status gs_unzip_read(gs_unzip *, void *data, size_t bytes, uint64_t wanted, size_t *got);

bool gs_unzip_is_zipped(const gs_unzip *);
/* The most bytes that can come out of the file: its own number, or, zipped, 1032 for each. */
uint64_t gs_unzip_most(const gs_unzip *);

void gs_unzip_close(gs_unzip *);
