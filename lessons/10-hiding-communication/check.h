/* What the two files of checks of lesson 10 share. */
#pragma once

#include "tasks.h"
#include "train/train.h"

/* A short training run of three workers: batches of 333, so that nothing divides. */
gs_settings lab_run_of(const char *model);

/* check_rounding.c: tasks 10.3 and 10.4. */
gs_status lab_check_bf16(void);
gs_status lab_check_f16(void);
