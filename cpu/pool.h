/* A pool of threads for one CPU device: parallel loops, and nothing else.
 *
 * OpenBLAS always runs with one thread; the pool cuts the work instead, so that the library's threads and ours never
 * compete for the same cores. A pool of 1 thread runs everything in the caller. */
#pragma once

#include "core/error.h"

typedef struct gs_pool gs_pool;

/* threads >= 1, the caller included. GS_E_MEMORY. */
gs_status gs_pool_create(int threads, gs_pool **out);
void gs_pool_free(gs_pool *);
/* From here on gs_pool_run does nothing: a dry run (src/device.h). */
void gs_pool_set_dry(gs_pool *);
int gs_pool_threads(const gs_pool *);

/* Call work(context, part) for every part in 0..parts-1, each once, on the pool's threads; return when all are done.
 * Any thread may take any part, so results must not depend on it. */
void gs_pool_run(gs_pool *, int parts, void (*work)(void *context, int part), void *context);

/* Within work: the number of the calling thread, 0 to threads - 1; the caller of gs_pool_run is 0. For memory that a
 * thread keeps from one part to the next. */
int gs_pool_thread(void);
