#include "core/median.h"

#include <stdlib.h>

static int compare(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double gs_median(double *x, int count) {
    qsort(x, (size_t)count, sizeof *x, compare);
    return x[(count - 1) / 2];
}
