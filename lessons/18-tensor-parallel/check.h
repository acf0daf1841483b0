/* What the checks of lab 18 share. */
#pragma once

#include "tasks.h"

/* Rows of drawn numbers (lab_number, lab_pick). */
enum { SIZES_ROW, X_ROW, W_ROW, B_ROW, DY_ROW, RANKS_ROW, LABELS_ROW, OUTPUTS_ROW, COST_ROW };

enum { MOST_RANKS = 4 };

/* A rank's part of `all` rows or columns. */
typedef struct lab_range {
    size_t first, count;
} lab_range;

static inline lab_range lab_part_of(size_t all, int rank, int ranks) {
    const size_t first = (size_t)rank * all / (size_t)ranks;
    return (lab_range){first, (size_t)(rank + 1) * all / (size_t)ranks - first};
}

/* check_layers.c: tasks 18.2 and 18.3; check_words.c: 18.4 */
gs_status lab_check_forward(void);
gs_status lab_check_backward(void);
gs_status lab_check_words(void);
