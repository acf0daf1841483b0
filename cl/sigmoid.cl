#include "elementwise.clh"

/* y = 1 / (1 + exp(-x)); where exp(-x) overflows to infinity, y is 0, as it should be */
GS_UNARY(sigmoid_forward, 1 / (1 + exp(-x)))

/* forward: y = 1 / (1 + exp(-x)), whose derivative is y (1 - y) */
GS_BINARY(sigmoid_backward, dy, y, dy *y *(1 - y))
