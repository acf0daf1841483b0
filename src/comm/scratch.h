/* Memory that an operation needs for a moment. It is kept from one call to the next, and grows when a call needs more,
 * so a training step allocates nothing. For one operation at a time. Only for src/comm/.
 */
#pragma once

#include <stddef.h>
#include <stdlib.h>
#include "comm/call.h"
#include "core/error.h"

typedef struct gs_scratch {
    void *memory;
    size_t bytes;
} gs_scratch;

/* At least `bytes` bytes; the old contents are lost. NULL: out of memory. */
static inline void *gs_scratch_take(gs_scratch *s, size_t bytes) {
    if (s->memory && bytes <= s->bytes) return s->memory;
    free(s->memory);
    s->bytes = bytes;
    return s->memory = malloc(bytes + 1);
}

static inline void gs_scratch_free(gs_scratch *s) {
    free(s->memory);
    *s = (gs_scratch){0};
}

/* The same for a call: GS_E_MEMORY, "reduce: no memory for 100 bytes". */
static inline gs_status gs_scratch_for(gs_scratch *s, const gs_call *call, size_t bytes) {
    if (gs_scratch_take(s, bytes)) return GS_OK;
    return gs_fail(GS_E_MEMORY, "%s: no memory for %zu bytes", gs_operation_name(call->operation), bytes);
}
