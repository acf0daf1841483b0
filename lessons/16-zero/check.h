/* What the checks of lab 16 share. */
#pragma once

#include "tasks.h"

gs_status check_zero1_step(void);
gs_status check_zero3_pass(void);
