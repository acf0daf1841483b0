/* Threads with an 8 MB stack. By default a thread's stack is as large as the shell allows for the main thread (ulimit
 * -s), and a worker that needs more dies without a message. Programs that use the library do not need this file. */
#pragma once

#include <pthread.h>

/* pthread_create with that stack; a page uses memory only once it is touched. Returns 0 or an error number. */
int gs_thread_start(pthread_t *, void *(*run)(void *argument), void *argument);

/* From now on, threads that other libraries start have at least that stack: PoCL runs kernels in its own threads. */
void gs_thread_enlarge_default(void);
