/* What most networks for images need, on a CPU, as one program: see training.cl. */
#include "conv2d_rows.cl"
#include "max_pool2d.cl"
