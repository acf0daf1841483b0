/* The median of what was measured: what disturbs a few of many does not count. */
#pragma once

/* Of x[0 .. count - 1], count >= 1; of an even count the smaller of the two in the middle. Sorts x. */
double gs_median(double *x, int count);
