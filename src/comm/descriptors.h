/* When a process has no file descriptor left. Waiting does not help: the limit has to be raised. */
#pragma once

#include "core/error.h"

/* GS_E_FILE, for a call that failed with `error`, an errno: "`what`: too many open files: the limit is 64 (ulimit -n)"
 * where this process has none left (EMFILE), else what the system says of it. */
gs_status gs_fail_descriptor(int error, const char *what, ...) GS_PRINTF(2, 3);
