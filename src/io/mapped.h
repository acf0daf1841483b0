/* Memory backed by a file: only recently used pages occupy RAM; when RAM is short, the system writes pages to disk.
 *
 * The file is unlinked at once, so nothing remains when the process ends, even by SIGKILL. All blocks are allocated
 * before mapping, so a full disk is an error here, not a SIGBUS during a step. */
#pragma once

#include <stddef.h>
#include "core/error.h"

/* Map `bytes` zeros (at least 1) from a new file in `folder`; NULL: TMPDIR, else /var/tmp. GS_E_FILE: it is not
 * writable, or is full. A limit on file size (ulimit -f) is an error only if SIGXFSZ is ignored, as in gradsum. */
gs_status gs_mapped_create(const char *folder, size_t bytes, void **out);
void gs_mapped_free(void *memory, size_t bytes); /* NULL is allowed */

/* The folder that is used, and whether its files are themselves in memory (tmpfs), in which case nothing is gained. */
const char *gs_mapped_folder(const char *folder);
bool gs_mapped_is_memory(const char *folder);
