/* The operations of comm.h on the memory of devices: each worker's buffers lie on a device of its own, and
 * the host's part of the work is comm.h's.
 *
 * A buffer is shown to the host by the backend's `map`, which does what is right for the device: where it
 * shares the host's memory (the CPU, PoCL, integrated GPUs) the transport reads and writes the device's buffer
 * itself, with no copy; where it does not, OpenCL stages the buffer through pinned host memory of its own, and
 * unmap copies back what was written. Work that was enqueued on the device before is done first.
 */
#ifndef GS_SYNC_COMM_DEVICE_H
#define GS_SYNC_COMM_DEVICE_H

#include "backend.h"
#include "sync/call.h"

/* As gs_call_run, with buffers on `device`. Where the call gives this rank nothing or wants nothing of it
 * (gs_call_bytes_of), `in` or `out` may be GS_NONE; else they are different allocations. The same errors, and
 * those of the device; what was mapped is unmapped again in any case, and the first message is kept. */
gs_status gs_call_run_on_device(gs_comm *, gs_device *, const gs_call *, gs_mem in, gs_mem out);

/* The eleven by name, as in comm.h. */
static inline gs_status gs_device_send(gs_comm *c, gs_device *d, gs_mem data, size_t count, gs_type type,
                                       int to) {
    return gs_call_run_on_device(c, d, &(gs_call){GS_SEND, count, type, 0, to}, data, GS_NONE);
}
static inline gs_status gs_device_recv(gs_comm *c, gs_device *d, gs_mem data, size_t count, gs_type type,
                                       int from) {
    return gs_call_run_on_device(c, d, &(gs_call){GS_RECV, count, type, 0, from}, GS_NONE, data);
}
static inline gs_status gs_device_broadcast(gs_comm *c, gs_device *d, gs_mem data, size_t count, gs_type type,
                                            int root) {
    return gs_call_run_on_device(c, d, &(gs_call){GS_BROADCAST, count, type, 0, root}, GS_NONE, data);
}
static inline gs_status gs_device_all_reduce(gs_comm *c, gs_device *d, gs_mem data, size_t count,
                                             gs_type type, gs_reduction how) {
    return gs_call_run_on_device(c, d, &(gs_call){GS_ALL_REDUCE, count, type, how, 0}, GS_NONE, data);
}
static inline gs_status gs_device_reduce(gs_comm *c, gs_device *d, gs_mem data, size_t count, gs_type type,
                                         gs_reduction how, int root) {
    return gs_call_run_on_device(c, d, &(gs_call){GS_REDUCE, count, type, how, root}, GS_NONE, data);
}
static inline gs_status gs_device_all_gather(gs_comm *c, gs_device *d, gs_mem mine, gs_mem all, size_t count,
                                             gs_type type) {
    return gs_call_run_on_device(c, d, &(gs_call){GS_ALL_GATHER, count, type, 0, 0}, mine, all);
}
static inline gs_status gs_device_gather(gs_comm *c, gs_device *d, gs_mem mine, gs_mem all, size_t count,
                                         gs_type type, int root) {
    return gs_call_run_on_device(c, d, &(gs_call){GS_GATHER, count, type, 0, root}, mine, all);
}
static inline gs_status gs_device_scatter(gs_comm *c, gs_device *d, gs_mem all, gs_mem mine, size_t count,
                                          gs_type type, int root) {
    return gs_call_run_on_device(c, d, &(gs_call){GS_SCATTER, count, type, 0, root}, all, mine);
}
static inline gs_status gs_device_reduce_scatter(gs_comm *c, gs_device *d, gs_mem all, gs_mem mine,
                                                 size_t total, gs_type type, gs_reduction how) {
    return gs_call_run_on_device(c, d, &(gs_call){GS_REDUCE_SCATTER, total, type, how, 0}, all, mine);
}
static inline gs_status gs_device_all_to_all(gs_comm *c, gs_device *d, gs_mem from, gs_mem to, size_t count,
                                             gs_type type) {
    return gs_call_run_on_device(c, d, &(gs_call){GS_ALL_TO_ALL, count, type, 0, 0}, from, to);
}
/* Waits for the device's own work first: all ranks have done theirs when it returns. */
static inline gs_status gs_device_barrier(gs_comm *c, gs_device *d) {
    return gs_call_run_on_device(c, d, &(gs_call){.operation = GS_BARRIER}, GS_NONE, GS_NONE);
}

#endif
