#include "elementwise.clh"
#include "functions.clh"

/* y = 1 / (1 + exp(-x)); where exp(-x) overflows to infinity, y is 0, as it should be */
static vec sigmoid_of(vec x) {
    return 1 / (1 + gs_exp(-x));
}
GS_UNARY_OF(sigmoid_forward, sigmoid_of)

/* forward: y = 1 / (1 + exp(-x)), whose derivative is y (1 - y) */
GS_BINARY(sigmoid_backward, dy, y, dy *y *(1 - y))
