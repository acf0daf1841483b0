#include "cpu/cpu.h"

#include <stdlib.h>
#include <sys/mman.h>

enum { CACHE_LINE = 64, LARGE = 4 << 20 };

/* Ask for 2 MB pages instead of 4 kB, if the system has them: a core then needs fewer address translations. */
static void want_large_pages(void *memory, size_t bytes) {
    enum { PAGE = 4096 };
    const size_t off = (size_t)(-(uintptr_t)memory % PAGE);
    if (bytes >= LARGE) madvise((char *)memory + off, bytes - off, MADV_HUGEPAGE);
}

gs_status gs_cpu_alloc(gs_device *d, size_t bytes, gs_mem *out) {
    size_t padded = (bytes + CACHE_LINE) / CACHE_LINE * CACHE_LINE; /* at least one line, even for 0 bytes */
    void *memory = padded <= bytes ? NULL : d->dry ? gs_dry_alloc(padded) : aligned_alloc(CACHE_LINE, padded);
    if (!memory) return gs_fail(GS_E_MEMORY, "cpu: no memory for %zu bytes", bytes);
    if (!d->dry) want_large_pages(memory, padded);
    if (!d->dry) memset(memory, 0, padded);
    *out = (gs_mem){.base = memory};
    const gs_status status = gs_ledger_add(&d->memory, GS_ON_DEVICE, d->kind, memory, padded);
    if (status != GS_OK) gs_cpu_free(d, *out);
    return status;
}

void gs_cpu_free(gs_device *d, gs_mem m) {
    const size_t bytes = gs_ledger_remove(&d->memory, m.base);
    if (d->dry && bytes)
        gs_dry_free(m.base, bytes);
    else
        free(m.base);
}

void gs_cpu_set_dry(gs_device *d) {
    gs_pool_set_dry(gs_cpu_of(d)->pool);
}

gs_status gs_cpu_write(gs_device *d, gs_mem to, const void *from, size_t bytes) {
    if (bytes && !d->dry) memcpy(gs_cpu_floats(to), from, bytes);
    return GS_OK;
}

gs_mem gs_cpu_host_memory(const void *host) {
    return (gs_mem){.base = (void *)(uintptr_t)host}; /* written to only where backend.h allows it */
}

gs_status gs_cpu_read(gs_device *d, void *to, gs_mem from, size_t bytes) {
    if (d->dry)
        gs_dry_read(to, bytes);
    else if (bytes)
        memcpy(to, gs_cpu_floats(from), bytes);
    return GS_OK;
}

gs_status gs_cpu_map(gs_device *d, gs_mem m, size_t bytes, void **host) {
    (void)d, (void)bytes;
    *host = gs_cpu_floats(m);
    return GS_OK;
}

gs_status gs_cpu_unmap(gs_device *d, gs_mem m, void *host) {
    (void)d, (void)m, (void)host;
    return GS_OK;
}

typedef struct fill_work {
    float *x, value;
    size_t count;
    int parts;
} fill_work;

static void fill_part(void *context, int part) {
    const fill_work *t = context;
    gs_range r = gs_cpu_range(t->count, part, t->parts);
    for (size_t i = r.begin; i < r.end; i++) t->x[i] = t->value;
}

gs_status gs_cpu_fill(gs_device *d, gs_mem x, float value, size_t count) {
    fill_work t = {gs_cpu_floats(x), value, count, gs_cpu_parts(d, count, 1 << 15)};
    return gs_cpu_run(d, t.parts, fill_part, &t);
}

gs_status gs_cpu_copy(gs_device *d, gs_mem to, gs_mem from, size_t count) {
    return gs_cpu_write(d, to, gs_cpu_floats(from), count * sizeof(float));
}

gs_status gs_cpu_finish(gs_device *d) {
    (void)d; /* every operator finishes before it returns */
    return GS_OK;
}

void gs_cpu_close(gs_device *d) {
    gs_cpu *cpu = gs_cpu_of(d);
    if (!cpu) return;
    gs_cpu_give_openblas_memory(gs_pool_threads(cpu->pool));
    gs_cpu_offload_close(cpu);
    gs_pool_free(cpu->pool);
    gs_cpu_free(d, (gs_mem){.base = cpu->scratch});
    gs_cpu_free(d, (gs_mem){.base = cpu->rounded});
    free(cpu);
    d->state = NULL;
}

static gs_status grow(gs_device *d, float **memory, size_t *had, size_t count, float **out) {
    if (count > *had) {
        gs_mem grown;
        gs_cpu_free(d, (gs_mem){.base = *memory}); /* first, because its content is no longer needed */
        *memory = NULL;
        *had = 0;
        GS_TRY(gs_alloc(d, GS_MEMORY_WORKSPACE, count * sizeof(float), &grown));
        *memory = grown.base;
        *had = count;
    }
    *out = *memory;
    return GS_OK;
}

gs_status gs_cpu_scratch(gs_device *d, size_t count, float **out) {
    return grow(d, &gs_cpu_of(d)->scratch, &gs_cpu_of(d)->scratch_count, count, out);
}

gs_status gs_cpu_scratch_rounded(gs_device *d, size_t count, float **out) {
    return grow(d, &gs_cpu_of(d)->rounded, &gs_cpu_of(d)->rounded_count, count, out);
}
