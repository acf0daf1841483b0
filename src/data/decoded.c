#include "data/decoded.h"
#include "core/usable.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { EMPTY, FULL, IN_WORK };

struct gs_decoded {
    size_t count, bytes;
    unsigned char *memory, *state;
};

gs_status gs_decoded_create(size_t count, size_t bytes, gs_decoded **out) {
    const double all = (double)count * (double)bytes, free_bytes = gs_usable_here().free;
    *out = NULL;
    if (free_bytes > 0 && all > 0.9 * free_bytes)
        return gs_fail(GS_E_MEMORY, "--cache: %zu pictures of %zu bytes are %.3g GB, and %.3g GB are free",
                       count, bytes, all / 1e9, free_bytes / 1e9);
    gs_decoded *d = calloc(1, sizeof *d);
    if (!d) return gs_fail(GS_E_MEMORY, "no memory for a cache of pictures");
    *d = (gs_decoded){.count = count, .bytes = bytes};
    const int private = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE; /* a page is taken when it is written */
    void *memory = mmap(NULL, bytes * count, PROT_READ | PROT_WRITE, private, -1, 0);
    d->memory = memory == MAP_FAILED ? NULL : memory;
    d->state = calloc(count, 1);
    *out = d;
    if (d->memory && d->state) return GS_OK;
    gs_decoded_free(d);
    *out = NULL;
    return gs_fail(GS_E_MEMORY, "--cache: no memory for %zu pictures of %zu bytes", count, bytes);
}

void gs_decoded_free(gs_decoded *d) {
    if (!d) return;
    if (d->memory) munmap(d->memory, d->count * d->bytes);
    free(d->state);
    free(d);
}

bool gs_decoded_get(gs_decoded *d, size_t i, unsigned char *to) {
    if (i >= d->count) gs_bug("gs_decoded_get: picture %zu of %zu", i, d->count);
    if (__atomic_load_n(&d->state[i], __ATOMIC_ACQUIRE) != FULL) return false;
    memcpy(to, d->memory + i * d->bytes, d->bytes);
    return true;
}

void gs_decoded_put(gs_decoded *d, size_t i, const unsigned char *from) {
    unsigned char empty = EMPTY;
    if (!__atomic_compare_exchange_n(&d->state[i], &empty, IN_WORK, false, __ATOMIC_ACQUIRE,
                                     __ATOMIC_RELAXED))
        return;
    memcpy(d->memory + i * d->bytes, from, d->bytes);
    __atomic_store_n(&d->state[i], FULL, __ATOMIC_RELEASE);
}
