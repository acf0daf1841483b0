#include "backend.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "core/text.h"

/* Append "..., there are: cpu, cl:0.0 (pthread-skylake, up to 2 parts)" to the message of a failed open. */
static gs_status list_in_message(gs_status status) {
    gs_device_info *all;
    int count;
    const char *problem;
    char text[700] = "";
    char failure[400];
    snprintf(failure, sizeof failure, "%s", gs_message());
    if (gs_device_list(&all, &count, &problem) != GS_OK) return gs_fail(status, "%s", failure);
    for (int i = 0; i < count; i++)
        gs_append(text, sizeof text, "%s%s (%.60s)", i ? ", " : "", all[i].name, all[i].description);
    free(all);
    size_t length = strlen(failure);
    bool asks = length > 0 && failure[length - 1] == '?';
    return gs_fail(status, "%s%s there are: %s%s%s", failure, asks ? "" : ";", text,
                   problem && *problem ? "; " : "", problem ? problem : "");
}

/* Other programs say "gpu", which here means cl, although the word is nearer to "cpu"; or how many. */
static gs_status no_such_device(const char *name) {
    static const char *const names[] = {"cpu", "cl", NULL};
    bool gpu = strcmp(name, "gpu") == 0 || strcmp(name, "cuda") == 0 || strcmp(name, "opencl") == 0;
    bool count = strspn(name, "0123456789") == strlen(name);
    return gs_fail(GS_E_USAGE, "device '%s': wanted cpu, cl, cl:PLATFORM.DEVICE or cl:P.D/KofN%s", name,
                   gpu     ? "; did you mean cl?"
                   : count ? "; two workers are --devices cpu,cpu"
                           : gs_did_you_mean(name, names));
}

gs_status gs_device_open(const char *name, int threads, gs_device **out) {
    gs_device *d = calloc(1, sizeof *d);
    if (!d) return gs_fail(GS_E_MEMORY, "no memory for a device");
    gs_status status;
    gs_ledger_create(&d->memory);
    d->kind = GS_MEMORY_WORKSPACE;
    if (strlen(name) >= sizeof d->name) {
        status = gs_fail(GS_E_USAGE, "device '%.40s...': the name is too long", name);
    } else {
        snprintf(d->name, sizeof d->name, "%s", name);
        if (strcmp(name, "cpu") == 0)
            status = gs_cpu_open(d, threads);
        else if (strcmp(name, "cl") == 0 || strncmp(name, "cl:", 3) == 0)
            status = gs_cl_open(d);
        else
            status = no_such_device(name);
    }
    if (status != GS_OK) {
        gs_ledger_free(&d->memory);
        free(d);
        return status == GS_E_DEVICE || status == GS_E_USAGE ? list_in_message(status) : status;
    }
    *out = d;
    return GS_OK;
}

void *gs_dry_alloc(size_t bytes) {
    void *memory =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

void gs_dry_free(void *memory, size_t bytes) {
    munmap(memory, bytes);
}

void *gs_host_malloc(const gs_device *d, size_t bytes) {
    return malloc(d->dry && bytes > GS_DRY_READ ? GS_DRY_READ : bytes + 1);
}

void gs_device_set_dry(gs_device *d) {
    d->dry = true;
    if (strcmp(d->ops->name, "cpu") == 0) gs_cpu_set_dry(d);
}

gs_status gs_device_set_exact(gs_device *d) {
    d->exact = d->fixed_order = true;
    if (strcmp(d->ops->name, "cpu") == 0) gs_cpu_set_exact(d);
    return gs_device_check_arithmetic(d);
}

void gs_device_close(gs_device *d) {
    if (!d) return;
    d->ops->close(d);
    gs_ledger_free(&d->memory);
    free(d);
}

gs_status gs_device_list(gs_device_info **out, int *count, const char **problem) {
    gs_device_info *all;
    GS_TRY(GS_NEW(all, 1, "a list of devices"));
    gs_status status = gs_cpu_info(all);
    *count = 1;
    if (status == GS_OK) status = gs_cl_list(&all, count, problem);
    if (status == GS_OK)
        *out = all;
    else
        free(all);
    return status;
}

gs_epilogue gs_epilogue_of(gs_device *d, const gs_epilogue *then, const gs_conv2d_sizes *s) {
    if (!then || (!then->relu && !then->pool)) return (gs_epilogue){.relu = false};
    const gs_pool2d_sizes *p = then->pool;
    if (!d->ops->fuses(d, then)) gs_bug("%s: an epilogue that this device does not take", d->name);
    if (s && gs_conv2d_is_grouped(s)) gs_bug("%s: conv2d with groups or dilation, and an epilogue", d->name);
    if (p && !s) gs_bug("%s: linear with a pooling", d->name);
    if (p && (p->c != s->out_c || p->in_h != s->out_h || p->in_w != s->out_w))
        gs_bug("%s: conv2d's y is (%d,%d,%d), its epilogue pools (%d,%d,%d)", d->name, s->out_c, s->out_h,
               s->out_w, p->c, p->in_h, p->in_w);
    return *then;
}
