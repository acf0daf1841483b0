/* A thread that does a worker's errands, one after the other in the order in which they are given, while the worker
 * computes: with ZeRO these are the collectives of units (zero.h). All workers give the same errands in the same order.
 *
 * Without a thread an errand is done when it is given. That is needed where the worker itself makes collectives between
 * errands (batch_norm over all workers, layers of a tensor group), and where a device may be called by its worker alone
 * (backend.h).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include "core/error.h"

typedef struct gs_errand {
    int what, unit; /* what the worker makes of them */
    int part;
    bool first, last, counted;
} gs_errand;

typedef struct gs_errands gs_errands;

/* GS_E_MEMORY: no memory, or no thread. *out may be freed even after a failure. */
gs_status gs_errands_create(bool thread, gs_status (*run)(void *context, const gs_errand *), void *context,
                            gs_errands **out);

/* Ends the thread, after the errand that it is at. NULL is allowed. */
void gs_errands_free(gs_errands *);

/* Is there a thread? */
bool gs_errands_has_thread(const gs_errands *);

/* *number: of this errand, from 1. Fails as gs_errands_wait does. */
gs_status gs_errands_give(gs_errands *, gs_errand, uint64_t *number);

/* Until this errand is done; number 0: at once. Once an errand has failed, none is done any more, and this fails with
 * its message. */
gs_status gs_errands_wait(gs_errands *, uint64_t number);

/* Until all are done. */
gs_status gs_errands_wait_for_all(gs_errands *);
