#include "core/decimal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

double gs_decimal(float x) {
    char text[32];
    for (int digits = 6; digits <= 9; digits++) { /* 9 are always enough */
        snprintf(text, sizeof text, "%.*g", digits, (double)x);
        if (strtof(text, NULL) == x) break;
    }
    return strtod(text, NULL);
}

void gs_decimal_print(double x, char *text, size_t size) {
    snprintf(text, size, "%.15g", isnan(x) ? (double)NAN : x + 0.0); /* -0 is 0, and no NaN has a sign */
    if (strtod(text, NULL) < x || strtod(text, NULL) > x) snprintf(text, size, "%.17g", x);
}
