/* Threads with a stack of 8 MB. By default a thread's stack is as large as the shell allows the main thread's (ulimit
 * -s), and a worker that needs more dies without a message. Not for programs that use the library. */
#pragma once

#include <pthread.h>

/* pthread_create with that stack; a page is taken when it is used. 0, or an error number. */
int gs_thread_start(pthread_t *, void *(*run)(void *argument), void *argument);

/* From here on, threads that other libraries start have at least as much: PoCL computes kernels in its own threads. */
void gs_thread_enlarge_default(void);
