/* The kernels of a linear layer whose x, w and dy have 16 bits: bf16/products and f16/products. */
#include "stored.clh"
#include "gemm.cl"
#include "linear.cl"
