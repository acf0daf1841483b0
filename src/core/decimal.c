#include "core/decimal.h"

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
