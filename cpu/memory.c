#include "cpu/cpu.h"

#include <stdlib.h>
#include <string.h>

enum { CACHE_LINE = 64 };

gs_status gs_cpu_alloc(gs_device *d, size_t bytes, gs_mem *out) {
    (void)d;
    size_t padded = (bytes + CACHE_LINE) / CACHE_LINE * CACHE_LINE; /* at least one line, also for 0 bytes */
    void *memory = padded > bytes ? aligned_alloc(CACHE_LINE, padded) : NULL;
    if (!memory) return gs_fail(GS_E_MEMORY, "cpu: no memory for %zu bytes", bytes);
    memset(memory, 0, padded);
    *out = (gs_mem){memory, 0};
    return GS_OK;
}

void gs_cpu_free(gs_device *d, gs_mem m) {
    (void)d;
    free(m.base);
}

gs_status gs_cpu_write(gs_device *d, gs_mem to, const void *from, size_t bytes) {
    (void)d;
    if (bytes) memcpy(gs_cpu_floats(to), from, bytes);
    return GS_OK;
}

gs_mem gs_cpu_host_memory(const void *host) {
    return (gs_mem){(void *)(uintptr_t)host, 0}; /* not written to, by the contract, though no longer const */
}

gs_status gs_cpu_read(gs_device *d, void *to, gs_mem from, size_t bytes) {
    (void)d;
    if (bytes) memcpy(to, gs_cpu_floats(from), bytes);
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

typedef struct gs_fill_work {
    float *x, value;
    size_t count;
    int parts;
} gs_fill_work;

static void fill_part(void *context, int part) {
    const gs_fill_work *t = context;
    gs_range r = gs_cpu_range(t->count, part, t->parts);
    for (size_t i = r.begin; i < r.end; i++) t->x[i] = t->value;
}

gs_status gs_cpu_fill(gs_device *d, gs_mem x, float value, size_t count) {
    gs_fill_work t = {gs_cpu_floats(x), value, count, gs_cpu_parts(d, count, 1 << 15)};
    gs_pool_run(gs_cpu_of(d)->pool, t.parts, fill_part, &t);
    return GS_OK;
}

gs_status gs_cpu_clear(gs_device *d, gs_mem dw, size_t dw_count, gs_mem db, size_t db_count) {
    GS_TRY(gs_cpu_fill(d, dw, 0, dw_count));
    return db.base ? gs_cpu_fill(d, db, 0, db_count) : GS_OK;
}

gs_status gs_cpu_copy(gs_device *d, gs_mem to, gs_mem from, size_t count) {
    return gs_cpu_write(d, to, gs_cpu_floats(from), count * sizeof(float));
}

gs_status gs_cpu_finish(gs_device *d) {
    (void)d; /* every operator returns when it is done */
    return GS_OK;
}

void gs_cpu_close(gs_device *d) {
    gs_cpu *cpu = gs_cpu_of(d);
    if (!cpu) return;
    gs_cpu_give_openblas_memory(gs_pool_threads(cpu->pool));
    gs_pool_free(cpu->pool);
    free(cpu->scratch);
    free(cpu);
    d->state = NULL;
}

gs_status gs_cpu_scratch(gs_device *d, size_t count, float **out) {
    gs_cpu *cpu = gs_cpu_of(d);
    if (count > cpu->scratch_count) {
        gs_mem grown;
        GS_TRY(gs_cpu_alloc(d, count * sizeof(float), &grown));
        free(cpu->scratch);
        cpu->scratch = grown.base;
        cpu->scratch_count = count;
    }
    *out = cpu->scratch;
    return GS_OK;
}
