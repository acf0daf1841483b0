#include "cl/round16.h"

/* One work-item per block of four random words that this batch uses. */
gs_status gs_cl_dropout(gs_device *d, gs_mem y, gs_mem x, size_t count, gs_dropout_draw draw) {
    if (count == 0) return GS_OK;
    uint64_t blocks = (draw.first + count - 1) / 4 - draw.first / 4 + 1;
    return GS_CL_RUN(d, GS_CL_AS(d, y, "dropout"), "dropout", gs_cl_items(blocks, 64), y, x, count, draw.p,
                     1.0f / (1.0f - draw.p), draw.key, draw.hi, draw.first);
}
