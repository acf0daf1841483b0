#include "comm/device.h"

#include <stdio.h>

/* A device's buffer while the host sees it. */
typedef struct view {
    gs_mem mem;
    void *host; /* NULL: nothing is mapped */
} view;

static gs_status show(gs_device *d, gs_mem mem, size_t bytes, view *v) {
    *v = (view){mem, NULL};
    return bytes > 0 ? d->ops->map(d, mem, bytes, &v->host) : GS_OK;
}

/* The first failure and its message are those that count. */
static gs_status hide(gs_device *d, view *v, gs_status before) {
    if (!v->host) return before;
    char message[1024];
    snprintf(message, sizeof message, "%s", gs_message());
    gs_status status = d->ops->unmap(d, v->mem, v->host);
    return before == GS_OK ? status : gs_fail(before, "%s", message);
}

gs_status gs_call_run_on_device(gs_comm *c, gs_device *d, const gs_call *call, gs_mem in, gs_mem out) {
    gs_call_bytes bytes = gs_call_bytes_of(call, c->rank, c->size);
    view from, to = {GS_NONE, NULL};
    if (bytes.in + bytes.out == 0) GS_TRY(d->ops->finish(d));
    gs_status status = show(d, in, bytes.in, &from);
    if (status == GS_OK) status = show(d, out, bytes.out, &to);
    if (status == GS_OK) status = gs_call_run(c, call, from.host, to.host);
    status = hide(d, &to, status);
    return hide(d, &from, status);
}
