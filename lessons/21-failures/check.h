/* What the checks of lab 21 share. */
#pragma once

#include "tasks.h"

/* Rows of drawn numbers (lab_number, lab_pick), one for each kind. */
enum { BYTES_ROW, VALUES_ROW, FILES_ROW, DAMAGE_ROW, ORDER_ROW, KINDS_ROW, TIMES_ROW, WAITS_ROW, CARDS_ROW };

gs_status check_save(void);   /* 21.1: check_disk.c */
gs_status check_newest(void); /* 21.2: check.c */
gs_status check_costs(void);  /* 21.3: check_costs.c */
