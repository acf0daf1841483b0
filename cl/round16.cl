#include "elementwise.clh"
#include "round16.clh"

/* y[i] = x[i], rounded */
GS_UNARY_OF(round_to_bf16, round_bf16)
GS_UNARY_OF(round_to_f16, round_f16)
