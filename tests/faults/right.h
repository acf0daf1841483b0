/* Right runs: layouts of which `gradsum explain` must say nothing. */
#pragma once

#include "gradsum.h"

extern const int right_runs;
void right_settings(int i, gs_settings *, char *name, size_t size);
