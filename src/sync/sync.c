#include "sync/sync.h"

#include <stdio.h>
#include <string.h>

const gs_sync_scheme *const *gs_sync_schemes(void) {
    static const gs_sync_scheme *const schemes[] = {&gs_sync_allreduce, &gs_sync_ps, NULL};
    return schemes;
}

gs_status gs_sync_find(const char *name, const gs_sync_scheme **out) {
    char names[128] = "";
    for (const gs_sync_scheme *const *s = gs_sync_schemes(); *s; s++) {
        if (strcmp((*s)->name, name) == 0) {
            *out = *s;
            return GS_OK;
        }
        size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, "%s%s", used > 0 ? ", " : "", (*s)->name);
    }
    return gs_fail(GS_E_USAGE, "no way to sum gradients is called '%s'; there are: %s", name, names);
}

gs_status gs_sync_sum(const gs_sync_scheme *scheme, gs_comm *c, gs_device *device, gs_mem data,
                      size_t count) {
    if (c->size == 1) return GS_OK;
    void *host;
    GS_TRY(device->ops->map(device, data, count * sizeof(float), &host));
    gs_status summed = scheme->sum(c, host, count);
    if (summed == GS_OK) return device->ops->unmap(device, data, host);
    /* Unmap here too, but the first message is the one that counts. */
    char message[1024];
    snprintf(message, sizeof message, "%s", gs_message());
    device->ops->unmap(device, data, host);
    return gs_fail(summed, "%s", message);
}
