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

/* The next `bytes` bytes, all of them; `what` they are is for messages. Several streams one after the other are one
 * file, as for gzip, and zeros may fill up the last block. GS_E_FILE; GS_E_FORMAT: a stream that is damaged, ends
 * early, or has other bytes behind it. A stream's checksum is known to be right when the next byte was asked for. */
gs_status gs_unzip_read(gs_unzip *, void *data, size_t bytes, const char *what);

/* GS_E_FORMAT: the next `bytes` bytes can not be there. A zipped byte becomes 1032 at most. */
gs_status gs_unzip_check_room(const gs_unzip *, uint64_t bytes, const char *what);

/* All bytes that are left, *bytes of them, with a 0 behind them; to be freed. GS_E_FILE: also where there are more than
 * `most`. GS_E_FORMAT: as gs_unzip_read. */
gs_status gs_unzip_rest(gs_unzip *, size_t most, char **text, size_t *bytes);

/* Is there another byte? */
gs_status gs_unzip_has_more(gs_unzip *, bool *more);

void gs_unzip_close(gs_unzip *);
