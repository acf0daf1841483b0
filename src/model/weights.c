/* Copy all of a model's weights to the host and back, from the device or from offloaded memory. */
#include <stdlib.h>
#include <zlib.h>
#include "parallel/tensor.h"
#include "model/model.h"

enum { CHUNK = 1 << 18 /* maximum number of floats of offloaded weights in memory at a time */ };

/* Used when the weights are on the host and the state is on the device. */
static gs_status copy_in_windows(gs_model *m, float *to, const float *from) {
    gs_device *d = m->device;
    const size_t state = (m->saved - m->params) * sizeof(float);
    const gs_mem here = gs_at(m->weights, m->params);
    GS_TRY(d->ops->settle(d));
    if (to && to != m->offloaded_weights)
        gs_host_copy(d, to, m->offloaded_weights, m->params * sizeof(float));
    if (from) gs_host_copy(d, m->offloaded_weights, from, m->params * sizeof(float));
    if (to) GS_TRY(gs_host_read(d, to + m->params, here, state));
    return from ? d->ops->write(d, here, from + m->params, state) : GS_OK;
}

/* Offloaded weights are copied in chunks, so that they need not all be in memory. */
static gs_status copy_weights(gs_model *m, float *to, const float *from) {
    gs_device *d = m->device;
    const size_t chunk = m->offloaded_weights ? CHUNK : m->saved;
    if (m->weights_in_windows && m->offloaded_weights) return copy_in_windows(m, to, from);
    for (size_t at = 0; at < m->saved; at += chunk) {
        const size_t bytes = (m->saved - at < chunk ? m->saved - at : chunk) * sizeof(float);
        uint64_t number;
        if (m->offloaded_weights)
            GS_TRY(d->ops->fetch(d, (gs_mem)GS_NONE, m->offloaded_weights + at, bytes, &number));
        if (m->offloaded_weights) GS_TRY(d->ops->settle(d)); /* wait for the previous chunk */
        if (to) GS_TRY(gs_host_read(d, to + at, gs_at(m->weights, at), bytes));
        if (from) GS_TRY(d->ops->write(d, gs_at(m->weights, at), from + at, bytes));
        if (m->offloaded_weights)
            GS_TRY(d->ops->offload(d, m->offloaded_weights + at, (gs_mem)GS_NONE, bytes, NULL));
    }
    return m->offloaded_weights ? d->ops->settle(d) : GS_OK;
}

gs_status gs_model_map_weights(gs_model *m, float **host) {
    void *mapped = m->offloaded_weights;
    if (!m->weights_in_windows)
        GS_TRY(m->device->ops->map(m->device, m->weights, m->saved * sizeof(float), &mapped));
    else /* there is room for the state after the weights */
        GS_TRY(copy_in_windows(m, m->offloaded_weights, NULL));
    *host = mapped;
    return GS_OK;
}

gs_status gs_model_unmap_weights(gs_model *m, float *host) {
    return m->weights_in_windows ? GS_OK : m->device->ops->unmap(m->device, m->weights, host);
}

gs_status gs_model_read_weights(gs_model *m, float *host) {
    return copy_weights(m, host, NULL);
}

/* Keep this rank's shard of each tensor of the whole model. */
static gs_status write_part(gs_model *m, const float *host) {
    const gs_model *whole = m->undivided;
    float *part;
    GS_TRY(GS_NEW(part, m->saved, "a part of %zu weights", m->saved));
    for (int i = 0; i < m->saved_count; i++)
        gs_tensor_get_shard(m->param[i], m->tensor.rank, m->tensor.size, part + m->param[i]->at,
                            host + whole->param[i]->at);
    m->written = (uint32_t)crc32_z(0, (const void *)host, whole->saved * sizeof *host);
    const gs_status status = copy_weights(m, NULL, part);
    free(part);
    return status;
}

gs_status gs_model_write_weights(gs_model *m, const float *host) {
    return m->undivided ? write_part(m, host) : copy_weights(m, NULL, host);
}
