#include "comm/device.h"

#include <stdio.h>

gs_status gs_device_unmap_after(gs_device *d, gs_mem mem, void *host, gs_status before) {
    if (!host) return before;
    char message[1024];
    snprintf(message, sizeof message, "%s", gs_message());
    gs_status status = d->ops->unmap(d, mem, host);
    return before == GS_OK ? status : gs_fail(before, "%s", message);
}

gs_status gs_call_run_on_device(gs_comm *c, gs_device *d, const gs_call *call, gs_mem in, gs_mem out) {
    gs_call_bytes bytes = gs_call_bytes_of(call, c->rank, c->size);
    void *from = NULL, *to = NULL; /* NULL: nothing is mapped */
    if (bytes.in + bytes.out == 0) GS_TRY(d->ops->finish(d));
    gs_status status = bytes.in > 0 ? d->ops->map(d, in, bytes.in, &from) : GS_OK;
    if (status == GS_OK && bytes.out > 0) status = d->ops->map(d, out, bytes.out, &to);
    if (status == GS_OK) status = gs_call_run(c, call, from, to);
    return gs_device_unmap_after(d, in, from, gs_device_unmap_after(d, out, to, status));
}
