/* Runs another program and reads its output. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include "core/error.h"

/* Runs a command (words ending with NULL, not read by a shell) in a folder, with empty input. output: its standard
 * output, as much as fits into `size` bytes with a terminating 0. *worked: it ended by itself with status 0. If
 * gs_stop_requested is set, the command is asked to end (SIGTERM). GS_E_MEMORY: it cannot be started. */
gs_status gs_command_run(const char *folder, const char *const *command, char *output, size_t size,
                         bool *worked);
