/* The kernels of a linear layer with 16-bit x, w and dy: bf16/products and f16/products. */
#include "stored.clh"
#include "gemm.cl"
#include "linear.cl"
