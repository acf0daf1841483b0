#include "cl/cl.h"

#include <stdlib.h>

static cl_mem buffer_of(gs_mem m) {
    return (cl_mem)m.base;
}

static size_t bytes_at(gs_mem m) {
    return m.at * sizeof(cl_float);
}

static gs_status book(gs_device *d, void *memory, size_t bytes, gs_mem *out) {
    if (!memory) return gs_fail(GS_E_MEMORY, "%s: no addresses for %zu bytes", d->name, bytes);
    *out = (gs_mem){.base = memory};
    const gs_status status = gs_ledger_add(&d->memory, GS_ON_DEVICE, d->kind, memory, bytes);
    if (status != GS_OK) gs_cl_free(d, *out);
    return status;
}

/* CL_MEM_COPY_HOST_PTR makes OpenCL allocate or refuse the memory now, not when a kernel first needs it. */
gs_status gs_cl_alloc(gs_device *d, size_t bytes, gs_mem *out) {
    const gs_cl *cl = gs_cl_of(d);
    if (bytes > cl->max_alloc)
        return gs_fail(GS_E_MEMORY,
                       "%s: no memory for %zu bytes; this device allows at most %zu in one piece", d->name,
                       bytes, cl->max_alloc);
    size_t count = bytes ? gs_cl_parts(bytes, sizeof(cl_float)) : 1, whole = count * sizeof(cl_float);
    if (d->dry) return book(d, gs_dry_alloc(whole), whole, out);
    void *zeros = calloc(count, sizeof(cl_float));
    if (!zeros) return gs_fail(GS_E_MEMORY, "%s: no memory for %zu bytes of zeros", d->name, whole);
    cl_int error;
    cl_mem buffer =
        clCreateBuffer(cl->context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, whole, zeros, &error);
    free(zeros);
    GS_TRY(gs_cl_check(error, "%s: no memory for %zu bytes: clCreateBuffer", d->name, bytes));
    return book(d, buffer, whole, out);
}

/* OpenCL keeps the memory until the commands that use it have finished. */
void gs_cl_free(gs_device *d, gs_mem m) {
    const size_t bytes = gs_ledger_remove(&d->memory, m.base);
    if (d->dry && m.base)
        gs_dry_free(m.base, bytes);
    else if (m.base)
        clReleaseMemObject(buffer_of(m));
}

gs_status gs_cl_scratch(gs_device *d, gs_cl_scratch_use use, size_t count, gs_mem *out) {
    gs_cl *cl = gs_cl_of(d);
    if (count > cl->scratch_count[use]) {
        gs_cl_free(d, cl->scratch[use]);
        cl->scratch[use] = GS_NONE;
        cl->scratch_count[use] = 0;
        d->kind = GS_MEMORY_WORKSPACE;
        GS_TRY(gs_context(gs_cl_alloc(d, count * sizeof(cl_float), &cl->scratch[use]), "scratch"));
        cl->scratch_count[use] = count;
    }
    *out = cl->scratch[use];
    return GS_OK;
}

/* The next staging buffer, with room for `bytes` bytes, once the device has finished reading its previous content. */
static gs_status next_staging(gs_cl *cl, size_t bytes, gs_cl_staging **out) {
    gs_cl_staging *s = &cl->staging[cl->writes++ % GS_STAGES];
    if (s->done) {
        cl_int error = clWaitForEvents(1, &s->done);
        clReleaseEvent(s->done);
        s->done = NULL;
        GS_TRY(gs_cl_check(error, "cl: a write before this one"));
    }
    if (s->size < bytes) {
        free(s->bytes);
        s->size = 0;
        s->bytes = malloc(bytes);
        if (!s->bytes) return gs_fail(GS_E_MEMORY, "cl: no memory for a copy of %zu bytes", bytes);
        s->size = bytes;
    }
    *out = s;
    return GS_OK;
}

/* Batches are small: they are copied and uploaded while the device is still computing. Larger data are not copied; the
 * host waits instead. */
gs_status gs_cl_write(gs_device *d, gs_mem to, const void *from, size_t bytes) {
    enum { MOST = 16 << 20 };
    gs_cl *cl = gs_cl_of(d);
    gs_cl_staging *s = NULL;
    if (bytes == 0 || d->dry) return GS_OK;
    if (bytes <= MOST) {
        GS_TRY(gs_context(next_staging(cl, bytes, &s), "%s", d->name));
        memcpy(s->bytes, from, bytes);
    }
    return gs_cl_check(clEnqueueWriteBuffer(cl->queue, buffer_of(to), s ? CL_FALSE : CL_TRUE, bytes_at(to),
                                            bytes, s ? s->bytes : from, 0, NULL, s ? &s->done : NULL),
                       "%s: clEnqueueWriteBuffer(%zu bytes)", d->name, bytes);
}

gs_status gs_cl_read(gs_device *d, void *to, gs_mem from, size_t bytes) {
    if (d->dry) gs_dry_read(to, bytes);
    if (d->dry) return GS_OK;
    if (bytes == 0) return gs_cl_finish(d);
    return gs_cl_check(clEnqueueReadBuffer(gs_cl_of(d)->queue, buffer_of(from), CL_TRUE, bytes_at(from),
                                           bytes, to, 0, NULL, NULL),
                       "%s: clEnqueueReadBuffer(%zu bytes)", d->name, bytes);
}

gs_status gs_cl_read_begin(gs_device *d, void *to, gs_mem from, size_t bytes) {
    gs_cl *cl = gs_cl_of(d);
    if (d->dry) return gs_cl_read(d, to, from, bytes);
    if (cl->reading) gs_bug("%s: read_begin before the previous read ended", d->name);
    if (bytes == 0) return GS_OK;
    GS_TRY(gs_cl_check(clEnqueueReadBuffer(cl->queue, buffer_of(from), CL_FALSE, bytes_at(from), bytes, to, 0,
                                           NULL, &cl->reading),
                       "%s: clEnqueueReadBuffer(%zu bytes)", d->name, bytes));
    return gs_cl_check(clFlush(cl->queue), "%s: clFlush", d->name);
}

gs_status gs_cl_read_end(gs_device *d) {
    gs_cl *cl = gs_cl_of(d);
    if (!cl->reading) return GS_OK;
    cl_int error = clWaitForEvents(1, &cl->reading);
    clReleaseEvent(cl->reading);
    cl->reading = NULL;
    return gs_cl_check(error, "%s: a read, or what came before it", d->name);
}

gs_status gs_cl_map(gs_device *d, gs_mem m, size_t bytes, void **host) {
    *host = NULL;
    if (d->dry) *host = (float *)m.base + m.at;
    if (d->dry) return GS_OK;
    if (bytes == 0) return gs_cl_finish(d);
    cl_int error;
    *host = clEnqueueMapBuffer(gs_cl_of(d)->queue, buffer_of(m), CL_TRUE, CL_MAP_READ | CL_MAP_WRITE,
                               bytes_at(m), bytes, 0, NULL, NULL, &error);
    return gs_cl_check(error, "%s: clEnqueueMapBuffer(%zu bytes)", d->name, bytes);
}

gs_status gs_cl_unmap(gs_device *d, gs_mem m, void *host) {
    if (!host || d->dry) return GS_OK;
    return gs_cl_check(clEnqueueUnmapMemObject(gs_cl_of(d)->queue, buffer_of(m), host, 0, NULL, NULL),
                       "%s: clEnqueueUnmapMemObject", d->name);
}

gs_status gs_cl_fill(gs_device *d, gs_mem x, float value, size_t count) {
    return GS_CL_RUN(d, "memory", "fill", gs_cl_elements(d, count), x, value, count);
}

gs_status gs_cl_copy(gs_device *d, gs_mem to, gs_mem from, size_t count) {
    if (count == 0 || d->dry) return GS_OK;
    size_t bytes = count * sizeof(cl_float);
    return gs_cl_check(clEnqueueCopyBuffer(gs_cl_of(d)->queue, buffer_of(from), buffer_of(to), bytes_at(from),
                                           bytes_at(to), bytes, 0, NULL, NULL),
                       "%s: clEnqueueCopyBuffer(%zu bytes)", d->name, bytes);
}

gs_status gs_cl_finish(gs_device *d) {
    return gs_cl_check(clFinish(gs_cl_of(d)->queue), "%s: clFinish", d->name);
}

void gs_cl_close(gs_device *d) {
    gs_cl *cl = gs_cl_of(d);
    if (!cl) return;
    if (cl->queue) clFinish(cl->queue);
    gs_cl_offload_close(d);
    for (int i = 0; i < GS_CL_SCRATCHES; i++) gs_cl_free(d, cl->scratch[i]);
    gs_cl_free(d, cl->next);
    for (size_t i = 0; i < cl->table_count; i++) gs_cl_free(d, cl->tables[i].table);
    free(cl->tables);
    for (int i = 0; i < GS_STAGES; i++) {
        if (cl->staging[i].done) clReleaseEvent(cl->staging[i].done);
        free(cl->staging[i].bytes);
    }
    if (cl->reading) clReleaseEvent(cl->reading);
    gs_cl_programs_free(cl);
    gs_cl_lock();
    if (cl->queue) clReleaseCommandQueue(cl->queue);
    if (cl->context) clReleaseContext(cl->context);
    if (cl->part) clReleaseDevice(cl->id);
    gs_cl_give_number_back(cl->number);
    gs_cl_unlock();
    free(cl);
    d->state = NULL;
}
