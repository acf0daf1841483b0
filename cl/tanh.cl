#include "elementwise.clh"

/* y = tanh(x) */
GS_UNARY(tanh_forward, tanh(x))

/* forward: y = tanh(x), whose derivative is 1 - y^2 */
GS_BINARY(tanh_backward, dy, y, dy *(1 - y * y))
