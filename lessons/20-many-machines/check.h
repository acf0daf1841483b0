/* What the checks of lab 20 share. */
#pragma once

#include "tasks.h"

/* Rows of drawn numbers (lab_number, lab_pick), one for each kind; VALUES_ROW: one for each rank. */
enum { NODES_ROW, COUNTS_ROW, CLUSTERS_ROW, ROWS_ROW, JOBS_ROW, VALUES_ROW };

gs_status check_rendezvous(void); /* 20.1: check_store.c */
gs_status check_sum(void);        /* 20.2: check_sum.c */
