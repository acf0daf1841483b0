/* The median of measurements: unlike the mean, it is hardly affected by a few disturbed ones. */
#pragma once

/* The median of x[0 .. count - 1], count >= 1; the lower of the middle two if count is even. Sorts x, ascending. */
double gs_median(double *x, int count);

/* Sorts x[0 .. count - 1], ascending. */
void gs_sort_doubles(double *x, int count);
