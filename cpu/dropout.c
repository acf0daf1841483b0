#include "cpu/cpu.h"

#include "core/philox.h"

/* Element i of the batch is element `first + i` of the global batch; four such elements share one philox block. */
gs_status GS_ISA(gs_cpu_dropout)(gs_device *d, gs_mem y, gs_mem x, size_t count, gs_dropout_draw draw) {
    (void)d;
    float *to = gs_cpu_floats(y);
    const float *from = gs_cpu_floats(x);
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
    return GS_OK;
}
