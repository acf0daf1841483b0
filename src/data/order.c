#include "data/order.h"

#include "core/error.h"
#include "core/philox.h"

void gs_epoch_order(uint64_t seed, uint64_t epoch, size_t n, uint32_t *order) {
    if (n > UINT32_MAX) gs_bug("gs_epoch_order: %zu samples, at most %u", n, UINT32_MAX);
    for (size_t i = 0; i < n; i++) order[i] = (uint32_t)i;

    /* Fisher-Yates: element i is swapped with a uniformly chosen one of 0..i, so that all n! orders are equally likely.
     * One Philox block supplies the words for four elements. */
    uint64_t stream = gs_stream_hi(GS_STREAM_ORDER, epoch), block = UINT64_MAX;
    uint32_t word[4];
    for (size_t i = n; i-- > 1;) {
        if (i / 4 != block) {
            block = i / 4;
            gs_philox(seed, stream, block, word);
        }
        /* word / 2^32 is in [0, 1), so j is in 0..i, without division or rejection. The error is below n / 2^32. */
        size_t j = (size_t)((uint64_t)word[i % 4] * (i + 1) >> 32);
        uint32_t kept = order[i];
        order[i] = order[j];
        order[j] = kept;
    }
}
