/* This process's file descriptors. */
#pragma once

#include <stdbool.h>
#include "core/error.h"

/* GS_E_FILE, for a call that failed with `error`, an errno: "`what`: too many open files: the limit is 64 (ulimit -n)"
 * where this process has none left (EMFILE): waiting does not help, the limit has to be raised. Else what the system
 * says of it. */
gs_status gs_fail_descriptor(int error, const char *what, ...) GS_PRINTF(2, 3);

/* The first open descriptor that is like this; -1: there is none. */
int gs_find_descriptor(bool (*is)(int descriptor, const void *), const void *like);
