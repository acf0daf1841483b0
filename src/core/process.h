/* The state of another process on this machine, and the identity of this machine. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Has a signal such as SIGSTOP stopped the process? A stop by a debugger does not count: strace briefly stops a process
 * at each system call. */
bool gs_process_is_stopped(long pid);

/* True if the process no longer exists, or if only its exit status is left. */
bool gs_process_has_ended(long pid);

/* "is stopped", "computes", "waits for a device", "sleeps (futex_wait_queue)"; "" if there is no such process. */
void gs_process_does(long pid, char *text, size_t size);

/* Returns `size` descriptors for gs_process_watched_has_ended. Descriptor i is for process pid[i] on this machine; it
 * is -1 if pid[i] is 0 or cannot be watched. NULL: no memory. */
int *gs_processes_watch(int size, const long *pid);
void gs_processes_unwatch(int size, int *watch); /* NULL is allowed */
bool gs_process_watched_has_ended(int descriptor);

/* An integer that stays the same until the machine restarts, and differs between machines. Processes with the same
 * number share a clock (clock.h). */
double gs_boot_id(void);
