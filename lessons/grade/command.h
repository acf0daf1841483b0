/* Another program, and what it prints. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include "core/error.h"

/* Run a command (a NULL behind its words; no shell reads them) in a folder, with nothing to read. output: what it
 * prints to standard output, as much as fits into `size` bytes with a 0. *worked: it ended on its own with status 0.
 * Where gs_stop_requested is set, the command is asked to end (SIGTERM). GS_E_MEMORY: it cannot be started. */
gs_status gs_command_run(const char *folder, const char *const *command, char *output, size_t size,
                         bool *worked);
