/* The kernels that every training step needs, as one program: PoCL 3.1 spends half a second on each program, in
 * addition to the time for its kernels. */
#include "data.cl"
#include "gemm.cl"
#include "linear.cl"
#include "memory.cl"
#include "sgd.cl"
#include "softmax_cross_entropy.cl"
#include "stats.cl"
