#include "elementwise.clh"

/* y = max(x, 0); a NaN stays a NaN, so that a diverged run is noticed */
GS_UNARY(relu_forward, OF_RELU(x < 0 ? 0 : x))

#ifdef STORED_FLOATS
/* forward: y = max(x, 0), so dy passes where y > 0; for a 16-bit y: `pass` in round16.cl */
GS_BINARY(relu_backward, dy, y, y > 0 ? dy : 0)
#endif
