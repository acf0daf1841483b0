/* Numbers as people type them, optionally with a unit: "0.05", "50us", "125MB/s". */
#pragma once

#include <stdbool.h>
#include <stddef.h>

typedef struct gs_unit {
    const char *name;
    double times, per; /* a unit is times / per, both whole: 0.1ms and 100us give the same number */
} gs_unit;

extern const gs_unit gs_units_none[]; /* no unit */
extern const gs_unit gs_units_time[]; /* in seconds: us, ms, s. A NULL name ends each table */
extern const gs_unit gs_units_rate[]; /* in bytes per second: B/s, kB/s, MB/s, GB/s */
extern const gs_unit gs_units_bits[]; /* also in bytes per second: bit/s, kbit/s, Mbit/s, Gbit/s */

/* Read a number and one of the units directly after it: *value is the result, and *text moves past them. False: *text
 * does not begin with a number and a unit. */
bool gs_unit_read(const char **text, const gs_unit *units, double *value);

/* Writes "50us": in the largest unit that gives at least 1, with the fewest digits that read back the same. */
void gs_unit_print(double value, const gs_unit *units, char *text, size_t size);

/* The shortest decimal that reads back as this float: 0.05f -> 0.05, not 0.0500000007. */
double gs_decimal(float);

/* The shortest text that reads back as x, possibly with an exponent. */
void gs_decimal_print(double x, char *text, size_t size);
