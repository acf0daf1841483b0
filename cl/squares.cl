#include "common.clh"

/* Largest element and sum of squares, in integers: src/optim/norm.h. Each work-group writes its result to `part`, and
 * the host adds them up: OpenCL 1.2 has no 64-bit atomics. On a GPU a group is GS_SUM_ITEMS work-items, which read
 * neighbouring elements; on a CPU it is one work-item, with a contiguous part of the array.
 *
 *     part    the largest element of each group; then each group's high and low, as two words each */
#ifdef GS_GPU
#define SUMMERS GS_SUM_ITEMS
#define OF_SUMMERS __attribute__((reqd_work_group_size(SUMMERS, 1, 1)))
#define EACH_ELEMENT(i) for (size_t i = get_global_id(0); i < count; i += (size_t)groups * SUMMERS)
#else
#define SUMMERS 1
#define OF_SUMMERS
#define EACH_ELEMENT(i)                                                                                      \
    for (size_t i = count * GROUP / groups, end = count * (GROUP + 1) / groups; i < end; i++)
#endif
#define GROUP (get_global_id(0) / SUMMERS)
#define SUMMER (get_global_id(0) % SUMMERS)

__kernel OF_SUMMERS void squares_largest(__global uint *part, ulong part_at, __global const uint *x,
                                         ulong x_at, ulong count, int groups) {
    uint mine = 0;
    x += x_at;
    EACH_ELEMENT(i) mine = max(mine, x[i] & 0x7fffffff);
#ifdef GS_GPU
    __local uint found[SUMMERS];
    found[SUMMER] = mine;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (SUMMER != 0) return;
    for (int k = 1; k < SUMMERS; k++) mine = max(mine, found[k]);
#endif
    part[part_at + GROUP] = mine;
}

/* top: the lower limit for the largest exponent */
__kernel OF_SUMMERS void squares_sum(__global uint *part, ulong part_at, __global const uint *x, ulong x_at,
                                     ulong count, int groups, int top) {
    ulong high = 0, low = 0;
    uint largest = (uint)top << 23;
    part += part_at;
    x += x_at;
    for (int k = 0; k < groups; k++) largest = max(largest, part[k]);
    const uint exponent = largest >> 23;
    EACH_ELEMENT(i) {
        const uint bits = x[i] & 0x7fffffff, e = bits >> 23;
        const ulong m = (bits & 0x7fffff) | (e > 0 ? 0x800000 : 0);
        const ulong shift = min(2 * (exponent - max(e, 1u)), 63u); /* m^2 2^14 < 2^62 */
        const ulong square = ((m * m) << 14) >> shift;
        high += square >> 32;
        low += square & 0xffffffff;
    }
#ifdef GS_GPU
    __local ulong highs[SUMMERS], lows[SUMMERS];
    highs[SUMMER] = high;
    lows[SUMMER] = low;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (SUMMER != 0) return;
    for (int k = 1; k < SUMMERS; k++) {
        high += highs[k];
        low += lows[k];
    }
#endif
    part += (size_t)groups + 4 * GROUP;
    part[0] = (uint)high;
    part[1] = (uint)(high >> 32);
    part[2] = (uint)low;
    part[3] = (uint)(low >> 32);
}
