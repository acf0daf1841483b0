/* What the checks of lab 22 share. */
#pragma once

#include "core/error.h"

/* Rows of drawn numbers (lab_number, lab_pick), one for each kind. */
enum { ROWS_ROW = 220, SIZES_ROW, PLACES_ROW, RANKS_ROW, WHO_ROW, COUNTS_ROW, NAMES_ROW };
enum { DRAWS_ROW = NAMES_ROW + 1, SQUARES_ROW };

gs_status check_differs(void);
gs_status check_before(void);
gs_status check_of_sum(void);
gs_status check_of_loss(void);
gs_status check_of_draws(void);
gs_status check_shrink(void);
