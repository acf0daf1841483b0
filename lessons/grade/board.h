/* The board of `gradsum grade --board`: for each task in which right answers may differ, the hand-ins with all of its
 * points, by what they needed of something that the check counts anyway: loads of a kernel, bytes, gathers. It gives no
 * points. */
#pragma once

#include <cjson/cJSON.h>
#include <stdio.h>

#include "core/error.h"

typedef struct gs_board {
    cJSON *places; /* {"student", "lab", "task", "what", "unit", "measured"} */
} gs_board;

void gs_board_add(gs_board *, const cJSON *marks); /* a student's, see mark.h */
void gs_board_print(gs_board *, FILE *);           /* and frees it */
