/* Host memory for data that the device needs only part of the time. A separate queue copies to and from it while
 * kernels run in the main one:
 *
 *     queue    |          | update 0 | update 1 | update 2 |
 *     copies   | fetch 0  | fetch 1  | put 0, fetch 2 | put 1, fetch 3 |
 *
 * A marker makes each copy wait for the kernels enqueued before it. If possible, the memory is of a kind that the
 * device can access directly (CL_MEM_ALLOC_HOST_PTR). */
#include "cl/cl.h"

#include <stdlib.h>

#include "core/clock.h"
#include "core/memory.h"

/* An allocation larger than the largest buffer is ordinary memory. */
static gs_status take_memory(gs_device *d, size_t bytes, gs_cl_offloaded *a) {
    gs_cl *cl = gs_cl_of(d);
    cl_int error;
    if (bytes > cl->max_alloc) {
        a->host = calloc(1, bytes);
        return a->host ? GS_OK
                       : gs_fail(GS_E_MEMORY, "--offload: no memory on the host for %zu bytes", bytes);
    }
    a->buffer = clCreateBuffer(cl->context, CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR, bytes, NULL, &error);
    GS_TRY(gs_cl_check(error, "--offload: no memory on the host for %zu bytes: clCreateBuffer", bytes));
    a->host = clEnqueueMapBuffer(cl->copies, a->buffer, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 0, bytes, 0,
                                 NULL, NULL, &error);
    if (error == CL_SUCCESS) memset(a->host, 0, bytes);
    return gs_cl_check(error, "--offload: clEnqueueMapBuffer(%zu bytes)", bytes);
}

static void give_memory(gs_cl *cl, gs_cl_offloaded *a) {
    if (a->buffer && a->host) clEnqueueUnmapMemObject(cl->copies, a->buffer, a->host, 0, NULL, NULL);
    if (a->buffer)
        clReleaseMemObject(a->buffer);
    else
        free(a->host);
    *a = (gs_cl_offloaded){0};
}

static gs_status make_queue(gs_device *d) {
    gs_cl *cl = gs_cl_of(d);
    cl_int error = CL_SUCCESS;
    if (!cl->copies)
        cl->copies = clCreateCommandQueue(cl->context, cl->id, CL_QUEUE_PROFILING_ENABLE, &error);
    return gs_cl_check(error, "%s: clCreateCommandQueue", d->name);
}

gs_status gs_cl_alloc_offloaded(gs_device *d, size_t bytes, void **host) {
    gs_cl *cl = gs_cl_of(d);
    const size_t whole = bytes ? bytes : 1;
    gs_cl_offloaded a = {0};
    *host = NULL;
    if (d->dry && !(*host = gs_dry_alloc(whole)))
        return gs_fail(GS_E_MEMORY, "%s: no addresses for %zu bytes", d->name, whole);
    if (!d->dry) {
        GS_TRY(make_queue(d));
        if (!gs_grow(&cl->offloaded, cl->offloaded_count, &cl->offloaded_room, sizeof a))
            return gs_fail(GS_E_MEMORY, "--offload: no memory for a list of %zu arrays",
                           cl->offloaded_count + 1);
        const gs_status status = take_memory(d, whole, &a);
        if (status != GS_OK) give_memory(cl, &a);
        GS_TRY(status);
        cl->offloaded[cl->offloaded_count++] = a;
        *host = a.host;
    }
    const gs_status status = gs_ledger_add(&d->memory, GS_OFFLOADED, d->kind, *host, whole);
    if (status != GS_OK) gs_cl_free_offloaded(d, *host);
    return status;
}

void gs_cl_free_offloaded(gs_device *d, void *host) {
    gs_cl *cl = gs_cl_of(d);
    const size_t bytes = gs_ledger_remove(&d->memory, host);
    if (d->dry && host) gs_dry_free(host, bytes);
    if (host) gs_cl_settle(d);
    for (size_t i = 0; i < cl->offloaded_count; i++)
        if (cl->offloaded[i].host == host) give_memory(cl, &cl->offloaded[i]);
}

/* The device's clock differs from gs_seconds(), but both recorded the time when the copy was enqueued. */
static void tell_watcher(gs_cl_transfer *c, cl_ulong start, cl_ulong end) {
    cl_ulong enqueued = 0;
    gs_offload_transfer *m = &c->move;
    if (!c->watch.moved || end <= start) return;
    if (clGetEventProfilingInfo(c->done, CL_PROFILING_COMMAND_QUEUED, sizeof enqueued, &enqueued, NULL) !=
            CL_SUCCESS ||
        enqueued > start)
        return;
    const double at = m->start;
    m->start = at + 1e-9 * (double)(start - enqueued);
    m->end = at + 1e-9 * (double)(end - enqueued);
    c->watch.moved(c->watch.context, c->watch.step, m);
}

/* Finish a copy and record its time. */
static gs_status end_copy(gs_device *d, gs_cl_transfer *c) {
    cl_ulong start = 0, end = 0;
    if (!c->done) return GS_OK;
    const cl_int error = clWaitForEvents(1, &c->done);
    if (error == CL_SUCCESS) {
        clGetEventProfilingInfo(c->done, CL_PROFILING_COMMAND_START, sizeof start, &start, NULL);
        clGetEventProfilingInfo(c->done, CL_PROFILING_COMMAND_END, sizeof end, &end, NULL);
        if (end > start) d->offload_times.busy += 1e-9 * (double)(end - start);
        d->offload_times.bytes += (double)c->fetched;
        tell_watcher(c, start, end);
    }
    clReleaseEvent(c->done);
    c->done = NULL;
    return gs_cl_check(error, "%s: a copy from or to the host's memory", d->name);
}

/* The next slot in the list. */
static gs_status next_copy(gs_device *d, gs_cl_transfer **out) {
    gs_cl *cl = gs_cl_of(d);
    *out = &cl->copy[++cl->copied % GS_CL_COPIES];
    return end_copy(d, *out);
}

/* A marker after all enqueued work, for a copy to wait on. */
static gs_status work_before(gs_device *d, cl_event *out) {
    gs_cl *cl = gs_cl_of(d);
    GS_TRY(gs_cl_check(clEnqueueMarkerWithWaitList(cl->queue, 0, NULL, out),
                       "%s: clEnqueueMarkerWithWaitList", d->name));
    const gs_status status = gs_cl_check(clFlush(cl->queue), "%s: clFlush", d->name);
    if (status != GS_OK) clReleaseEvent(*out);
    return status;
}

/* Copy `bytes` bytes to or from the host; the copy queue is in order. */
static gs_status copy(gs_device *d, gs_mem here, void *host, size_t bytes, bool fetch, uint64_t *number) {
    gs_cl *cl = gs_cl_of(d);
    gs_cl_transfer *c;
    cl_event before;
    if (number) *number = 0;
    if (d->dry || bytes == 0) return GS_OK;
    GS_TRY(next_copy(d, &c));
    if (number) *number = cl->copied;
    c->fetched = fetch ? bytes : 0;
    c->watch = d->offload_watcher;
    GS_TRY(work_before(d, &before));
    c->move = (gs_offload_transfer){.start = gs_seconds(), .bytes = bytes, .fetched = fetch};
    if (c->watch.moved) c->move.kind = (int)gs_ledger_offloaded_kind(&d->memory, host);
    const size_t at = here.at * sizeof(cl_float);
    cl_int error =
        fetch ? clEnqueueWriteBuffer(cl->copies, here.base, CL_FALSE, at, bytes, host, 1, &before, &c->done)
              : clEnqueueReadBuffer(cl->copies, here.base, CL_FALSE, at, bytes, host, 1, &before, &c->done);
    clReleaseEvent(before);
    if (error == CL_SUCCESS) error = clFlush(cl->copies);
    return gs_cl_check(error, "%s: a copy of %zu bytes %s the host's memory", d->name, bytes,
                       fetch ? "from" : "to");
}

gs_status gs_cl_fetch(gs_device *d, gs_mem to, void *host, size_t bytes, uint64_t *number) {
    return copy(d, to, host, bytes, true, number);
}

gs_status gs_cl_offload(gs_device *d, void *host, gs_mem from, size_t bytes, uint64_t *number) {
    return copy(d, from, host, bytes, false, number);
}

/* If the copy is not done yet, first wait for the kernels: the remaining wait is then due to the copy alone. */
gs_status gs_cl_await(gs_device *d, uint64_t number) {
    gs_cl *cl = gs_cl_of(d);
    gs_cl_transfer *c = &cl->copy[number % GS_CL_COPIES];
    cl_int state = CL_QUEUED;
    if (number == 0 || cl->copied >= number + GS_CL_COPIES || !c->done) return GS_OK;
    GS_TRY(gs_cl_check(clGetEventInfo(c->done, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL),
                       "%s: clGetEventInfo", d->name));
    if (state > CL_COMPLETE) GS_TRY(gs_cl_finish(d));
    const double start = gs_seconds();
    const cl_int error = clWaitForEvents(1, &c->done);
    d->offload_times.waited += gs_seconds() - start;
    GS_TRY(gs_cl_check(error, "%s: a copy from or to the host's memory", d->name));
    return end_copy(d, c);
}

gs_status gs_cl_settle(gs_device *d) {
    gs_cl *cl = gs_cl_of(d);
    gs_status status = GS_OK;
    for (int i = 0; i < GS_CL_COPIES; i++) {
        const gs_status one = end_copy(d, &cl->copy[i]);
        if (status == GS_OK) status = one;
    }
    return status;
}

void gs_cl_offload_close(gs_device *d) {
    gs_cl *cl = gs_cl_of(d);
    gs_cl_settle(d);
    if (cl->copies) clReleaseCommandQueue(cl->copies);
    cl->copies = NULL;
    free(cl->offloaded);
}
