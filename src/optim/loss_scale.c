#include "optim/loss_scale.h"

#include <math.h>

bool gs_loss_scale_is_valid(double scale, uint64_t good) {
    int exponent;
    const double fraction = frexp(scale, &exponent);
    return scale >= (double)GS_LOSS_SCALE_LEAST && scale <= (double)GS_LOSS_SCALE_MOST && !(fraction > 0.5) &&
           good < GS_LOSS_SCALE_STEPS;
}
