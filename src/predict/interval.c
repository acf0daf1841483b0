/* The formulas of failures.h. */
#include "predict/failures.h"

#include <math.h>

double gs_failures_time(const gs_failures *f, double m, double tau) {
    return m * exp(f->restart / m) * expm1((tau + f->checkpoint) / m) * f->work / tau;
}

double gs_failures_daly(double delta, double m) {
    const double x = delta / (2 * m);
    if (!(delta < 2 * m)) return m;
    return sqrt(2 * delta * m) * (1 + sqrt(x) / 3 + x / 9) - delta;
}
