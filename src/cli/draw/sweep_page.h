/* The page of `sweep --report`: the table, its picture, and the curves of all batches: of several
 * seeds that of the run with the median steps. */
#pragma once

#include "train/sweep/sweep_line.h"

/* Of the runs that were whole; argv: the command. GS_E_FILE: it cannot be written. */
gs_status gs_sweep_page(const gs_sweep *, const char *path, int argc, char *const *argv);
