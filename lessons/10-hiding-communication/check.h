/* Shared by the checks of lesson 10. */
#pragma once

#include "tasks.h"
#include "train/train.h"

/* A model for short runs of three workers, with batches of 333, which nothing divides. */
#define SMALL_CNN "conv 4 3x3 stride 2 pad 1, relu, max_pool 2, flatten, linear 16, tanh, linear 10"

/* check_rounding.c: tasks 10.3 and 10.4. */
gs_status lab_check_bf16(void);
gs_status lab_check_f16(void);
