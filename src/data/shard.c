#include "data/shard.h"

#include "core/error.h"
#include "core/philox.h"

gs_shard gs_shard_of(size_t total, int rank, int size) {
    if (size < 1 || rank < 0 || rank >= size) gs_bug("gs_shard_of: rank %d of %d", rank, size);
    size_t parts = (size_t)size, part = (size_t)rank;
    size_t least = total / parts, longer = total % parts; /* the first `longer` parts have least + 1 */
    return (gs_shard){.first = part * least + (part < longer ? part : longer),
                      .count = least + (part < longer ? 1 : 0)};
}

void gs_epoch_order(uint64_t seed, uint64_t epoch, size_t n, uint32_t *order) {
    if (n > UINT32_MAX) gs_bug("gs_epoch_order: %zu samples, at most %u", n, UINT32_MAX);
    for (size_t i = 0; i < n; i++) order[i] = (uint32_t)i;

    /* Fisher-Yates: element i changes places with one of 0..i, each as likely as the others, so that all n!
     * orders are equally likely. One Philox block gives the words of four elements. */
    uint64_t stream = gs_stream_hi(GS_STREAM_ORDER, epoch), block = UINT64_MAX;
    uint32_t word[4];
    for (size_t i = n; i-- > 1;) {
        if (i / 4 != block) {
            block = i / 4;
            gs_philox(seed, stream, block, word);
        }
        /* word / 2^32 is in [0, 1), so j is in 0..i; no division, and no rejection: the error is below n /
         * 2^32 */
        size_t j = (size_t)((uint64_t)word[i % 4] * (i + 1) >> 32);
        uint32_t kept = order[i];
        order[i] = order[j];
        order[j] = kept;
    }
}
