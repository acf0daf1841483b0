/* Memory in a file: what lies there takes no memory of the process but for the pages that it has just used, and the
 * system may write these to the disk whenever memory is short.
 *
 * The file has no name, from the beginning, so that nothing is left of it when the process ends, even by SIGKILL. All
 * its blocks are allocated before it is mapped: a disk that is full says so here, and not by a SIGBUS in the middle of
 * a step.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include "core/error.h"

/* `bytes` zeros (at least 1) in a file in `folder`; NULL: in TMPDIR, else /var/tmp. GS_E_FILE: the folder cannot be
 * written, or there is no room. Where the file may not grow so far (ulimit -f), that is so only in a process that
 * ignores SIGXFSZ, as the program does. */
gs_status gs_mapped_create(const char *folder, size_t bytes, void **out);
void gs_mapped_free(void *memory, size_t bytes); /* NULL is allowed */

/* The folder that is used; and whether its files lie in memory themselves (tmpfs), so that nothing is gained. */
const char *gs_mapped_folder(const char *folder);
bool gs_mapped_is_memory(const char *folder);
