/* The operations of comm.h on device memory: each worker's buffers are on its own device.
 *
 * The backend's `map` makes a buffer visible to the host. If the device shares the host's memory (the CPU, PoCL,
 * integrated GPUs), the transport accesses the device's buffer without a copy. Otherwise OpenCL stages the buffer
 * through pinned host memory, and unmap copies the changes back. Work already enqueued on the device is finished first.
 */
#pragma once

#include "backend.h"
#include "comm/comm.h"

/* Like gs_call_run, with buffers on `device`. An all-reduce of n floats is
 *
 *     gs_call_run_on_device(comm, device, &(gs_call){GS_ALL_REDUCE, n, GS_F32, GS_SUM}, GS_NONE, data)
 *
 * The device's work is finished first, even for a barrier. A buffer of 0 bytes (gs_call_bytes_of) may be GS_NONE; `in`
 * and `out` must be different allocations. Errors: those of gs_call_run and of the device. Mapped buffers are always
 * unmapped again, and the first message is kept. */
gs_status gs_call_run_on_device(gs_comm *, gs_device *, const gs_call *, gs_mem in, gs_mem out);

/* Unmap the buffer at `host` (NULL: none), after work that returned `before`. Returns the first failure, with its
 * message. */
gs_status gs_device_unmap_after(gs_device *, gs_mem, void *host, gs_status before);
