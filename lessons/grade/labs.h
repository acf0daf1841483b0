/* A set of labs, by their numbers. */
#pragma once

#include <stdbool.h>
#include "core/error.h"

enum { GS_LABS = 100 }; /* numbers have two digits */

typedef struct gs_labs {
    bool has[GS_LABS];
} gs_labs;

/* The labs of a source tree: its folders lessons/NN-NAME that contain a remote.c. */
gs_labs gs_labs_of_tree(const char *tree);

/* Reads "06,07", and also "6, 7", "6 7", "07,07" and "06,": numbers separated by commas or spaces, in any order and
 * with repetitions. GS_E_USAGE: a lab is unknown (the message names it; "1011" is not "10,11"), or there is none. */
gs_status gs_labs_parse(const char *text, const gs_labs *known, gs_labs *);

/* The number of the first lab from `from` on, or -1. Use: for (int n = -1; (n = gs_labs_next(&labs, n + 1)) >= 0;) */
int gs_labs_next(const gs_labs *, int from);
