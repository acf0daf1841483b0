#include "core/median.h"

#include <stdlib.h>

static int compare(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void gs_sort_doubles(double *x, int count) {
    qsort(x, (size_t)count, sizeof *x, compare);
}

double gs_median(double *x, int count) {
    gs_sort_doubles(x, count);
    return x[(count - 1) / 2];
}
