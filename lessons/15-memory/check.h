/* Shared by the checks of lesson 15. */
#pragma once

#include "tasks.h"

/* Rows of drawn numbers (lab_pick). */
enum { LEAST_ROW, PLACE_ROW, Y_ROW, FLOPS_ROW, K_ROW, SECONDS_ROW, BYTES_ROW, BUFFERS_ROW, FINITE_ROW };

/* check_rows.c: tasks 15.3 to 15.5. */
gs_status lab_check_recompute(void);
gs_status lab_check_offload(void);
gs_status lab_check_loss_scale(void);
