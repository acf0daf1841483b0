/* Tables of numbers as text: a sample in each line, its numbers with commas between them, its label in the last column.
 *
 *     length,width,label      a first line without numbers names the columns, and is no sample
 *     5.1,3.5,0
 *     4.9,3.0,1
 *
 * Labels are whole numbers from 0 to 255. Columns at the end whose names begin with "target" are the targets of a
 * regression, in place of a label (GS_REGRESSION in model/model.h). Numbers may have spaces around them; they are taken
 * as they are, for scaling is up to whoever writes the file.
 *
 * --data takes a folder with train.csv and test.csv (a test set alone will do for eval and predict), or one file whose
 * name ends in .csv: then every tenth sample is for testing, and the others are for training.
 *
 * Format: Shafranovich, "Common format and MIME type for comma-separated values (CSV) files" (RFC 4180, 2005), without
 * quotes around numbers.
 */
#pragma once

#include "data/dataset.h"

/* Is `file` one of those that are read there? */
bool gs_csv_reads(const char *where, const char *file);

/* gs_csv_set_load (dataset.h): GS_E_FORMAT names the line and the column: lines of different lengths, what is no finite
 * number, a label that is none; no samples; a single column; more columns than a sample may have. */
