/* Tables of numbers as text: one sample per line, numbers separated by commas, the label in the last column.
 *
 *     length,width,label      a first line without numbers names the columns
 *     5.1,3.5,0
 *     4.9,3.0,1
 *
 * Labels are integers from 0 to 255. If the last columns have names that begin with "target", they hold regression
 * targets instead of a label (GS_REGRESSION in gradsum.h). Numbers may have spaces around them; they are not scaled.
 *
 * --data takes a folder with train.csv and test.csv (eval and predict need only test.csv), or one file whose name ends
 * in .csv: then every tenth sample is for testing, and the others are for training.
 *
 * Format: Shafranovich, "Common format and MIME type for comma-separated values (CSV) files" (RFC 4180, 2005), without
 * quotes around numbers. */
#pragma once

#include "data/dataset.h"

/* True if `file` is one of the files read from `where`. */
bool gs_csv_reads(const char *where, const char *file);

/* gs_csv_set_load (dataset.h): GS_E_FORMAT: lines of different lengths, a field that is not a finite number, a bad
 * label (the message names line and column); no samples; a single column; too many columns for a sample. */
