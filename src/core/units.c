#include "core/units.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

void gs_unit_print(double value, const gs_unit *units, char *text, size_t size) {
    char number[32];
    while (units[1].name && value >= units[1].times / units[1].per) units++;
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(number, sizeof number, "%.*g", digits, value * units->per / units->times);
        double back = strtod(number, NULL) * units->times / units->per;
        if (back >= value && back <= value) break;
    }
    snprintf(text, size, "%s%s", number, units->name);
}
