/* Numbers as people type them, also with a unit: "0.05", "50us", "125MB/s". */
#pragma once

#include <stdbool.h>
#include <stddef.h>

typedef struct gs_unit {
    const char *name;
    double times, per; /* one of it is times / per, both whole: so 0.1ms and 100us are the same number */
} gs_unit;

extern const gs_unit gs_units_none[]; /* a number alone */
extern const gs_unit gs_units_time[]; /* in seconds: us, ms, s; a NULL name ends each table */
extern const gs_unit gs_units_rate[]; /* in bytes a second: B/s, kB/s, MB/s, GB/s */
extern const gs_unit gs_units_bits[]; /* the same: bit/s, kbit/s, Mbit/s, Gbit/s */

/* Read a number and, directly behind it, one of the units: *value is their value, and *text moves behind them. False:
 * *text does not begin so. */
bool gs_unit_read(const char **text, const gs_unit *units, double *value);

/* "50us": in the largest unit that gives at least 1, with as few digits as read back the same. */
void gs_unit_print(double value, const gs_unit *units, char *text, size_t size);

/* The shortest decimal number that gives this float: 0.05f -> 0.05, not 0.0500000007. */
double gs_decimal(float);

/* The shortest text that reads back as x; it may have an exponent. */
void gs_decimal_print(double x, char *text, size_t size);
