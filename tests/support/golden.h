/* Golden values: PyTorch's results in f64 (tests/golden/make.py describes the files). */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Compares a tensor with the golden one of this name in "tests/golden/FILE.txt", below the line "case NAME"; if there
 * is none, the test fails. Elements may differ by tolerance * (|wanted| + root mean square of all wanted ones). */
void golden_check(const char *file, const char *name, const char *tensor, const float *got, size_t count,
                  double tolerance, const char *device);
/* The same for integers, which must be equal. */
void golden_check_int(const char *file, const char *name, const char *tensor, const int *got, size_t count,
                      const char *device);
