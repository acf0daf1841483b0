/* Small files that are kept between runs in the user's cache directory: $GRADSUM_CACHE, else $XDG_CACHE_HOME/gradsum,
 * else ~/.cache/gradsum. With GRADSUM_CACHE=off nothing is kept.
 *
 * A cache may be lost at any time, so nothing here is an error: an entry that cannot be read is made again. An entry
 * begins with a line
 *
 *     gradsum-cache 1 NAME BYTES SHA256
 *
 * An entry that was truncated, changed or renamed counts as missing. Entries are written completely or not at all
 * (io/file.h), so any number of processes may read and write concurrently. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* The path of entry `name` (letters, digits, '.', '-'). Creates the folder if it is missing. False: there is no cache
 * folder, or the path is longer than `size`. */
bool gs_cache_path(const char *name, char *path, size_t size);

/* The bytes of an entry, followed by an uncounted 0; free them with free(). False: the entry is missing or damaged. */
bool gs_cache_read(const char *name, void **data, size_t *bytes);

/* Write an entry. False: it could not be written. */
bool gs_cache_write(const char *name, const void *data, size_t bytes);

/* Take a lock that one process or thread holds at a time; it ends with the process. Waits for at most 60 s. -1: another
 * process or thread still holds it, or there is no cache; continue without a lock. */
int gs_cache_lock(void);
void gs_cache_unlock(int lock);
