#include "stored.clh"
#include "philox.clh"

/* y[i] = x[i] scale if uniform(word of element i) >= p, else 0; scale is 1 / (1 - p). Used for forward, and for
 * backward with dy for x and dx for y: the mask is drawn again instead of being stored.
 *
 * One work-item per block of four random words, and thus for up to four elements: this batch may start and end in the
 * middle of a block. Element i of the batch is element first + i of the global batch. */
__kernel void dropout(__global flow *y, ulong y_at, __global const flow *x, ulong x_at, ulong count, float p,
                      float scale, ulong key, ulong hi, ulong first) {
    y += y_at;
    x += x_at;
    ulong block = first / 4 + get_global_id(0);
    if (block * 4 >= first + count) return;
    uint4 words = philox(key, hi, block);
    uint word[4] = {words.x, words.y, words.z, words.w};
    for (int j = 0; j < 4; j++) {
        ulong place = block * 4 + j;
        if (place < first || place >= first + count) continue;
        ulong i = place - first;
        store_one(uniform(word[j]) >= p ? flowing(x[i]) * scale : 0.0f, y + i);
    }
}
