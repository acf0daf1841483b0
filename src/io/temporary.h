/* The file beside the real one in which io/file.h writes: FILE.PID-N-HOST.tmp. Its writer holds a lock on it, which
 * ends with the process: so what a process that was killed has left behind is known for sure, whoever has its
 * number now. */
#pragma once

#include <stddef.h>
#include <sys/types.h>

enum { GS_TEMPORARY_MORE = 64 }; /* bytes that the name is longer than that of the file, at most */

/* Make one for `path` and lock it: its descriptor, and its name in `name`, which has room for GS_TEMPORARY_MORE
 * bytes more than `path`; -1: errno says why. */
int gs_temporary_open(const char *path, mode_t mode, char *name, size_t size);

/* Remove those of `path` that nobody writes any more: made on this host, by this user, and not locked. Those of
 * other hosts, whose locks may not be seen here, stay. */
void gs_temporary_clean(const char *path);
/* The same of all files in a folder. */
void gs_temporary_clean_folder(const char *folder);
