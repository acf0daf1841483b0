/* What the two files of checks of lesson 8 share. */
#pragma once

#include "tasks.h"

/* A short training run: 6000 samples in batches of 333. Nothing divides; step 19 has 6 samples for 8 leaves. */
gs_settings lab_run_on(const char *devices);

/* check_verify.c: task 8.5. */
gs_status lab_check_who_differs(void);
