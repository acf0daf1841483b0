#include "core/units.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const gs_unit gs_units_none[] = {{"", 1, 1}, {0}};
const gs_unit gs_units_time[] = {{"us", 1, 1e6}, {"ms", 1, 1e3}, {"s", 1, 1}, {0}};
const gs_unit gs_units_rate[] = {{"B/s", 1, 1}, {"kB/s", 1e3, 1}, {"MB/s", 1e6, 1}, {"GB/s", 1e9, 1}, {0}};
const gs_unit gs_units_bits[] = {
    {"bit/s", 1, 8}, {"kbit/s", 1e3, 8}, {"Mbit/s", 1e6, 8}, {"Gbit/s", 1e9, 8}, {0}};

bool gs_unit_read(const char **text, const gs_unit *units, double *value) {
    char number[32], *end;
    size_t length = strspn(*text, "0123456789.");
    if (length == 0 || length >= sizeof number) return false;
    memcpy(number, *text, length);
    number[length] = '\0';
    *value = strtod(number, &end);
    const char *unit = *text + length;
    if (*end) return false; /* "1.2.3" */
    for (; units->name; units++) {
        size_t name = strlen(units->name);
        if (strncmp(unit, units->name, name) != 0) continue;
        *value = *value * units->times / units->per;
        *text = unit + name;
        return true;
    }
    return false;
}

/* Write x with `digits` digits, no trailing zeros after the point, and no exponent, which gs_unit_read rejects. */
static void print_plain(double x, int digits, char *text, size_t size) {
    char shown[32];
    snprintf(shown, sizeof shown, "%.*e", digits - 1, x);
    const char *exponent = strchr(shown, 'e'); /* inf and nan have none */
    const int after = exponent ? digits - 1 - atoi(exponent + 1) : 0;
    const bool written = snprintf(text, size, "%.*f", after > 0 ? after : 0, x) > 0;
    size_t length = strlen(text);
    if (!written || !strchr(text, '.')) return;
    while (text[length - 1] == '0') length--;
    text[text[length - 1] == '.' ? length - 1 : length] = '\0';
}

void gs_unit_print(double value, const gs_unit *units, char *text, size_t size) {
    char number[32];
    while (units[1].name && value >= units[1].times / units[1].per) units++;
    for (int digits = 6; digits <= 17; digits++) {
        print_plain(value * units->per / units->times, digits, number, sizeof number);
        double back = strtod(number, NULL) * units->times / units->per;
        if (back >= value && back <= value) break;
    }
    snprintf(text, size, "%s%s", number, units->name);
}

/* ---- without a unit ---- */

double gs_decimal(float x) {
    char text[32];
    for (int digits = 6; digits <= 9; digits++) { /* 9 digits are always enough */
        snprintf(text, sizeof text, "%.*g", digits, (double)x);
        if (strtof(text, NULL) == x) break;
    }
    return strtod(text, NULL);
}

void gs_decimal_print(double x, char *text, size_t size) {
    snprintf(text, size, "%.15g", isnan(x) ? (double)NAN : x + 0.0); /* -0 becomes 0, and a NaN has no sign */
    if (strtod(text, NULL) < x || strtod(text, NULL) > x) snprintf(text, size, "%.17g", x);
}
