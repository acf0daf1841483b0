/* Shared by the checks of lesson 11. */
#pragma once

#include "tasks.h"

/* For short runs: 6000 samples in batches of 333, which nothing divides. */
#define SMALL_MODEL "flatten, linear 16, tanh, linear 10"
enum { BATCH = 333, RUN_STEPS = 20 };

/* check_local.c: task 11.4. */
gs_status lab_check_steps_alone(void);
