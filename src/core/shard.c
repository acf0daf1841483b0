#include "core/shard.h"

#include "core/error.h"

gs_shard gs_shard_of(size_t total, int rank, int size) {
    if (size < 1 || rank < 0 || rank >= size) gs_bug("gs_shard_of: rank %d of %d", rank, size);
    size_t parts = (size_t)size, part = (size_t)rank;
    size_t least = total / parts, longer = total % parts; /* the first `longer` parts have least + 1 */
    return (gs_shard){.first = part * least + (part < longer ? part : longer),
                      .count = least + (part < longer ? 1 : 0)};
}
