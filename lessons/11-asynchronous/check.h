/* What the two files of checks of lesson 11 share. */
#pragma once

#include "tasks.h"

/* A short training run: 6000 samples in batches of 333, so that nothing divides. */
gs_settings lab_run_on(const char *devices);

/* check_local.c: task 11.4. */
gs_status lab_check_steps_alone(void);
