/* A float as the shortest decimal number that stands for it. */
#pragma once

#include <stddef.h>

/* 0.05f -> 0.05, and not 0.0500000007: what was typed. */
double gs_decimal(float);

/* The shortest text that reads back as x; it may have an exponent. */
void gs_decimal_print(double x, char *text, size_t size);
