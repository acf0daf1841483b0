#include "cli/draw/numbers.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>

const char *gs_thousands(double number) {
    static char texts[4][40];
    static int next;
    char digits[32], *out = texts[next = (next + 1) % 4];
    const bool is_speed = number >= 0.01 && number < 9.95 && number != floor(number);
    int n = snprintf(digits, sizeof digits, is_speed ? "%.2g" : "%.0f", number), used = 0;
    for (int i = 0; i < n && used < 38; i++) {
        out[used++] = digits[i];
        if (!is_speed && (n - i - 1) % 3 == 0 && i + 1 < n && digits[i] != '-') out[used++] = ',';
    }
    out[used] = 0;
    return out;
}

double gs_shown(double number) {
    return isnan(number) ? (double)NAN : number;
}

double gs_percent(double share) {
    return round(1000 * share) / 10 + 0.0; /* -0 + 0 is 0 */
}
