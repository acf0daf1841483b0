/* A pool of threads for one CPU device: it runs parallel loops, and nothing else.
 *
 * OpenBLAS always runs with one thread; the pool divides the work instead, so that OpenBLAS's threads and ours never
 * compete for cores. A pool of 1 thread runs everything in the caller. */
#pragma once

#include "core/error.h"

typedef struct gs_pool gs_pool;

/* threads >= 1, including the caller. May fail with GS_E_MEMORY. */
gs_status gs_pool_create(int threads, gs_pool **out);
void gs_pool_free(gs_pool *);
/* Make gs_pool_run do nothing from now on, for a dry run (src/device.h). */
void gs_pool_set_dry(gs_pool *);
int gs_pool_threads(const gs_pool *);

/* Call work(context, part) once for every part in 0 .. parts - 1, on the pool's threads; return when all are done. Any
 * thread may run any part, so results must not depend on the thread. */
void gs_pool_run(gs_pool *, int parts, void (*work)(void *context, int part), void *context);

/* To be called within `work`: returns the calling thread's number, 0 to threads - 1, where 0 is the caller of
 * gs_pool_run. It selects the memory that a thread keeps from one part to the next. */
int gs_pool_thread(void);
