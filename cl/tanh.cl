#include "elementwise.clh"
#include "functions.clh"

/* y = tanh(x) */
GS_UNARY_OF(tanh_forward, gs_tanh_of)

/* forward: y = tanh(x), whose derivative is 1 - y^2 */
GS_BINARY(tanh_backward, dy, y, dy *(1 - y * y))
