/* The kernels of a linear layer whose x, w and dy lie in 16 bits. */
#define STORED_F16
#include "gemm.cl"
#include "linear.cl"
