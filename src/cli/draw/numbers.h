/* Numbers as people read them. */
#pragma once

/* 1234567 -> "1,234,567". Four results may be in use at once. */
const char *gs_thousands(double number);

/* A NaN without a sign, which printf would show: "nan" says all there is to say, "-nan" makes one wonder. */
double gs_shown(double number);
