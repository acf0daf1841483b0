/* The operations of comm.h on device memory: each worker's buffers lie on its own device, and comm.h does the host's
 * part of the work.
 *
 * The backend's `map` shows a buffer to the host in the way that suits the device. Where the device shares the host's
 * memory (the CPU, PoCL, integrated GPUs), the transport reads and writes the device's buffer itself, with no copy.
 * Elsewhere OpenCL stages the buffer through pinned host memory of its own, and unmap copies back what was written.
 * Work enqueued on the device earlier is finished first.
 */
#pragma once

#include "backend.h"
#include "comm/comm.h"

/* As gs_call_run, with buffers on `device`: an all-reduce of n floats is
 *
 *     gs_call_run_on_device(comm, device, &(gs_call){GS_ALL_REDUCE, n, GS_F32, GS_SUM}, GS_NONE, data)
 *
 * The device's own work is done first, even for a barrier. If the call takes nothing from this rank or gives it nothing
 * (gs_call_bytes_of), `in` or `out` may be GS_NONE; otherwise they are different allocations. The same errors, and
 * those of the device. What was mapped is always unmapped again, and the first message is kept. */
gs_status gs_call_run_on_device(gs_comm *, gs_device *, const gs_call *, gs_mem in, gs_mem out);

/* Unmap what the host saw at `host` (NULL: nothing), after work that returned `before`. The first failure and its
 * message are those that count. */
gs_status gs_device_unmap_after(gs_device *, gs_mem, void *host, gs_status before);
