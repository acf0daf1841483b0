/* Small files that are kept from run to run, in the user's cache directory: $GRADSUM_CACHE, else
 * $XDG_CACHE_HOME/gradsum, else ~/.cache/gradsum. GRADSUM_CACHE=off: nothing is kept.
 *
 * A cache may be lost at any time, so nothing here fails: what cannot be read is made again, and what cannot be written
 * is made again the next time. An entry is read exactly as it was written: it begins with a line
 *
 *     gradsum-cache 1 NAME BYTES SHA256
 *
 * and one that was cut off, changed, or moved from another name is taken for missing. An entry is written whole or not
 * at all (io/file.h), so any number of processes may read and write at the same time.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Where entry `name` (letters, digits, '.', '-') lies; the folder is made if it is missing. false: there is no place
 * for a cache, or the path is longer than `size`. */
bool gs_cache_path(const char *name, char *path, size_t size);

typedef enum gs_cache_state { GS_CACHE_FOUND, GS_CACHE_MISSING, GS_CACHE_DAMAGED } gs_cache_state;

/* The bytes of an entry, with an uncounted 0 after them; to be freed with free(). */
gs_cache_state gs_cache_read(const char *name, void **data, size_t *bytes);

/* Write an entry, and remove the oldest ones while they exceed 512 MB together. false: it could not be written. */
bool gs_cache_write(const char *name, const void *data, size_t bytes);

/* A lock that one process or thread holds at a time, for what is not in the entries. It ends with the process. Waits
 * for at most 60 s; -1 if it is still held then, or if there is no cache: go on without it. */
int gs_cache_lock(void);
void gs_cache_unlock(int lock);
