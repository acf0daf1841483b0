#include "stored.clh"

/* Philox4x32-10, as in src/core/philox.c and explained in src/core/philox.h. The counter is (lo, hi), 64 bits each. */
static uint4 philox(ulong key, ulong hi, ulong lo) {
    uint2 k = (uint2)((uint)key, (uint)(key >> 32));
    uint4 c = (uint4)((uint)lo, (uint)(lo >> 32), (uint)hi, (uint)(hi >> 32));
    for (int round = 0; round < 10; round++) {
        ulong p0 = (ulong)0xD2511F53u * c.x, p1 = (ulong)0xCD9E8D57u * c.z;
        c = (uint4)((uint)(p1 >> 32) ^ c.y ^ k.x, (uint)p1, (uint)(p0 >> 32) ^ c.w ^ k.y, (uint)p0);
        k += (uint2)(0x9E3779B9u, 0xBB67AE85u);
    }
    return c;
}

/* A word as a float in [0, 1), from its upper 24 bits. It is exact, and so the same on every device. */
static float uniform(uint word) {
    return convert_float(word >> 8) * (1.0f / 16777216.0f);
}

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
