/* Shared by the checks of lesson 14. */
#pragma once

#include "tasks.h"

enum { MOST_WORKERS = 4, MOST_SAMPLES = 6, MOST_CHANNELS = 40, MOST_PLANE = 6 };

/* Rows of drawn numbers (lab_pick, lab_number). */
enum { SHAPE_ROW, PARTS_ROW, BYTE_ROW, X_ROW, DY_ROW, WEIGHT_ROW, GROUP_ROW, RUNNING_ROW, CUT_ROW };

/* A global batch, and how many of its samples each worker has. */
typedef struct batch {
    int workers;
    size_t samples[MOST_WORKERS], channels, plane;
} batch;

/* Samples of the workers before this one; of all of them. */
size_t lab_before(const batch *, int worker);
size_t lab_samples(const batch *);
/* "3 workers, samples 1, 2, 0; of 3 channels, plane 4" */
const char *lab_batch_text(const batch *);
/* Case i of a row of cases: 1 to 4 workers, some of them without samples. */
batch lab_drawn_batch(size_t i);

/* In lab_run_counted: checks that this rank has made one call. (A single rank need not.) */
gs_status lab_check_one_call(const gs_comm *);

/* check_backward.c: task 14.3. */
gs_status lab_check_backward(void);
