#include "elementwise.clh"

/* y = max(x, 0); a NaN stays a NaN, so that a diverged run can be seen */
GS_UNARY(relu_forward, x < 0 ? 0 : x)

/* forward: y = max(x, 0), so dy passes where y > 0 */
GS_BINARY(relu_backward, dy, y, y > 0 ? dy : 0)
