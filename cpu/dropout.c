#include "cpu/cpu.h"

#include "core/philox.h"

/* Element i of the batch is element `first + i` of the global batch; four of those share one philox block. */
static void drop(float *to, const float *from, size_t count, gs_dropout_draw draw) {
    const float scale = 1.0f / (1.0f - draw.p);
    uint32_t word[4];
    uint64_t have = UINT64_MAX; /* the block that `word` holds */
    for (size_t i = 0; i < count; i++) {
        uint64_t place = draw.first + i;
        if (place / 4 != have) {
            have = place / 4;
            gs_philox(draw.key, draw.hi, have, word);
        }
        to[i] = gs_uniform(word[place % 4]) >= draw.p ? from[i] * scale : 0.0f;
    }
}

/* y = x mask / (1 - p) */
gs_status GS_ISA(dropout_forward)(gs_device *d, gs_mem y, gs_mem x, size_t count, gs_dropout_draw draw) {
    (void)d;
    drop(gs_cpu_floats(y), gs_cpu_floats(x), count, draw);
    return GS_OK;
}

/* forward: y = x mask / (1 - p), so dx = dy mask / (1 - p); the mask is drawn again instead of being kept */
gs_status GS_ISA(dropout_backward)(gs_device *d, gs_mem dx, gs_mem dy, size_t count, gs_dropout_draw draw) {
    (void)d;
    drop(gs_cpu_floats(dx), gs_cpu_floats(dy), count, draw);
    return GS_OK;
}
