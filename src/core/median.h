/* The median of measurements: unlike a mean, a few disturbed values do not move it. */
#pragma once

/* Of x[0 .. count - 1], count >= 1; of an even count the smaller of the two in the middle. Sorts x, ascending. */
double gs_median(double *x, int count);

/* Sorts x[0 .. count - 1], ascending. */
void gs_sort_doubles(double *x, int count);
