/* A set of labs, by their numbers. */
#pragma once

#include <stdbool.h>
#include "core/error.h"

enum { GS_LABS = 100 }; /* numbers have two digits */

typedef struct gs_labs {
    bool has[GS_LABS];
} gs_labs;

/* The labs of a source tree: its folders lessons/NN-NAME with a remote.c. */
gs_labs gs_labs_of_tree(const char *tree);

/* "06,07", also "6, 7", "6 7", "07,07" and "06,": numbers separated by commas or spaces, in any order, with
 * repetitions. GS_E_USAGE: an unknown lab, which is named ("1011" is not "10,11"), or none at all. */
gs_status gs_labs_parse(const char *text, const gs_labs *known, gs_labs *);

/* The number of the first lab from `from` on, or -1: for (int n = -1; (n = gs_labs_next(&labs, n + 1)) >= 0;) */
int gs_labs_next(const gs_labs *, int from);
