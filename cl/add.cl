#include "elementwise.clh"

/* y = a + b */
GS_BINARY(add, a, b, a + b)
