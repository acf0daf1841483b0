/* What the checks of lab 19 share. */
#pragma once

#include "tasks.h"

/* Rows of drawn numbers (lab_number, lab_pick). */
enum { TEXT_ROW, WINDOW_ROW, SIZES_ROW, QUERY_ROW, KEYS_ROW, VALUES_ROW, TILES_ROW, RANKS_ROW };
enum { PARTS_ROW = RANKS_ROW + 1, TOKENS_ROW, LOSS_ROW, GRADIENT_ROW, PIECES_ROW, SCORES_ROW, TURNS_ROW };

/* check_sums.c: tasks 19.3 and 19.4 */
gs_status lab_check_mean(void);
gs_status lab_check_clip(void);
