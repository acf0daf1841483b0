#include "gemm.clh"

/* One element of C for each work-item (j, i): what a product is, in the plainest words. Used on a CPU where C is
 * narrower than a vector, or the sum shorter than one; seldom, so it is not compiled with the other products. */
__kernel void gemm_plain(__global float *c, ulong c_at, __global const float *a, ulong a_at,
                         __global const float *b, ulong b_at, __global const float *bias, ulong bias_at,
                         gemm_sizes s) {
    const size_t j = get_global_id(0), i = get_global_id(1);
    if (j >= s.n) return;
    a += a_at + i * s.a_row;
    b += b_at + j * s.b_col;
    c += c_at + i * s.n + j;
    float sum = s.has_bias ? bias[bias_at + j] : 0;
    for (size_t k = 0; k < s.k; k++) sum = fma(a[k * s.a_col], b[k * s.b_row], sum);
    *c = s.add ? *c + sum : PASSED(sum, s);
}
